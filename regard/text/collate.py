"""Hiding tokens for a masked model to guess, as BERT does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from regard.text.tokenizer import Tokenizer

Some = TypeVar("Some", bound="Batch")


class Batch(Protocol):
    """What all batches offer: rows, the tokens to be scored, and being cut into smaller ones."""

    @property
    def rows(self) -> int:
        """How many sequences there are."""
        ...

    @property
    def tokens(self) -> int:
        """How many predictions are scored."""
        ...

    def split(self: Some, parts: int) -> list[Some]:
        """The rows in order in at most that many batches, none empty, each only as wide as it needs."""
        ...


@dataclass(frozen=True, eq=False)
class ParallelBatch:
    """Pairs: the source ends with end; target_in begins with start, target_out is it moved one left."""

    source: np.ndarray  # B S
    source_keys: np.ndarray  # B S
    target_in: np.ndarray  # B T
    target_out: np.ndarray  # B T
    target_keys: np.ndarray  # B T

    _widths: ClassVar = {"source": "source_keys", "target_in": "target_keys", "target_out": "target_keys"}

    @property
    def rows(self) -> int:
        """How many pairs there are."""
        return len(self.source)

    @property
    def tokens(self) -> int:
        """How many target tokens are predicted."""
        return int(self.target_keys.sum())

    def split(self, parts: int) -> list[ParallelBatch]:
        """The rows in order in at most that many batches, none empty."""
        return _split(self, parts)


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Text to continue: output is input moved one to the left."""

    input: np.ndarray  # B T
    output: np.ndarray  # B T
    keys: np.ndarray  # B T

    _widths: ClassVar = {"input": "keys", "output": "keys"}

    @property
    def rows(self) -> int:
        """How many stretches of text there are."""
        return len(self.input)

    @property
    def tokens(self) -> int:
        """How many tokens are predicted."""
        return int(self.keys.sum())

    def split(self, parts: int) -> list[TextBatch]:
        """The rows in order in at most that many batches, none empty."""
        return _split(self, parts)


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Text with gaps: output is the whole text, of which only the chosen places are scored."""

    input: np.ndarray  # B T
    output: np.ndarray  # B T
    chosen: np.ndarray  # B T
    keys: np.ndarray  # B T

    _widths: ClassVar = {"input": "keys", "output": "keys", "chosen": "keys"}

    @property
    def rows(self) -> int:
        """How many texts there are."""
        return len(self.input)

    @property
    def tokens(self) -> int:
        """How many tokens are to be guessed."""
        return int(self.chosen.sum())

    def split(self, parts: int) -> list[MaskedBatch]:
        """The rows in order in at most that many batches, none empty."""
        return _split(self, parts)


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """Texts between start and end, with the number of each one's label."""

    input: np.ndarray  # B T
    keys: np.ndarray  # B T
    labels: np.ndarray  # B

    _widths: ClassVar = {"input": "keys"}

    @property
    def rows(self) -> int:
        """How many texts there are."""
        return len(self.input)

    @property
    def tokens(self) -> int:
        """How many labels are predicted."""
        return len(self.labels)

    def split(self, parts: int) -> list[LabelledBatch]:
        """The rows in order in at most that many batches, none empty."""
        return _split(self, parts)


def collate_pairs(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], source: Tokenizer, target: Tokenizer
) -> ParallelBatch:
    """Pairs of ids as a batch; the tokenizers say what pads, starts and ends."""
    target_in = pad(targets, target.pad, first=target.start)
    return ParallelBatch(
        source=pad(sources, source.pad, last=source.end),
        source_keys=existing(sources, extra=1),
        target_in=target_in,
        target_out=pad(targets, target.pad, last=target.end),
        target_keys=existing(targets, extra=1),
    )


def collate_windows(windows: Sequence[np.ndarray], pad_id: int) -> TextBatch:
    """Stretches of n + 1 ids as n inputs and the n outputs that follow them."""
    inputs = [window[:-1] for window in windows]
    return TextBatch(pad(inputs, pad_id), pad([window[1:] for window in windows], pad_id), existing(inputs))


def collate_labelled(
    texts: Sequence[np.ndarray], labels: Iterable[int], tokenizer: Tokenizer
) -> LabelledBatch:
    """Texts and labels as a batch."""
    return LabelledBatch(
        input=pad(texts, tokenizer.pad, first=tokenizer.start, last=tokenizer.end),
        keys=existing(texts, extra=2),
        labels=np.fromiter(labels, np.int64),
    )


def pad(
    sequences: Sequence[np.ndarray], pad_id: int, first: int | None = None, last: int | None = None
) -> np.ndarray:
    """Sequences as rows of one array, each between first and last where given, padded on the right."""
    before, after = int(first is not None), int(last is not None)
    width = max((len(one) for one in sequences), default=0) + before + after
    padded = np.full((len(sequences), width), pad_id, np.int64)
    for row, one in zip(padded, sequences, strict=True):
        row[before : before + len(one)] = one
        if last is not None:
            row[before + len(one)] = last
    if first is not None:
        padded[:, 0] = first
    return padded


def existing(sequences: Sequence[np.ndarray], extra: int = 0) -> np.ndarray:
    """True where a padded row has a token, with so many added to each."""
    lengths = np.array([len(one) + extra for one in sequences], np.int64)
    return np.arange(lengths.max(initial=0)) < lengths[:, None]


def _split(batch: Some, parts: int) -> list[Some]:
    """Each part keeps the columns in which it has a key; arrays without keys have no columns."""
    made: list[Some] = []
    for rows in np.array_split(np.arange(batch.rows), parts):
        if not len(rows):
            continue
        arrays: dict[str, np.ndarray] = {}
        for field in fields(batch):  # pyright: ignore[reportArgumentType]
            name = field.name
            array = getattr(batch, name)[rows]
            keys = batch._widths.get(name, name)  # pyright: ignore[reportAttributeAccessIssue]
            width = int(getattr(batch, keys)[rows].sum(1).max()) if array.ndim > 1 else None
            arrays[name] = array if width is None else array[:, :width]
        made.append(type(batch)(**arrays))
    return made


CHOSEN_SHARE = 0.15
MASKED_SHARE = 0.8
RANDOM_SHARE = 0.1


def collate_masked(
    texts: Sequence[np.ndarray], tokenizer: Tokenizer, random: np.random.Generator
) -> MaskedBatch:
    """Texts between start and end, a share of their tokens chosen to be guessed.

    Of the chosen, eight in ten become the mask, one in ten another token, and one in ten stay as they are.
    Start, end and padding are never chosen, nor is an end between two documents, and something always is.
    """
    output = pad(texts, tokenizer.pad, first=tokenizer.start, last=tokenizer.end)
    chosen = _choose(_text_places(texts, output.shape) & (output != tokenizer.end), random)
    fate = random.random(output.shape)
    others = random.choice(_ordinary(tokenizer), output.shape)
    changed = np.where(fate < MASKED_SHARE, tokenizer.mask, others)
    stays = fate >= MASKED_SHARE + RANDOM_SHARE
    return MaskedBatch(np.where(chosen & ~stays, changed, output), output, chosen, existing(texts, extra=2))


def _text_places(texts: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    lengths = np.array([len(text) for text in texts])[:, None]
    column = np.arange(shape[1])
    return (column >= 1) & (column <= lengths)


def _choose(allowed: np.ndarray, random: np.random.Generator) -> np.ndarray:
    draws = np.where(allowed, random.random(allowed.shape), 2.0)
    chosen = draws < CHOSEN_SHARE
    if not chosen.any() and allowed.any():
        chosen.flat[draws.argmin()] = True
    return chosen


def _ordinary(tokenizer: Tokenizer) -> np.ndarray:
    """All ids but the special ones."""
    return np.setdiff1d(np.arange(tokenizer.vocabulary), list(tokenizer.specials.values()))
