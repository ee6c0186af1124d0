"""Sequences of ids, in memory or mapped from disk, and the data sets made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

import numpy as np

from regard.errors import DataError
from regard.text.report import Report


@dataclass(frozen=True, eq=False)
class Sequences:
    """Many sequences of ids in one flat array: sequence i is `ids[offsets[i] : offsets[i + 1]]`."""

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]]) -> Sequences:
        """The same in memory, from lists of ids."""
        lists = list(sequences)
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists], dtype=np.int64)])
        flat = [number for one in lists for number in one]
        return cls(np.array(flat, np.int32), offsets.astype(np.int64))

    @classmethod
    def cut(cls, ids: np.ndarray, length: int) -> Sequences:
        """Running text cut into sequences of one length; the last may be shorter."""
        return cls(ids, np.append(np.arange(0, len(ids), length), len(ids)).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    @cached_property
    def lengths(self) -> np.ndarray:
        """How many ids each sequence has."""
        return np.diff(self.offsets)

    def lengths_in(self, epoch: int) -> np.ndarray:
        """The same as batches ask for it: the ids of one pass over the data, here of every pass."""
        return self.lengths

    def texts(self, examples: np.ndarray, epoch: int) -> list[np.ndarray]:
        """The ids of these examples in that pass."""
        return [self[index] for index in examples]


@dataclass(frozen=True, eq=False)
class Data:
    """A data set: named columns of sequences, one of each for every example, and how it was read.

    Texts are without start and end, which batches add. `identity` tells one data set from another.
    """

    columns: dict[str, Sequences]
    report: Report = field(default_factory=Report)
    identity: str = ""

    def __post_init__(self):
        sizes = {name: len(column) for name, column in self.columns.items()}
        if len(set(sizes.values())) > 1:
            raise DataError(f"columns of one data set must be equally long, not {sizes}")
        if not self.identity:
            object.__setattr__(self, "identity", _digest(self.columns))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> Sequences:
        return self.columns[name]


def _digest(columns: dict[str, Sequences]) -> str:
    whole = sha256()
    for name, column in columns.items():
        whole.update(f"{name} {column.ids.dtype} {len(column)}".encode())
        whole.update(np.ascontiguousarray(column.ids).data)
        whole.update(np.ascontiguousarray(column.offsets).data)
    return whole.hexdigest()
