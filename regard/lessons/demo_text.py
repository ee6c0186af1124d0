"""Sentences of the demo's grammar as ids, and small models for them, for lessons that train on text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.demo.corpus import Corpus, corpus
from regard.model.config import ModelConfig
from regard.text.collate import TextBatch, collate_windows
from regard.text.tokenizer import Tokenizer

SENTENCES = 6000


@dataclass(frozen=True, eq=False)
class DemoText:
    """English sentences for training, others that training never draws, and their words as ids."""

    tokenizer: Tokenizer
    train: tuple[np.ndarray, ...]
    held_out: tuple[np.ndarray, ...]

    def language_batch(self, sentences: Sequence[np.ndarray]) -> TextBatch:
        """Sentences between start and end: each token is predicted from those before it."""
        first, last = self.tokenizer.start, self.tokenizer.end
        return collate_windows([np.r_[first, ids, last] for ids in sentences], self.tokenizer.pad)

    @torch.no_grad()
    def loss(self, module: nn.Module, sentences: Sequence[np.ndarray]) -> float:
        """The mean loss of a LanguageModeling module, in nats per token."""
        total, count = module(self.language_batch(sentences))
        return float(total / count)

    def config(self, **changes: Any) -> ModelConfig:
        """A decoder of two layers for these sentences, with changed settings."""
        width = changes.get("width", 64)
        settings = {
            "family": "decoder-only", "vocabulary": self.tokenizer.vocabulary, "context": 32, "width": width,
            "layers": 2, "heads": 4, "feed_forward_width": 4 * width, "residual": "pre",
        }  # fmt: skip
        return ModelConfig(**settings | changes)


@cache
def demo_corpus(sentences: int = SENTENCES) -> Corpus:
    """A small corpus of the demo's grammar."""
    return corpus(pairs=sentences)


@cache
def demo_text(family: str = "", sentences: int = SENTENCES) -> DemoText:
    """Sentences of all families of the grammar, or of one."""
    pairs = demo_corpus(sentences)
    train, held_out = (
        [pair.source for pair in part if family in ("", pair.family)]
        for part in (pairs.train, pairs.valid + pairs.test)
    )
    tokenizer = Tokenizer.train(train, kind="word")
    return DemoText(tokenizer, *(tuple(map(np.array, tokenizer.encode_batch(p))) for p in (train, held_out)))


def draw_sentences(
    sentences: Sequence[np.ndarray], rows: int, random: np.random.Generator
) -> list[np.ndarray]:
    """Sentences drawn with replacement."""
    return [sentences[number] for number in random.integers(len(sentences), size=rows)]
