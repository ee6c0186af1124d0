"""Batches of about equal work in an order that seed and epoch alone decide, resumable at any of them.

A step is one list of examples; whoever trains may cut its batch into smaller ones, or among machines.
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
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizer, Tokenizers

Made = TypeVar("Made", bound=Batch)
Given = TypeVar("Given", bound=Batch, covariant=True)


class BatchSource(Protocol[Given]):
    """What training takes its batches from: endless, and able to go on from where it stood.

    After `restore(state)` of an equal source, `next` gives what it would have given when `state` was asked.
    """

    @property
    def epoch(self) -> int:
        """The pass over the data, from 0, that the latest batch belongs to."""
        ...

    def next(self) -> Given:
        """The batch of the next step."""
        ...

    def state(self) -> dict[str, Any]:
        """Where the source stands, as a few values that JSON can hold."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Stand where that state says."""
        ...


@dataclass(frozen=True, eq=False)
class Plan:
    """The steps of one epoch: step i takes the examples `order[bounds[i] : bounds[i + 1]]`."""

    order: np.ndarray
    bounds: np.ndarray
    padding: float = 0.0

    def __len__(self) -> int:
        return len(self.bounds) - 1


@dataclass(frozen=True, eq=False)
class Step:
    """One step's examples by number, and where in training it falls."""

    epoch: int
    index: int
    examples: np.ndarray


class Batches(Generic[Made]):
    """A BatchSource made of a plan for each epoch and a way to fetch a step's batch."""

    def __init__(self, plan: Callable[[int], Plan], fetch: Callable[[Step], Made], identity: dict[str, Any]):
        self._make_plan = plan
        self.fetch = fetch
        self._identity = identity
        self._stand_at(0, 0)

    @property
    def epoch(self) -> int:
        """The pass over the data, from 0, that the latest batch belongs to."""
        return self._epoch

    @property
    def padding(self) -> float:
        """The share of this epoch's cells that hold no token."""
        return self._plan.padding

    def __len__(self) -> int:
        """How many steps this epoch has."""
        return len(self._plan)

    def next_step(self) -> Step:
        """The examples of the next step, which counts as taken."""
        if self._index == len(self._plan):
            self._stand_at(self._epoch + 1, 0)
        begin, end = self._plan.bounds[self._index : self._index + 2]
        step = Step(self._epoch, self._index, self._plan.order[begin:end])
        self._index += 1
        return step

    def next(self) -> Made:
        """The batch of the next step; after an epoch's last comes the next epoch's first."""
        return self.fetch(self.next_step())

    def __iter__(self) -> Iterator[Made]:
        """The rest of this epoch, or all of the next one where this one is done."""
        yield self.next()
        while self._index < len(self._plan):
            yield self.next()

    def state(self) -> dict[str, Any]:
        """Where the source stands, as a few values that JSON can hold."""
        return {"epoch": self._epoch, "index": self._index, **self._identity}

    def restore(self, state: dict[str, Any]) -> None:
        """Stand where that state says, without reading what came before."""
        for name, value in self._identity.items():
            if state.get(name) != value:
                raise CheckpointError(
                    f"the saved order of batches has {name} {state.get(name)!r} and this one {value!r}; "
                    "go on with the same data and settings, or start a new run"
                )
        epoch, index = state.get("epoch"), state.get("index")
        if not isinstance(epoch, int) or not isinstance(index, int) or epoch < 0 or index < 0:
            raise CheckpointError(
                f"the saved order of batches has no place: epoch {epoch!r}, index {index!r}"
            )
        self._stand_at(epoch, index)

    def _stand_at(self, epoch: int, index: int) -> None:
        self._epoch, self._index, self._plan = epoch, index, self._make_plan(epoch)
        if index > len(self._plan):
            raise CheckpointError(f"epoch {epoch} has {len(self._plan)} steps, so none has number {index}")


def parallel_batches(
    data: Data, tokenizers: Tokenizers, tokens: int = 4096, seed: int = 1
) -> Batches[ParallelBatch]:
    """Pairs of about equal length; no side of a batch has more than `tokens` cells."""
    sides = (data["source"], data["target"])

    def fetch(step: Step) -> ParallelBatch:
        sources, targets = (side.texts(step.examples, step.epoch) for side in sides)
        return collate_pairs(sources, targets, tokenizers.source, tokenizers.target)

    return _by_length(data, sides, 1, tokens, seed, fetch)


def labelled_batches(
    data: Data, tokenizer: Tokenizer, tokens: int = 4096, seed: int = 1
) -> Batches[LabelledBatch]:
    """Labelled texts of about equal length; no batch has more than `tokens` cells."""

    def fetch(step: Step) -> LabelledBatch:
        texts = data["text"].texts(step.examples, step.epoch)
        return collate_labelled(texts, (data["label"][i][0] for i in step.examples), tokenizer)

    return _by_length(data, (data["text"],), 2, tokens, seed, fetch)


def masked_batches(
    data: Data, tokenizer: Tokenizer, tokens: int = 4096, seed: int = 1
) -> Batches[MaskedBatch]:
    """Texts of about equal length with other gaps in every epoch."""

    def fetch(step: Step) -> MaskedBatch:
        texts = data["text"].texts(step.examples, step.epoch)
        return collate_masked(texts, tokenizer, np.random.default_rng([seed, step.epoch, step.index, 1]))

    return _by_length(data, (data["text"],), 2, tokens, seed, fetch)


def window_batches(
    data: Data, tokenizer: Tokenizer, context: int, tokens: int = 4096, seed: int = 1
) -> Batches[TextBatch]:
    """Running text in windows of `context` tokens, cut from another offset in every epoch."""
    ids = data["text"].ids
    if len(ids) <= context:
        raise DataError(f"the text has {len(ids)} tokens, which is no window of {context}; give more text")
    _check(tokens, seed)

    def plan(epoch: int) -> Plan:
        random = np.random.default_rng([seed, epoch])
        offset = random.integers(min(context, len(ids) - context))
        starts = np.arange(offset, len(ids) - context, context)
        rows = max(1, tokens // context)
        return Plan(random.permutation(starts), _bounds(len(starts), rows))

    def fetch(step: Step) -> TextBatch:
        return collate_windows([ids[start : start + context + 1] for start in step.examples], tokenizer.pad)

    identity = {"data": data.identity, "tokens": tokens, "seed": seed, "context": context}
    return Batches(plan, fetch, identity)


def scoring_windows(
    ids: np.ndarray, tokenizer: Tokenizer, context: int, rows: int = 32, before: int | None = None
) -> Iterator[TextBatch]:
    """Running text in order, each token predicted once in windows of at most `context`.

    The first token has nothing before it and is scored only where `before` gives it something. An end token
    between two documents is read and not scored: it is not of the text. Ids are read as they are needed,
    since they may be more than memory holds.
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
    sides: Sequence[Sequences],
    added: int,
    tokens: int,
    seed: int,
    fetch: Callable[[Step], Made],
) -> Batches[Made]:
    """Batches of sides to which so many tokens are added, start and end."""
    _check(tokens, seed)

    def plan(epoch: int) -> Plan:
        lengths = np.stack([side.lengths_in(epoch) for side in sides]) + added
        return plan_by_length(lengths, tokens, seed, epoch)

    return Batches(plan, fetch, {"data": data.identity, "tokens": tokens, "seed": seed})


def _check(tokens: int, seed: int) -> None:
    if tokens < 1 or seed < 0:
        raise SettingError(f"tokens ({tokens}) must be at least 1 and seed ({seed}) at least 0")


def plan_by_length(lengths: np.ndarray, tokens: int, seed: int, epoch: int) -> Plan:
    """Cut the examples, sorted by length, into steps of at most `tokens` cells a side, and shuffle the steps.

    `lengths` has a row for each side. Examples of one length are in random order, so that each epoch puts
    other ones together. An example longer than the budget is a step of its own.
    """
    random = np.random.default_rng([seed, epoch])
    order = _sorted_by_length(lengths, random.permutation(lengths.shape[1]))
    steps = _cut(lengths.max(0)[order], tokens)
    cells = sum((np.maximum.reduceat(side[order], steps[:-1]) * np.diff(steps)).sum() for side in lengths)
    shuffled = random.permutation(len(steps) - 1)
    sizes = np.diff(steps)[shuffled]
    parts = [order[steps[i] : steps[i + 1]] for i in shuffled]
    return Plan(np.concatenate(parts), np.append(0, np.cumsum(sizes)), 1 - float(lengths.sum() / cells))


def _sorted_by_length(lengths: np.ndarray, shuffled: np.ndarray) -> np.ndarray:
    """By the longer side; within one length by the difference, up and down in turn to keep steps even."""
    longer = lengths.max(0)[shuffled]
    difference = (lengths[0] - lengths[-1])[shuffled]
    return shuffled[np.lexsort((np.where(longer % 2, difference, -difference), longer))]


def _cut(lengths: np.ndarray, tokens: int) -> np.ndarray:
    """Bounds of the longest runs that fit; lengths ascend, so a run's last is its longest."""
    bounds = [0]
    while bounds[-1] < len(lengths):
        ahead = lengths[bounds[-1] : bounds[-1] + tokens]
        fitting = np.searchsorted(ahead * np.arange(1, len(ahead) + 1), tokens, side="right")
        bounds.append(bounds[-1] + max(1, int(fitting)))
    return np.array(bounds)


def _bounds(count: int, size: int) -> np.ndarray:
    return np.append(np.arange(0, count, size), count)
