"""Batches of similar length, resumable at any batch.

Seed and epoch alone decide which examples form a batch and in which order the batches come. A batch is the
data of one training step; the Trainer may split it into smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from regard.errors import CheckpointError, DataError, SettingError
from regard.text.collate import (
    Batch,
    LabelledBatch,
    MaskedBatch,
    ParallelBatch,
    TextBatch,
    collate_labelled,
    collate_masked,
    collate_pairs,
    collate_windows,
)
from regard.text.token_files import Data
from regard.text.tokenizer import Tokenizer, Tokenizers

_WEIGHTS = 3  # distinguishes these random numbers from others of the same seed

BatchType = TypeVar("BatchType", bound=Batch)
BatchType_co = TypeVar("BatchType_co", bound=Batch, covariant=True)


class BatchSource(Protocol[BatchType_co]):
    """An endless, resumable source of training batches.

    After `restore(state)`, an equal source continues with the batch that followed when `state` was called.
    """

    @property
    def epoch(self) -> int:
        """The epoch, from 0, of the latest batch."""
        ...

    def next(self) -> BatchType_co:
        """The batch of the next step."""
        ...

    def state(self) -> dict[str, Any]:
        """The position in the data, as JSON values."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved position."""
        ...


@dataclass(frozen=True, eq=False)
class BatchSampler:
    """The batches of one epoch: batch i has the examples `order[bounds[i] : bounds[i + 1]]`."""

    order: np.ndarray
    bounds: np.ndarray
    padding: float = 0.0  # share of cells without a token

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.order[self.bounds[index] : self.bounds[index + 1]]


@dataclass(frozen=True, eq=False)
class SampledBatch:
    """The examples of one batch by number, its epoch, and its index in the epoch."""

    epoch: int
    index: int
    examples: np.ndarray


class Augmentation(Protocol):
    """A random change of the training data; the same epoch, index and seed give the same change.

    A class derived from it overrides the method it needs.
    """

    def augment_data(self, data: Data) -> Data:
        """The data with other examples or other tokens, before they are sampled by length."""
        return data

    def augment_batch(self, batch: BatchType, sampled: SampledBatch) -> BatchType:
        """A padded batch with other tokens."""
        return batch


class Batches(Generic[BatchType]):
    """A BatchSource that samples the batches of each epoch from a data set and collates them.

    `sample(data, epoch)` gives the batches of an epoch, `collate(data, sampled)` the arrays of one of them.
    `settings` are compared when a saved position is restored.
    """

    def __init__(
        self,
        data: Data,
        sample: Callable[[Data, int], BatchSampler],
        collate: Callable[[Data, SampledBatch], BatchType],
        settings: dict[str, Any],
        augmentations: Sequence[Augmentation] = (),
    ):
        self.data, self.settings, self.augmentations = data, settings, augmentations
        self._sample, self._collate = sample, collate
        self._seek(0, 0)

    def augmented(self, augmentations: Sequence[Augmentation]) -> Batches[BatchType]:
        """The same source with these augmentations, applied in their order."""
        data = self.data
        for augmentation in augmentations:
            data = augmentation.augment_data(data)
        return Batches(data, self._sample, self._collate, self.settings, augmentations)

    @property
    def epoch(self) -> int:
        """The epoch, from 0, of the latest batch."""
        return self._epoch

    @property
    def padding(self) -> float:
        """The share of cells without a token in the batches of this epoch."""
        return self._sampler.padding

    def __len__(self) -> int:
        """The number of batches in this epoch."""
        return len(self._sampler)

    def next(self) -> BatchType:
        """The batch of the next step; the first batch of the next epoch follows the last of this one."""
        if self._index == len(self._sampler):
            self._seek(self._epoch + 1, 0)
        sampled = SampledBatch(self._epoch, self._index, self._sampler[self._index])
        self._index += 1
        return self.fetch(sampled)

    def fetch(self, sampled: SampledBatch) -> BatchType:
        """The arrays of a sampled batch, augmented."""
        batch = self._collate(self.data, sampled)
        for augmentation in self.augmentations:
            batch = augmentation.augment_batch(batch, sampled)
        return batch

    def __iter__(self) -> Iterator[BatchType]:
        """The rest of this epoch, or the whole next epoch if this one is complete."""
        yield self.next()
        while self._index < len(self._sampler):
            yield self.next()

    def state(self) -> dict[str, Any]:
        """The position in the data, as JSON values."""
        return {"epoch": self._epoch, "index": self._index, **self._identity()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved position, without reading the batches before it."""
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise CheckpointError(
                    f"the saved order of batches has {name} {state.get(name)!r} and this one {value!r}; "
                    "resume with the same data and settings, or start a new run"
                )
        epoch, index = state.get("epoch"), state.get("index")
        if not isinstance(epoch, int) or not isinstance(index, int) or epoch < 0 or index < 0:
            raise CheckpointError(
                f"the saved position in the data is not valid: epoch {epoch!r}, index {index!r}; "
                "resume from another checkpoint"
            )
        self._seek(epoch, index)

    def _identity(self) -> dict[str, Any]:
        return {"data": self.data.identity, **self.settings}

    def _seek(self, epoch: int, index: int) -> None:
        self._epoch, self._index, self._sampler = epoch, index, self._sample(self.data, epoch)
        if index > len(self._sampler):
            raise CheckpointError(
                f"the saved position is batch {index} of epoch {epoch}, which has {len(self._sampler)} "
                "batches; resume from another checkpoint"
            )


def parallel_batches(
    data: Data, tokenizers: Tokenizers, batch_tokens: int = 4096, seed: int = 1
) -> Batches[ParallelBatch]:
    """Pairs of similar length; no side of a batch has more than `batch_tokens` cells."""

    def collate(data: Data, sampled: SampledBatch) -> ParallelBatch:
        sources, targets = (data[side].take(sampled.examples, sampled.epoch) for side in ("source", "target"))
        return collate_pairs(sources, targets, tokenizers.source, tokenizers.target)

    return _by_length(data, ("source", "target"), 1, batch_tokens, seed, collate)


def labelled_batches(
    data: Data, tokenizer: Tokenizer, batch_tokens: int = 4096, seed: int = 1
) -> Batches[LabelledBatch]:
    """Labelled texts of similar length; no batch has more than `batch_tokens` cells."""

    def collate(data: Data, sampled: SampledBatch) -> LabelledBatch:
        texts = data["text"].take(sampled.examples, sampled.epoch)
        return collate_labelled(texts, (data["label"][i][0] for i in sampled.examples), tokenizer)

    return _by_length(data, ("text",), 2, batch_tokens, seed, collate)


def masked_batches(
    data: Data, tokenizer: Tokenizer, batch_tokens: int = 4096, seed: int = 1
) -> Batches[MaskedBatch]:
    """Texts of similar length; every epoch masks other tokens."""

    def collate(data: Data, sampled: SampledBatch) -> MaskedBatch:
        random = np.random.default_rng([seed, sampled.epoch, sampled.index, 1])
        return collate_masked(data["text"].take(sampled.examples, sampled.epoch), tokenizer, random)

    return _by_length(data, ("text",), 2, batch_tokens, seed, collate)


def window_batches(
    data: Data, tokenizer: Tokenizer, context: int, batch_tokens: int = 4096, seed: int = 1
) -> Batches[TextBatch]:
    """Running text in windows of `context` tokens; every epoch starts at another offset."""
    if len(data["text"].ids) <= context:
        raise DataError(
            f"the text has {len(data['text'].ids)} tokens, too few for a window of {context}; give more text"
        )
    _check(batch_tokens, seed)

    def sample(data: Data, epoch: int) -> BatchSampler:
        random, count = np.random.default_rng([seed, epoch]), len(data["text"].ids)
        offset = random.integers(min(context, count - context))
        starts = np.arange(offset, count - context, context)
        if data.weights:
            starts = starts[_drawn(data, starts, seed, epoch)]
        bounds = np.append(np.arange(0, len(starts), max(1, batch_tokens // context)), len(starts))
        return BatchSampler(random.permutation(starts), bounds)

    def collate(data: Data, sampled: SampledBatch) -> TextBatch:
        ids = data["text"].ids
        return collate_windows([ids[i : i + context + 1] for i in sampled.examples], tokenizer.pad)

    return Batches(data, sample, collate, {"tokens": batch_tokens, "seed": seed, "context": context})


def scoring_windows(
    ids: np.ndarray, tokenizer: Tokenizer, context: int, rows: int = 32, before: int | None = None
) -> Iterator[TextBatch]:
    """Running text in order, in windows of at most `context` tokens; each token is predicted once.

    The first token is scored only if `before` gives a token to precede it. End tokens between documents are
    part of the input and are not scored. Ids are read as they are needed, since they may not fit in memory.
    """
    end_id = tokenizer.specials.get("end", -1)
    lead = [] if before is None else [before]
    starts = range(0, len(ids) + len(lead) - 1, context)

    def window(start: int) -> np.ndarray:
        begin = start - len(lead)
        end = begin + context + 1
        return np.concatenate([lead, ids[:end]]) if begin < 0 else ids[begin:end]

    for first in range(0, len(starts), rows):
        batch = collate_windows([window(start) for start in starts[first : first + rows]], tokenizer.pad)
        yield replace(batch, keys=batch.keys & (batch.output != end_id))


def _by_length(
    data: Data,
    columns: Sequence[str],
    special_tokens: int,
    batch_tokens: int,
    seed: int,
    collate: Callable[[Data, SampledBatch], BatchType],
) -> Batches[BatchType]:
    """Batches sampled by the lengths of these columns, with the special tokens added to each text."""
    _check(batch_tokens, seed)

    def sample(data: Data, epoch: int) -> BatchSampler:
        lengths = np.stack([data[column].lengths_in(epoch) for column in columns]) + special_tokens
        if not data.weights:
            return sample_by_length(lengths, batch_tokens, seed, epoch)
        # Examples in both directions follow each other, so that there may be twice as many as starts.
        starts = np.resize(data[columns[0]].offsets[:-1], lengths.shape[1])
        drawn = _drawn(data, starts, seed, epoch)
        sampler = sample_by_length(lengths[:, drawn], batch_tokens, seed, epoch)
        return replace(sampler, order=drawn[sampler.order])

    return Batches(data, sample, collate, {"tokens": batch_tokens, "seed": seed})


def _drawn(data: Data, starts: np.ndarray, seed: int, epoch: int) -> np.ndarray:
    """The examples of an epoch by number, each as often as its weight says.

    `starts` has the position of each example in the ids. Of a weight with a fraction, that share of the
    examples is drawn once more; the epochs go round all of them in an order that the seed decides.
    """
    entries, drawn = data.entries(starts), [np.zeros(0, np.int64)]
    for entry, weight in enumerate(data.weights):
        examples = np.flatnonzero(entries == entry)
        count = round(weight % 1 * len(examples))
        order = np.random.default_rng([seed, entry, _WEIGHTS]).permutation(examples)
        turn = np.arange(epoch * count, (epoch + 1) * count)
        drawn += [examples] * int(weight) + [np.take(order, turn, mode="wrap")]
    return np.concatenate(drawn)


def _check(batch_tokens: int, seed: int) -> None:
    if batch_tokens < 1 or seed < 0:
        raise SettingError(f"batch_tokens ({batch_tokens}) must be at least 1 and seed ({seed}) at least 0")


def sample_by_length(lengths: np.ndarray, batch_tokens: int, seed: int, epoch: int) -> BatchSampler:
    """Examples sorted by length, divided into batches of at most `batch_tokens` cells a side, and shuffled.

    `lengths` has a row for each side. Examples of equal length are in random order, so every epoch forms
    other batches. An example longer than `batch_tokens` is a batch of its own.
    """
    random = np.random.default_rng([seed, epoch])
    order = _sorted_by_length(lengths, random.permutation(lengths.shape[1]))
    bounds = _batch_bounds(lengths.max(0)[order], batch_tokens)
    sizes = np.diff(bounds)
    cells = sum((np.maximum.reduceat(side[order], bounds[:-1]) * sizes).sum() for side in lengths)
    shuffled = random.permutation(len(sizes))
    batches = [order[bounds[i] : bounds[i + 1]] for i in shuffled]
    padding = 1 - float(lengths.sum() / cells)
    return BatchSampler(np.concatenate(batches), np.append(0, np.cumsum(sizes[shuffled])), padding)


def _sorted_by_length(lengths: np.ndarray, shuffled: np.ndarray) -> np.ndarray:
    """Sort by the longer side, then by the difference, alternately up and down to reduce padding."""
    longer = lengths.max(0)[shuffled]
    difference = (lengths[0] - lengths[-1])[shuffled]
    return shuffled[np.lexsort((np.where(longer % 2, difference, -difference), longer))]


def _batch_bounds(lengths: np.ndarray, batch_tokens: int) -> np.ndarray:
    """Bounds of the largest batches that fit; lengths ascend, so the last of a batch is its longest."""
    bounds = [0]
    while bounds[-1] < len(lengths):
        ahead = lengths[bounds[-1] : bounds[-1] + batch_tokens]
        fitting = np.searchsorted(ahead * np.arange(1, len(ahead) + 1), batch_tokens, side="right")
        bounds.append(bounds[-1] + max(1, int(fitting)))
    return np.array(bounds)
