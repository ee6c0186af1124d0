"""Running rows as columns: what is known of each row stands in arrays that are taken and joined together.

R rows, T ids of the longest row. A column is an array with a row each, or a dataclass of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np

NOTHING = -1  # stands where a row is shorter than its neighbours; no id equals it
NONE = np.empty(0, dtype=np.int64)

Columns = TypeVar("Columns")


@dataclass(frozen=True)
class Written:
    """What each row holds: its last id stands in the last column, and nothing stands before its first."""

    ids: np.ndarray  # R T
    log_probabilities: np.ndarray  # R T, of generated ids alone
    prefix: np.ndarray  # R, how many ids were given
    length: np.ndarray  # R, how many there are

    @property
    def last(self) -> np.ndarray:
        """The id that each row said last."""
        return self.ids[:, -1].copy()

    @property
    def generated(self) -> np.ndarray:
        """How many ids each row has generated."""
        return self.length - self.prefix

    def append(self, ids: np.ndarray, log_probabilities: np.ndarray) -> Written:
        """The same with one more id a row."""
        return replace(
            self,
            ids=np.concatenate([self.ids, ids[:, None]], axis=1),
            log_probabilities=np.concatenate([self.log_probabilities, log_probabilities[:, None]], axis=1),
            length=self.length + 1,
        )

    def trimmed(self) -> Written:
        """The same without columns in which no row has an id."""
        first = self.ids.shape[1] - int(self.length.max(initial=1))
        return replace(self, ids=self.ids[:, first:], log_probabilities=self.log_probabilities[:, first:])

    def answer(self, row: int) -> np.ndarray:
        """The ids that a row has generated."""
        return self.ids[row, self.ids.shape[1] - self.generated[row] :]

    def chances(self, row: int) -> np.ndarray:
        """Their log-probabilities."""
        return self.log_probabilities[row, self.ids.shape[1] - self.generated[row] :]


def begin(prefix: np.ndarray) -> Written:
    """One row that holds a prefix."""
    length = np.array([len(prefix)])
    return Written(prefix[None].astype(np.int64), np.zeros((1, len(prefix)), np.float32), length, length)


def taken(columns: Columns, rows: np.ndarray) -> Columns:
    """The columns of some rows, in that order; rows may repeat."""
    return _over([columns], lambda arrays: arrays[0][rows])


def joined(several: Sequence[Columns]) -> Columns:
    """The rows of several columns one after the other; the shorter are filled up before their beginning."""
    return _over(several, _one_above_the_other)


def slimmed(columns: Columns) -> Columns:
    """The same without what was filled up for rows that have left."""
    return _over([columns], lambda arrays: _slim(arrays[0]))


def _over(several: Sequence[Any], combine: Any) -> Any:
    first = several[0]
    if isinstance(first, np.ndarray):
        return combine(several)
    names = _names(type(first))
    return type(first)(*(_over([getattr(each, name) for each in several], combine) for name in names))


@cache
def _names(columns: Any) -> list[str]:
    return [field.name for field in fields(columns)]


def _one_above_the_other(arrays: Sequence[np.ndarray]) -> np.ndarray:
    if len({array.shape[1:] for array in arrays}) == 1:
        return np.concatenate(arrays)
    shape = np.array([array.shape[1:] for array in arrays], dtype=int).reshape(len(arrays), -1).max(0)
    return np.concatenate([_filled(array, shape) for array in arrays])


def _slim(array: np.ndarray) -> np.ndarray:
    for axis in range(1, array.ndim):
        most = max(array.shape[axis] - (axis == array.ndim - 1), 0)  # the last axis keeps a place
        first = np.nonzero(array != NOTHING)[axis].min(initial=most)
        array = array.take(np.arange(first, array.shape[axis]), axis)
    return array


def _filled(array: np.ndarray, shape: np.ndarray) -> np.ndarray:
    missing = shape - array.shape[1:]
    if not missing.any():
        return array
    return np.pad(array, [(0, 0), *((count, 0) for count in missing)], constant_values=NOTHING)
