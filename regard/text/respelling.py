"""Other spellings of the same text while a model trains: tokens fall apart into those they were merged from.

A model then meets a word in many pieces instead of one and learns what its parts mean, which is worth most
where text is little. It is a form of BPE dropout (Provilkov et al. 2020) that works on ids: each token
breaks into its two halves with a given chance, and so do the halves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from regard.errors import SettingError
from regard.text.batches import Batches, Made, Step
from regard.text.collate import LabelledBatch, ParallelBatch, collate_labelled, collate_pairs
from regard.text.pair import Tokenizers
from regard.text.tokenizer import Tokenizer

_OWN_RANDOM = 3  # tells these draws from others of the same step
_WHOLE = -1  # in a table of halves: nothing was merged


def respelling(
    batches: Batches[Made], share: float, tokenizers: Tokenizers, longest: int, seed: int
) -> Batches[Made]:
    """The same batches with that share of the tokens broken up, other ones in every epoch.

    A text that would have `longest` tokens or more is left as it is.
    """
    if not share:
        return batches
    sides = {id(side): Speller(side) for side in (tokenizers.source, tokenizers.target)}
    source, target = sides[id(tokenizers.source)], sides[id(tokenizers.target)]
    fetch = batches.fetch

    def fetch_respelled(step: Step) -> Made:
        random = np.random.default_rng([seed, step.epoch, step.index, _OWN_RANDOM])
        return _respelled(fetch(step), source, target, share, longest, random)

    batches.fetch = fetch_respelled
    return batches


class Speller:
    """Breaks tokens of one vocabulary into those they were merged from."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer, self.halves = tokenizer, halves_of(tokenizer)
        if (self.halves == _WHOLE).all():
            raise SettingError("respell: this tokenizer merges nothing; take kind bpe, or leave it at 0")

    def respell(
        self, texts: Sequence[np.ndarray], share: float, longest: int, random: np.random.Generator
    ) -> list[np.ndarray]:
        """Each text's ids with tokens broken at random."""
        lengths = np.array([len(text) for text in texts], np.int64)
        ids = np.concatenate(texts).astype(np.int64) if len(texts) else np.zeros(0, np.int64)
        rows, open_to = np.repeat(np.arange(len(texts)), lengths), np.ones(len(ids), bool)
        while True:
            broken = open_to & (self.halves[ids, 0] != _WHOLE)
            broken &= random.random(len(ids)) < share
            if not broken.any():
                break
            again = np.repeat(np.arange(len(ids)), 1 + broken)
            second = np.append(False, again[1:] == again[:-1])
            open_to = broken[again]  # only what has just broken may break again
            ids = np.where(open_to, self.halves[ids[again], second.astype(int)], ids[again])
            rows = rows[again]
        found = np.split(ids, np.searchsorted(rows, np.arange(1, len(texts)))) if len(texts) else []
        return [new if len(new) < longest else np.asarray(old) for new, old in zip(found, texts, strict=True)]


def halves_of(tokenizer: Tokenizer) -> np.ndarray:
    """For each id the two that were merged into it, V 2; -1 twice where nothing was."""
    model = json.loads(tokenizer.to_json())["model"]
    halves = np.full((tokenizer.vocabulary, 2), _WHOLE, np.int64)
    numbers = model.get("vocab", {})
    for merge in reversed(model.get("merges", [])):  # the first that makes a token counts
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        halves[numbers[left + right]] = numbers[left], numbers[right]
    return halves


def _respelled(
    batch: Made, source: Speller, target: Speller, share: float, longest: int, random: np.random.Generator
) -> Made:
    if isinstance(batch, ParallelBatch):
        sources = source.respell(_rows(batch.source, batch.source_keys, 0, 1), share, longest, random)
        targets = target.respell(_rows(batch.target_out, batch.target_keys, 0, 1), share, longest, random)
        return collate_pairs(sources, targets, source.tokenizer, target.tokenizer)  # pyright: ignore[reportReturnType]
    if isinstance(batch, LabelledBatch):
        texts = source.respell(_rows(batch.input, batch.keys, 1, 1), share, longest - 1, random)
        return collate_labelled(texts, batch.labels, source.tokenizer)  # pyright: ignore[reportReturnType]
    raise SettingError(f"a {type(batch).__name__} cannot be respelled; leave respell at 0")


def _rows(ids: np.ndarray, keys: np.ndarray, before: int, after: int) -> list[np.ndarray]:
    """The texts of a batch, without what was put before and after them."""
    return [row[before : length - after] for row, length in zip(ids, keys.sum(1), strict=True)]
