"""Constraints of generation: lengths, ends, stops, forbidden words, repetitions; the rows they apply to.

R rows, T ids of the longest row, E end ids, P patterns (sequences of ids) of L ids, K candidates per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import index
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import AfterValidator, BeforeValidator, ValidationInfo, model_validator

from regard.engine.stepper import Banned
from regard.errors import SettingError
from regard.settings import Settings

PAD = -1  # before the first id of a row that is shorter than the others; no id equals it
NO_ROWS = np.empty(0, dtype=np.int64)

Columns = TypeVar("Columns")


@dataclass(frozen=True)
class RowTokens:
    """The ids of each row, aligned at the right: the last column holds the last id of every row."""

    ids: np.ndarray  # R T
    log_probabilities: np.ndarray  # R T, of generated ids
    prefix: np.ndarray  # R, the length of the prefix
    length: np.ndarray  # R, the length of prefix and generated ids

    @classmethod
    def of(cls, prefix: np.ndarray) -> RowTokens:
        """One row that holds a prefix."""
        length = np.array([len(prefix)])
        return cls(prefix[None].astype(np.int64), np.zeros((1, len(prefix)), np.float32), length, length)

    @property
    def last(self) -> np.ndarray:
        """The last id of each row."""
        return self.ids[:, -1].copy()

    @property
    def generated(self) -> np.ndarray:
        """The number of generated ids of each row."""
        return self.length - self.prefix

    def append(self, ids: np.ndarray, log_probabilities: np.ndarray) -> RowTokens:
        """A copy with one more id per row."""
        return RowTokens(
            np.concatenate([self.ids, ids[:, None]], axis=1),
            np.concatenate([self.log_probabilities, log_probabilities[:, None]], axis=1),
            self.prefix,
            self.length + 1,
        )

    def trimmed(self) -> RowTokens:
        """A copy without the columns in which no row has an id."""
        first = self.ids.shape[1] - int(self.length.max(initial=1))
        return replace(self, ids=self.ids[:, first:], log_probabilities=self.log_probabilities[:, first:])

    def generated_ids(self, row: int) -> np.ndarray:
        """The generated ids of a row."""
        return self.ids[row, self._start(row) :]

    def generated_log_probabilities(self, row: int) -> np.ndarray:
        """The log-probabilities of the generated ids of a row."""
        return self.log_probabilities[row, self._start(row) :]

    def _start(self, row: int) -> int:
        """The column of the first generated id of a row."""
        return self.ids.shape[1] - int(self.length[row] - self.prefix[row])


def select_rows(columns: Columns, rows: np.ndarray) -> Columns:
    """The given rows of all arrays of a dataclass, in that order; rows may repeat."""
    return _select_rows(columns, rows)


def _select_rows(columns: Any, rows: np.ndarray) -> Any:
    if isinstance(columns, np.ndarray):
        return columns.take(rows, 0)
    return type(columns)(*[_select_rows(getattr(columns, name), rows) for name in _names(type(columns))])


def concatenate_rows(several: Sequence[Columns]) -> Columns:
    """The rows of several dataclasses of arrays; shorter arrays are padded on the left."""
    if len(several) == 1:
        return several[0]
    return _map_arrays(several, _concatenate)


def trim_padding(columns: Columns) -> Columns:
    """Remove the padding that no row needs any more."""
    return _map_arrays([columns], lambda arrays: _trim(arrays[0]))


def _map_arrays(several: Sequence[Any], combine: Any) -> Any:
    first = several[0]
    if isinstance(first, np.ndarray):
        return combine(several)
    names = _names(type(first))
    values = ([getattr(columns, name) for columns in several] for name in names)
    return type(first)(*(_map_arrays(arrays, combine) for arrays in values))


@cache
def _names(columns: Any) -> list[str]:
    return [field.name for field in fields(columns)]


def _concatenate(arrays: Sequence[np.ndarray]) -> np.ndarray:
    if len({array.shape[1:] for array in arrays}) == 1:
        return np.concatenate(arrays)
    shape = np.array([array.shape[1:] for array in arrays], dtype=int).reshape(len(arrays), -1).max(0)
    return np.concatenate([_padded(array, shape) for array in arrays])


def _trim(array: np.ndarray) -> np.ndarray:
    for axis in range(1, array.ndim):
        most = max(array.shape[axis] - (axis == array.ndim - 1), 0)  # the last axis keeps one column
        first = np.nonzero(array != PAD)[axis].min(initial=most)
        array = array.take(np.arange(first, array.shape[axis]), axis)
    return array


def _padded(array: np.ndarray, shape: np.ndarray) -> np.ndarray:
    missing = shape - array.shape[1:]
    if not missing.any():
        return array
    return np.pad(array, [(0, 0), *((count, 0) for count in missing)], constant_values=PAD)


RUNNING, END, STOP, LENGTH, STUCK, CANCELLED = range(6)
Reason = Literal["end", "stop", "length", "stuck", "cancelled"]
REASONS: dict[int, Reason] = {
    END: "end",
    STOP: "stop",
    LENGTH: "length",
    STUCK: "stuck",
    CANCELLED: "cancelled",
}
LARGEST_ID = 1 << 31


def between(low: float, high: float, advice: str) -> AfterValidator:
    """A validator: None, or a number between `low` and `high`, both included."""

    def check(value: Any, info: ValidationInfo) -> Any:
        if value is not None and not low <= value <= high:
            raise SettingError(f"{info.field_name} ({value}) must lie between {low} and {high}; {advice}")
        return value

    return AfterValidator(check)


def _ids(value: Any) -> Any:
    """An id, or a sequence of ids, as a tuple."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return (index(value),)
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str):
        return value
    return tuple(index(number) if isinstance(number, np.integer) else number for number in value)


def _sequences(value: Any) -> Any:
    """A sequence of ids and of sequences of ids as a tuple of tuples."""
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str):
        return value
    return tuple(_ids(item) for item in value)


def _check_ids(value: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
    invalid = [number for number in value if not 0 <= number < LARGEST_ID]
    if invalid:
        raise SettingError(f"{info.field_name} ({invalid[0]}) must hold ids, 0 or more; ask the tokenizer")
    return value


def _check_sequences(value: tuple[tuple[int, ...], ...], info: ValidationInfo) -> tuple[tuple[int, ...], ...]:
    for sequence in value:
        if not sequence:
            raise SettingError(f"{info.field_name} holds an empty sequence; leave it out")
        _check_ids(sequence, info)
    return value


Ids = Annotated[tuple[int, ...], BeforeValidator(_ids), AfterValidator(_check_ids)]
Sequences = Annotated[
    tuple[tuple[int, ...], ...], BeforeValidator(_sequences), AfterValidator(_check_sequences)
]


class Constraints(Settings):
    """Which ids a row may generate and when it ends; greedy search needs no other settings.

    An end or a stop is part of what was generated. Forbidden sequences and repeated n-grams may begin in the
    prefix; a stop must be generated as a whole. Constraints do not change any log-probability.
    """

    max_length: Annotated[int, between(1, 1 << 16, "it counts generated ids")] = 256  # with the end
    min_length: Annotated[int, between(0, 1 << 16, "it counts generated ids")] = 0  # without the end or stop
    end: Ids = ()  # ids that end a row; without any, only its length does
    stop: Sequences = ()  # sequences of ids that end a row
    forbidden: Sequences = ()  # ids or sequences of ids that must not be generated
    no_repeat_ngram_size: Annotated[
        int | None, between(1, 1 << 10, "leave it out to allow every repetition")
    ] = None  # no n-gram of this size occurs twice
    length_penalty: Annotated[float, between(0, 10, "0 ranks by log-probability alone")] = (
        0.6  # the exponent alpha; the paper's value
    )

    @model_validator(mode="after")
    def _check(self) -> Constraints:
        if self.min_length > self.max_length:
            raise SettingError(
                f"min_length ({self.min_length}) must not be above max_length ({self.max_length}); lower it"
            )
        return self


def length_penalty(length: Any, alpha: Any) -> Any:
    """((5 + n) / 6) ** alpha: Wu et al. 2016, equation 14, as used in section 6.1 of the paper."""
    return ((5 + length) / 6) ** alpha


@dataclass(frozen=True)
class RowConstraints:
    """The constraints of each row as columns."""

    end: np.ndarray  # R E
    stop: np.ndarray  # R P L, padded on the left
    forbidden: np.ndarray  # R P L, padded on the left
    ngram_size: np.ndarray  # R, 0 if repetition is allowed
    min_length: np.ndarray  # R
    max_length: np.ndarray  # R

    @classmethod
    def of(cls, constraints: Constraints, free: int | None) -> RowConstraints:
        """One row; `free` is how many ids fit behind its prefix, None if there is no limit."""
        max_length = constraints.max_length if free is None else min(constraints.max_length, free)
        return cls(
            np.array([constraints.end], dtype=np.int64),
            _patterns(constraints.stop),
            _patterns(constraints.forbidden),
            np.array([constraints.no_repeat_ngram_size or 0]),
            np.array([constraints.min_length]),
            np.array([max_length]),
        )

    @property
    def max_endings(self) -> np.ndarray:
        """The maximum number of ids that can end each row at one step."""
        return (self.end >= 0).sum(1) + (self.stop[:, :, -1] >= 0).sum(1)


def banned(constraints: RowConstraints, tokens: RowTokens) -> Banned | None:
    """The ids that must not follow each row, or None if there are none."""
    bans = [ban for ban in _bans(constraints, tokens) if len(ban.rows)]
    if not bans:
        return None
    return Banned(np.concatenate([ban.rows for ban in bans]), np.concatenate([ban.ids for ban in bans]))


def finish_codes(constraints: RowConstraints, tokens: RowTokens, ids: np.ndarray) -> np.ndarray:
    """R K: END or STOP for the ids that would finish their row, RUNNING for the others."""
    codes = np.zeros(ids.shape, dtype=np.int8)
    if constraints.stop.shape[1]:
        content = tokens.generated[:, None] + 1 - (constraints.stop >= 0).sum(2)  # R P
        is_long_enough = content >= constraints.min_length[:, None]
        due = _all_but_last_match(constraints.stop, tokens.ids) & is_long_enough
        codes[_is_in(ids, np.where(due, constraints.stop[:, :, -1], PAD))] = STOP
    codes[_is_in(ids, constraints.end)] = END
    return codes


def _bans(constraints: RowConstraints, tokens: RowTokens) -> Iterator[Banned]:
    """The bans of each kind: an end before the minimum length, forbidden sequences, repeated n-grams."""
    is_short = tokens.generated < constraints.min_length
    if np.count_nonzero(is_short):
        yield _where(is_short[:, None] & (constraints.end >= 0), constraints.end)
    if constraints.forbidden.shape[1]:
        completed = _all_but_last_match(constraints.forbidden, tokens.ids)
        yield _where(completed, constraints.forbidden[:, :, -1])
    for size in set(constraints.ngram_size.tolist()) - {0}:
        rows = np.flatnonzero(constraints.ngram_size == size)
        yield _repeated_ngrams(tokens.ids[rows], size, rows)


def _where(mask: np.ndarray, ids: np.ndarray) -> Banned:
    return Banned(np.nonzero(mask)[0], ids[mask])


def _repeated_ngrams(ids: np.ndarray, size: int, rows: np.ndarray) -> Banned:
    """The ids that would repeat an n-gram: those after earlier occurrences of a row's last n - 1 ids."""
    if ids.shape[1] < size:
        return Banned(rows[:0], rows[:0])
    windows = np.lib.stride_tricks.sliding_window_view(ids, size, axis=1)  # R T-n+1 n
    lead = ids[:, None, ids.shape[1] - size + 1 :]
    matches = (windows[:, :, :-1] == lead).all(2) & (windows[:, :, -1] >= 0)
    repeated = _where(matches, windows[:, :, -1])
    return Banned(rows[repeated.rows], repeated.ids)


def _all_but_last_match(patterns: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """R P: whether all ids of a pattern but the last are the last ids of the row."""
    lead = patterns[:, :, :-1]
    missing = max(lead.shape[2] - ids.shape[1], 0)
    tail = ids[:, max(ids.shape[1] - lead.shape[2], 0) :]
    tail = np.pad(tail, [(0, 0), (missing, 0)], constant_values=PAD)[:, None]  # R 1 L-1
    return ((lead == tail) | (lead == PAD)).all(2) & (patterns[:, :, -1] >= 0)


def _is_in(ids: np.ndarray, lists: np.ndarray) -> np.ndarray:
    """R K: whether each id is in the list of its row."""
    if lists.shape[1] == 1:
        return ids == lists
    return (ids[:, :, None] == lists[:, None, :]).any(2)


def _patterns(sequences: tuple[tuple[int, ...], ...]) -> np.ndarray:
    longest = max(map(len, sequences), default=1)
    patterns = np.full((1, len(sequences), longest), PAD, dtype=np.int64)
    for number, sequence in enumerate(sequences):
        patterns[0, number, longest - len(sequence) :] = sequence
    return patterns
