"""BPE dropout: tokens split at random into the tokens they were merged from.

The model sees a word in different segmentations and learns what its parts mean, which helps most with little
text. This form of BPE dropout (Provilkov et al. 2020) works on ids: each token is split into its two parts
with probability `rate`, and so are the parts. Provilkov et al. drop merges while a text is encoded instead.
Seed, epoch, example and position decide every draw, so lengths are known before a batch is collated and
nothing is stored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.errors import SettingError
from regard.text.batches import Augmentation
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizer, Tokenizers

_NOT_MERGED = -1
_CHUNK = 1 << 14  # examples whose lengths are computed together


@dataclass(frozen=True)
class BPEDropout(Augmentation):
    """Splits each token with probability `rate`, other tokens in every epoch. A rate of 0 changes nothing.

    A text that would have `longest` tokens or more stays unsplit. If `epochs` is not 0, only the first
    `epochs` split tokens, so that training ends on text as it is encoded in use.
    """

    rate: float
    tokenizers: Tokenizers
    longest: int
    seed: int
    epochs: int = 0

    def augment_data(self, data: Data) -> Data:
        """The same texts with split tokens."""
        if not self.rate:
            return data
        source, target = self.tokenizers.source, self.tokenizers.target
        tokenizers = {"source": source, "target": target, "text": source}
        columns = dict(data.columns)
        for number, name in enumerate(name for name in tokenizers if name in columns):
            columns[name] = BPEDropoutSequences(
                columns[name].ids,
                columns[name].offsets,
                parts=merged_parts(tokenizers[name]),
                rate=self.rate,
                longest=self.longest,
                seeds=(self.seed, number),
                epochs=self.epochs,
            )
        until = f" until {self.epochs}" if self.epochs else ""
        return replace(data, columns=columns, identity=f"{data.identity} bpe_dropout {self.rate}{until}")


@dataclass(frozen=True, eq=False)
class BPEDropoutSequences(Sequences):
    """Sequences whose tokens are split at random; see BPEDropout."""

    parts: np.ndarray  # V 2
    rate: float
    longest: int
    seeds: tuple[int, ...]
    epochs: int = 0

    def lengths_in(self, epoch: int) -> np.ndarray:
        """The length of each sequence in an epoch."""
        if self._is_unsplit(epoch):
            return self.lengths
        starts = range(0, len(self), _CHUNK)
        chunks = (np.arange(start, min(start + _CHUNK, len(self))) for start in starts)
        lengths = [len(ids) for chunk in chunks for ids in self.take(chunk, epoch)]
        return np.array(lengths, np.int64)

    def take(self, examples: np.ndarray, epoch: int) -> list[np.ndarray]:
        """The ids of these examples, split as in that epoch."""
        unsplit = super().take(examples, epoch)
        if self._is_unsplit(epoch):
            return unsplit
        rows = np.repeat(np.arange(len(unsplit)), [len(ids) for ids in unsplit])
        ids = np.concatenate([np.zeros(0, np.int64), *unsplit], dtype=np.int64)
        is_new, level = np.ones(len(ids), bool), 0
        while True:
            positions = np.arange(len(ids)) - np.searchsorted(rows, rows)
            is_split = is_new & (self.parts[ids, 0] != _NOT_MERGED)
            is_split &= _uniforms(*self.seeds, epoch, level, examples[rows], positions) < self.rate
            if not is_split.any():
                break
            repeated = np.repeat(np.arange(len(ids)), 1 + is_split)
            is_second = np.diff(repeated, prepend=-1) == 0
            is_new, level = is_split[repeated], level + 1  # only parts of this split may split again
            ids = np.where(is_new, self.parts[ids[repeated], is_second.astype(int)], ids[repeated])
            rows = rows[repeated]
        split = np.split(ids, np.searchsorted(rows, np.arange(1, len(unsplit))))
        return [new if len(new) < self.longest else old for new, old in zip(split, unsplit, strict=False)]

    def _is_unsplit(self, epoch: int) -> bool:
        return 0 < self.epochs <= epoch


def has_merges(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer has tokens that can be split."""
    return bool(_model(tokenizer).get("merges"))


def _model(tokenizer: Tokenizer) -> dict[str, Any]:
    return json.loads(tokenizer.to_json())["model"]


def merged_parts(tokenizer: Tokenizer) -> np.ndarray:
    """For each id the two ids that were merged into it, V 2; -1 twice for an id without a merge."""
    model = _model(tokenizer)
    if not model.get("merges"):
        raise SettingError(
            "bpe_dropout needs a tokenizer with merges; set tokenizer.kind to bpe, or bpe_dropout to 0"
        )
    parts = np.full((tokenizer.vocabulary, 2), _NOT_MERGED, np.int64)
    ids = model["vocab"]
    for merge in reversed(model["merges"]):  # the first merge that makes a token is the one used
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        parts[ids[left + right]] = ids[left], ids[right]
    return parts


def _uniforms(*parts: int | np.ndarray) -> np.ndarray:
    """Uniform numbers in [0, 1), hashed from the parts with SplitMix64."""
    mixed = np.zeros(1, np.uint64)
    for part in parts:
        mixed = mixed ^ np.asarray(part, np.uint64)
        mixed = mixed + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return (mixed >> np.uint64(11)) * 2.0**-53
