"""Limits: how far a row may write, what it must not say, and what ends it.

R rows, T ids of the longest row, E end ids, P patterns (sequences of ids) of L ids, K candidates a row.
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


GOING, END, STOP, LENGTH, STUCK, CANCELLED = range(6)
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
    """A check that a number lies between two others, both allowed; a missing one is fine."""

    def check(value: Any, info: ValidationInfo) -> Any:
        if value is not None and not low <= value <= high:
            raise SettingError(f"{info.field_name} ({value}) must lie between {low} and {high}; {advice}")
        return value

    return AfterValidator(check)


def _ids(value: Any) -> Any:
    """One id, or any sequence of them, as a tuple."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return (index(value),)
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str):
        return value
    return tuple(index(number) if isinstance(number, np.integer) else number for number in value)


def _sequences(value: Any) -> Any:
    """Any sequence of ids and of sequences of ids, as a tuple of tuples."""
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str):
        return value
    return tuple(_ids(item) for item in value)


def _check_ids(value: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
    wrong = [number for number in value if not 0 <= number < LARGEST_ID]
    if wrong:
        raise SettingError(f"{info.field_name} ({wrong[0]}) must hold ids, 0 or more; ask the tokenizer")
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
    """How far a row may write, what it must not say, and what ends it; greedy search needs no more.

    An end or a stop is part of what was generated. Forbidden sequences and n-grams look at the prefix as
    well; a stop must lie wholly in what was generated. Nothing that is forbidden changes a probability.
    """

    max_length: Annotated[int, between(1, 1 << 16, "it counts generated ids")] = 256  # the end among them
    min_length: Annotated[int, between(0, 1 << 16, "it counts generated ids")] = 0  # before the end or stop
    end: Ids = ()  # each of these ids ends a row; without any, only its length does
    stop: Sequences = ()  # so does each of these sequences
    forbidden: Sequences = ()  # words never to be said, each an id or a sequence of ids
    no_repeat_ngram_size: Annotated[
        int | None, between(1, 1 << 10, "leave it out to allow every repetition")
    ] = None  # no sequence of so many ids stands twice
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


@dataclass(frozen=True)
class RowConstraints:
    """The limits of each row as columns."""

    end: np.ndarray  # R E
    stop: np.ndarray  # R P L, nothing before the first id of a shorter pattern
    forbidden: np.ndarray  # R P L
    ngram: np.ndarray  # R, 0 where repetition is free
    shortest: np.ndarray  # R
    longest: np.ndarray  # R

    @property
    def enders(self) -> np.ndarray:
        """How many ids at most may end each row at one step."""
        return (self.end >= 0).sum(1) + (self.stop[:, :, -1] >= 0).sum(1)


def length_penalty(length: Any, alpha: Any) -> Any:
    """((5 + n) / 6) ** alpha of Wu et al. 2016, equation 14, which the paper's section 6.1 takes up."""
    return ((5 + length) / 6) ** alpha


def row_constraints(limits: Constraints, room: int | None) -> RowConstraints:
    """One row's rules; `room` is how many ids the model has place for."""
    longest = limits.max_length if room is None else min(limits.max_length, room)
    return RowConstraints(
        np.array([limits.end], dtype=np.int64),
        _patterns(limits.stop),
        _patterns(limits.forbidden),
        np.array([limits.no_repeat_ngram_size or 0]),
        np.array([limits.min_length]),
        np.array([longest]),
    )


def banned(rules: RowConstraints, written: Written) -> Banned | None:
    """What each row must not say next, or None where all is allowed."""
    found = [each for each in _bans(rules, written) if len(each.rows)]
    if not found:
        return None
    return Banned(np.concatenate([each.rows for each in found]), np.concatenate([each.ids for each in found]))


def finishing(rules: RowConstraints, written: Written, ids: np.ndarray) -> np.ndarray:
    """END or STOP for each of R K ids that would finish its row, GOING for the others."""
    codes = np.zeros(ids.shape, dtype=np.int8)
    if rules.stop.shape[1]:
        content = written.generated[:, None] + 1 - (rules.stop >= 0).sum(2)  # R P
        due = _lacking_the_last(rules.stop, written.ids) & (content >= rules.shortest[:, None])
        codes[_among(ids, np.where(due, rules.stop[:, :, -1], NOTHING))] = STOP
    codes[_among(ids, rules.end)] = END
    return codes


def _bans(rules: RowConstraints, written: Written) -> Iterator[Banned]:
    """The bans of each kind: the end too early, forbidden words, n-grams that stand already."""
    early = written.generated < rules.shortest
    if early.any():
        yield _where(early[:, None] & (rules.end >= 0), rules.end)
    if rules.forbidden.shape[1]:
        yield _where(_lacking_the_last(rules.forbidden, written.ids), rules.forbidden[:, :, -1])
    for size in set(rules.ngram.tolist()) - {0}:
        rows = np.flatnonzero(rules.ngram == size)
        yield _repeating(written.ids[rows], size, rows)


def _where(mask: np.ndarray, ids: np.ndarray) -> Banned:
    return Banned(np.nonzero(mask)[0], ids[mask])


def _repeating(ids: np.ndarray, size: int, rows: np.ndarray) -> Banned:
    """What would complete an n-gram that a row holds: the ids behind each earlier place of its last n - 1."""
    if ids.shape[1] < size:
        return Banned(rows[:0], rows[:0])
    windows = np.lib.stride_tricks.sliding_window_view(ids, size, axis=1)  # R T-n+1 n
    lead = ids[:, None, ids.shape[1] - size + 1 :]
    found = _where((windows[:, :, :-1] == lead).all(2) & (windows[:, :, -1] >= 0), windows[:, :, -1])
    return Banned(rows[found.rows], found.ids)


def _lacking_the_last(patterns: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """R P: which patterns stand complete but for their last id at the end of what each row holds."""
    lead = patterns[:, :, :-1]
    missing = max(lead.shape[2] - ids.shape[1], 0)
    tail = ids[:, max(ids.shape[1] - lead.shape[2], 0) :]
    tail = np.pad(tail, [(0, 0), (missing, 0)], constant_values=NOTHING)[:, None]  # R 1 L-1
    return ((lead == tail) | (lead == NOTHING)).all(2) & (patterns[:, :, -1] >= 0)


def _among(ids: np.ndarray, some: np.ndarray) -> np.ndarray:
    """R K: which ids stand in the row's own list."""
    return (ids[:, :, None] == some[:, None, :]).any(2)


def _patterns(sequences: tuple[tuple[int, ...], ...]) -> np.ndarray:
    longest = max(map(len, sequences), default=1)
    patterns = np.full((1, len(sequences), longest), NOTHING, dtype=np.int64)
    for place, sequence in enumerate(sequences):
        patterns[0, place, longest - len(sequence) :] = sequence
    return patterns
