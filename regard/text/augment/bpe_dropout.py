"""Other spellings of the same text while a model trains: tokens fall apart into those they were merged from.

A model then meets a word in many pieces instead of one and learns what its parts mean, which is worth most
where text is little. It is a form of BPE dropout (Provilkov et al. 2020) that works on ids: each token
breaks into its two halves with a given chance, and so do the halves. Seed, epoch and the token's place
alone decide, so that lengths are known before a batch is made and nothing has to be kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from regard.errors import SettingError
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizer, Tokenizers

_WHOLE = -1  # in a table of halves: nothing was merged
_AT_ONCE = 1 << 14  # examples whose lengths are worked out together


def respelled(
    data: Data, share: float, tokenizers: Tokenizers, longest: int, seed: int, epochs: int = 0
) -> Data:
    """The same data with that share of the tokens broken up, other ones in every epoch.

    A text that would have `longest` tokens or more is left as it is, and so is every text after the first
    `epochs`, where they are given: the model then ends on text as it will meet it.
    """
    if not share:
        return data
    spelled_by = {"source": tokenizers.source, "target": tokenizers.target, "text": tokenizers.source}
    columns = dict(data.columns)
    for number, name in enumerate(name for name in spelled_by if name in columns):
        ids, offsets = columns[name].ids, columns[name].offsets
        halves = halves_of(spelled_by[name])
        columns[name] = Respelled(ids, offsets, halves, share, longest, (seed, number), epochs)
    until = f" until {epochs}" if epochs else ""
    return Data(columns, data.report, f"{data.identity} respelled {share}{until}")


@dataclass(frozen=True, eq=False)
class Respelled(Sequences):
    """Sequences whose tokens break with the chance `share`, in each epoch others."""

    halves: np.ndarray  # V 2
    share: float
    longest: int
    salt: tuple[int, ...]  # what tells these draws from others
    epochs: int = 0  # after so many, texts are whole; 0: never

    def lengths_in(self, epoch: int) -> np.ndarray:
        """How many ids each text has in that epoch."""
        if self._is_whole(epoch):
            return self.lengths
        count = len(self)
        blocks = (range(start, min(start + _AT_ONCE, count)) for start in range(0, count, _AT_ONCE))
        lengths = [len(text) for block in blocks for text in self.texts(np.array(block), epoch)]
        return np.array(lengths, np.int64)

    def texts(self, examples: np.ndarray, epoch: int) -> list[np.ndarray]:
        """The ids of these examples as that epoch spells them."""
        whole = super().texts(examples, epoch)
        if self._is_whole(epoch):
            return whole
        rows = np.repeat(np.arange(len(whole)), [len(text) for text in whole])
        ids = np.concatenate([np.zeros(0, np.int64), *whole], dtype=np.int64)
        fresh, level = np.ones(len(ids), bool), 0
        while True:
            places = np.arange(len(ids)) - np.searchsorted(rows, rows)
            broken = fresh & (self.halves[ids, 0] != _WHOLE)
            broken &= _draws(*self.salt, epoch, level, examples[rows], places) < self.share
            if not broken.any():
                break
            again = np.repeat(np.arange(len(ids)), 1 + broken)
            second = np.diff(again, prepend=-1) == 0
            fresh, level = broken[again], level + 1  # only what has just broken may break again
            ids = np.where(fresh, self.halves[ids[again], second.astype(int)], ids[again])
            rows = rows[again]
        found = np.split(ids, np.searchsorted(rows, np.arange(1, len(whole))))
        return [new if len(new) < self.longest else old for new, old in zip(found, whole, strict=False)]

    def _is_whole(self, epoch: int) -> bool:
        return 0 < self.epochs <= epoch


def halves_of(tokenizer: Tokenizer) -> np.ndarray:
    """For each id the two that were merged into it, V 2; -1 twice where nothing was."""
    model = json.loads(tokenizer.to_json())["model"]
    if not model.get("merges"):
        raise SettingError("respell: this tokenizer merges nothing; take kind bpe, or leave it at 0")
    halves = np.full((tokenizer.vocabulary, 2), _WHOLE, np.int64)
    numbers = model["vocab"]
    for merge in reversed(model["merges"]):  # the first that makes a token counts
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        halves[numbers[left + right]] = numbers[left], numbers[right]
    return halves


def _draws(*parts: int | np.ndarray) -> np.ndarray:
    """Numbers from 0 to 1 that the parts alone decide, each part mixed in as SplitMix64 does."""
    mixed = np.zeros(1, np.uint64)
    for part in parts:
        mixed = mixed ^ np.asarray(part, np.uint64)
        mixed = mixed + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return (mixed >> np.uint64(11)) * 2.0**-53
