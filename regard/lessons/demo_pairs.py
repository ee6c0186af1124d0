"""A reduced demo corpus for lessons that translate: English sentences of few families, and their French."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.demo.corpus import Corpus, corpus
from regard.demo.grammar import FAMILIES
from regard.text.collate import ParallelBatch, collate_pairs
from regard.text.tokenizer import Tokenizer

KEPT = ("it", "bank")  # families of sentences


@dataclass(frozen=True)
class DemoPairs:
    """Pairs of sentences as ids, with one tokenizer of words for both languages."""

    count: int
    rows: int = 32

    @cached_property
    def corpus(self) -> Corpus:
        """Training and test sentences; the latter have combinations of words that the former do not have."""
        return corpus(pairs=self.count, weights=dict.fromkeys(set(FAMILIES) - set(KEPT), 0.0))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Every word of the training sentences, in lower case."""
        texts = [text for pair in self.corpus.train for text in (pair.source, pair.target)]
        return Tokenizer.train(texts, kind="word", lowercase=True)

    @cached_property
    def _ids(self) -> tuple[list[list[int]], list[list[int]]]:
        train = self.corpus.train
        return (
            self.tokenizer.encode_batch([pair.source for pair in train]),
            self.tokenizer.encode_batch([pair.target for pair in train]),
        )

    def draw(self, random: np.random.Generator) -> ParallelBatch:
        """A batch of training sentences."""
        chosen = random.integers(self.count, size=self.rows)
        sources, targets = ([np.array(ids[number]) for number in chosen] for ids in self._ids)
        return collate_pairs(sources, targets, self.tokenizer, self.tokenizer)

    def batch(self, pairs: list[tuple[str, str]]) -> ParallelBatch:
        """Sentences with their translations as one batch."""
        sources, targets = (
            [np.array(ids) for ids in self.tokenizer.encode_batch(texts)]
            for texts in zip(*pairs, strict=True)
        )
        return collate_pairs(sources, targets, self.tokenizer, self.tokenizer)

    def words(self, ids: np.ndarray) -> list[str]:
        """The words of one row of ids."""
        return [self.tokenizer.decode([number]) or "end" for number in ids]
