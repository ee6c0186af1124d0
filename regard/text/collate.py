"""Collating: token ids as padded arrays, and the masking of masked language models.

B batch, S source positions, T target or text positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

import numpy as np

from regard.text.tokenizer import Tokenizer

CHOSEN_SHARE = 0.15  # of all tokens, as in BERT
MASKED_SHARE = 0.8  # of the chosen tokens
RANDOM_SHARE = 0.1  # of the chosen tokens


@dataclass(frozen=True, eq=False)
class Batch:
    """Padded arrays with one row per example; `tokens` is the number of predictions in the loss."""

    _masks: ClassVar[dict[str, str]] = {}  # the arrays that are padded, with the names of their masks

    @property
    def rows(self) -> int:
        """The number of examples."""
        return len(getattr(self, fields(self)[0].name))

    @property
    def tokens(self) -> int:
        """The number of predictions in the loss."""
        raise NotImplementedError

    def split(self, parts: int) -> list[Self]:
        """The rows in order, as at most `parts` batches; each is as wide as its longest row."""
        indices = np.array_split(np.arange(self.rows), parts)
        return [self._take(rows) for rows in indices if len(rows)]

    def _take(self, rows: np.ndarray) -> Self:
        arrays = {field.name: getattr(self, field.name)[rows] for field in fields(self)}
        for name, array in arrays.items():
            if array.ndim in (2, 3):  # images, B C height width, have no padding
                mask = getattr(self, self._masks.get(name, name))[rows]
                arrays[name] = array[:, : int(mask.sum(1).max())]
        return replace(self, **arrays)


@dataclass(frozen=True, eq=False)
class ParallelBatch(Batch):
    """Pairs: source ends with the end token, target_in begins with start, target_out is shifted by one."""

    source: np.ndarray  # B S
    source_keys: np.ndarray  # B S
    target_in: np.ndarray  # B T
    target_out: np.ndarray  # B T
    target_keys: np.ndarray  # B T

    _masks: ClassVar = {"source": "source_keys", "target_in": "target_keys", "target_out": "target_keys"}

    @property
    def tokens(self) -> int:
        """The number of target tokens."""
        return int(self.target_keys.sum())


@dataclass(frozen=True, eq=False)
class TextBatch(Batch):
    """Text for a language model: output is input shifted by one."""

    input: np.ndarray  # B T
    output: np.ndarray  # B T
    keys: np.ndarray  # B T

    _masks: ClassVar = {"input": "keys", "output": "keys"}

    @property
    def tokens(self) -> int:
        """The number of predicted tokens."""
        return int(self.keys.sum())


@dataclass(frozen=True, eq=False)
class MaskedBatch(Batch):
    """Masked text: output is the unmasked text, of which only the chosen positions are predicted."""

    input: np.ndarray  # B T
    output: np.ndarray  # B T
    chosen: np.ndarray  # B T
    keys: np.ndarray  # B T

    _masks: ClassVar = {"input": "keys", "output": "keys", "chosen": "keys"}

    @property
    def tokens(self) -> int:
        """The number of chosen tokens."""
        return int(self.chosen.sum())


@dataclass(frozen=True, eq=False)
class LabelledBatch(Batch):
    """Texts between start and end, with the index of each label."""

    input: np.ndarray  # B T
    keys: np.ndarray  # B T
    labels: np.ndarray  # B

    _masks: ClassVar = {"input": "keys"}

    @property
    def tokens(self) -> int:
        """The number of labels."""
        return len(self.labels)


def collate_pairs(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], source: Tokenizer, target: Tokenizer
) -> ParallelBatch:
    """Pairs of ids as a batch, with the special tokens of the tokenizers."""
    target_in = pad(targets, target.pad, first=target.start)
    return ParallelBatch(
        source=pad(sources, source.pad, last=source.end),
        source_keys=token_mask(sources, extra=1),
        target_in=target_in,
        target_out=pad(targets, target.pad, last=target.end),
        target_keys=token_mask(targets, extra=1),
    )


def collate_windows(windows: Sequence[np.ndarray], pad_id: int) -> TextBatch:
    """Windows of n + 1 ids as n inputs and the n outputs after them."""
    inputs = [window[:-1] for window in windows]
    return TextBatch(pad(inputs, pad_id), pad([window[1:] for window in windows], pad_id), token_mask(inputs))


def collate_labelled(
    texts: Sequence[np.ndarray], labels: Iterable[int], tokenizer: Tokenizer
) -> LabelledBatch:
    """Texts and labels as a batch."""
    return LabelledBatch(
        input=pad(texts, tokenizer.pad, first=tokenizer.start, last=tokenizer.end),
        keys=token_mask(texts, extra=2),
        labels=np.fromiter(labels, np.int64),
    )


def pad(
    sequences: Sequence[np.ndarray], pad_id: int, first: int | None = None, last: int | None = None
) -> np.ndarray:
    """Sequences as rows of an array, between `first` and `last` if given, padded on the right."""
    before, after = int(first is not None), int(last is not None)
    width = max(map(len, sequences), default=0) + before + after
    padded = np.full((len(sequences), width), pad_id, np.int64)
    for row, ids in zip(padded, sequences, strict=True):
        row[before : before + len(ids)] = ids
        if last is not None:
            row[before + len(ids)] = last
    if first is not None:
        padded[:, 0] = first
    return padded


def token_mask(sequences: Sequence[np.ndarray], extra: int = 0) -> np.ndarray:
    """True where a padded row has a token; `extra` special tokens are added to each sequence."""
    lengths = np.array([len(ids) + extra for ids in sequences], np.int64)
    return np.arange(lengths.max(initial=0)) < lengths[:, None]


def collate_masked(
    texts: Sequence[np.ndarray], tokenizer: Tokenizer, random: np.random.Generator
) -> MaskedBatch:
    """Texts between start and end, with tokens chosen for prediction as in BERT.

    Of the chosen tokens 80% become the mask token, 10% a random token, and 10% stay unchanged. Start, end,
    padding and the end tokens between documents are not chosen. At least one token is.
    """
    output = pad(texts, tokenizer.pad, first=tokenizer.start, last=tokenizer.end)
    chosen = _choose(_text_mask(texts, output.shape) & (output != tokenizer.end), random)
    draws = random.random(output.shape)
    random_ids = random.choice(_ordinary_ids(tokenizer), output.shape)
    replaced = np.where(draws < MASKED_SHARE, tokenizer.mask, random_ids)
    is_kept = draws >= MASKED_SHARE + RANDOM_SHARE
    masked = np.where(chosen & ~is_kept, replaced, output)
    return MaskedBatch(masked, output, chosen, token_mask(texts, extra=2))


def _text_mask(texts: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    lengths = np.array([len(text) for text in texts])[:, None]
    column = np.arange(shape[1])
    return (column >= 1) & (column <= lengths)


def _choose(allowed: np.ndarray, random: np.random.Generator) -> np.ndarray:
    draws = np.where(allowed, random.random(allowed.shape), 2.0)
    chosen = draws < CHOSEN_SHARE
    if not chosen.any() and allowed.any():
        chosen.flat[draws.argmin()] = True
    return chosen


def _ordinary_ids(tokenizer: Tokenizer) -> np.ndarray:
    """All ids except special tokens."""
    return np.setdiff1d(np.arange(tokenizer.vocabulary), list(tokenizer.specials.values()))
