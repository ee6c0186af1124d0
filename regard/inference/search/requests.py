"""What search is asked and what it answers: Request, Result, Answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.engine.stepper import Stepper
from regard.errors import CheckpointError, SettingError, UsageError
from regard.inference.search.constraints import Constraints, Reason, Written, length_penalty
from regard.inference.search.selection import Tree


@dataclass(frozen=True, eq=False)
class Request:
    """What to continue and how. Rows of different settings share a batch.

    The prefix begins with the token that starts a row; more ids than that force the answer's beginning.
    `until` is called after each step with the ids generated so far (of each live hypothesis, in a beam)
    and ends the row by saying True: a stop string is found this way, and a text is streamed. It is not
    asked about an end or a stop sequence, and must not raise: the step is everybody's.
    """

    prefix: np.ndarray
    settings: Constraints
    source: np.ndarray | None = None
    until: Callable[[np.ndarray], bool] | None = None

    def __post_init__(self):
        object.__setattr__(self, "prefix", _ids("prefix", self.prefix))
        if self.source is not None:
            object.__setattr__(self, "source", _ids("source", self.source))


@dataclass(frozen=True)
class Result:
    """What was generated after the prefix, end or stop included, and what the model thinks of it.

    `log_probabilities` are those of the unrestricted distribution, one an id; `score` is their sum, as a
    forced pass gives it; `rank_score` is the score divided by the length penalty. `reason` says why it
    is over: an end id, a stop, the longest length, "stuck" where everything was forbidden, or cancelled.
    """

    ids: np.ndarray
    log_probabilities: np.ndarray
    score: float
    rank_score: float
    reason: Reason
    ending: int  # how many ids at the end are the end or the stop

    @property
    def content(self) -> np.ndarray:
        """The ids without the end or the stop."""
        return self.ids[: len(self.ids) - self.ending]


@dataclass(frozen=True)
class Answer:
    """All that came of a request: its results, the best first, and the beam's tree where it was asked for."""

    ticket: int
    request: Request
    results: list[Result]
    tree: Tree | None = None

    @property
    def best(self) -> Result:
        """The result that ranks first."""
        return self.results[0]


def result_of(written: Written, row: int, reason: Reason, limits: Constraints) -> Result:
    """What a row came to."""
    ids, chances = written.answer(row).copy(), written.chances(row).copy()
    score = float(np.cumsum(chances, dtype=np.float64)[-1]) if len(chances) else 0.0
    rank_score = score / length_penalty(len(ids), limits.length_penalty)
    return Result(ids, chances, score, rank_score, reason, _ending(ids, reason, limits))


def check_requests(requests: Sequence[Request], stepper: Stepper, *kinds: type[Constraints]) -> None:
    """Refuse what the search or the model cannot do, before anything has changed."""
    for request in requests:
        _check_kind(request.settings, kinds)
        _check_vocabulary(request, stepper.vocabulary)
        room, given = room_for(request, stepper), len(request.prefix)
        if room is not None and room < 1:
            raise SettingError(f"prefix ({given} ids) fills the model's {stepper.limit}; make it shorter")
    if len({request.source is None for request in requests}) > 1:
        raise SettingError("some requests have a source and some have none; give all or none")


def room_for(request: Request, stepper: Stepper) -> int | None:
    """How many ids the model has place for behind the prefix, or None where there is no end."""
    return None if stepper.limit is None else stepper.limit - len(request.prefix)


def admit_rows(requests: Sequence[Request], stepper: Stepper) -> None:
    """Let the model read the prefixes and sources."""
    sources = [request.source for request in requests if request.source is not None]
    stepper.admit([request.prefix for request in requests], sources or None)


def unused(stepper: Stepper) -> Stepper:
    """The stepper, which a search needs for itself."""
    if stepper.rows:
        raise UsageError(f"this stepper runs {stepper.rows} rows already; give each search its own")
    return stepper


def check_numbers(answers: np.ndarray) -> None:
    """A model that has lost its senses must not be searched for ever, nor believed."""
    if np.isnan(answers).any():
        raise CheckpointError("the model answers NaN, so its weights are damaged; load another checkpoint")


def _ending(ids: np.ndarray, reason: Reason, limits: Constraints) -> int:
    if reason == "end":
        return 1
    if reason != "stop":
        return 0
    generated = tuple(ids.tolist())
    return max((len(stop) for stop in limits.stop if generated[-len(stop) :] == stop), default=0)


def _ids(name: str, given: Any) -> np.ndarray:
    ids = np.asarray(given)
    if ids.ndim != 1 or not ids.size:
        raise SettingError(f"{name} of shape {ids.shape} must be a row of ids; give one id at least")
    if ids.dtype.kind not in "iu":
        raise SettingError(f"{name} of {ids.dtype} must hold ids, which are whole numbers; ask the tokenizer")
    if ids.min() < 0:
        raise SettingError(f"{name} ({ids.min()}) must hold ids, 0 or more; ask the tokenizer")
    return ids.astype(np.int64)


def _check_kind(settings: Constraints, kinds: tuple[type[Constraints], ...]) -> None:
    if type(settings) not in kinds:
        known = " or ".join(kind.__name__ for kind in kinds)
        raise SettingError(
            f"settings ({type(settings).__name__}) must be {known}; this search reads no others"
        )


def _check_vocabulary(request: Request, vocabulary: int) -> None:
    limits = request.settings
    named = {
        "prefix": int(request.prefix.max()),
        "end": max(limits.end, default=0),
        "stop": max(map(max, limits.stop), default=0),
        "forbidden": max(map(max, limits.forbidden), default=0),
    }
    for name, largest in named.items():
        if largest >= vocabulary:
            raise SettingError(
                f"{name} ({largest}) must be below the vocabulary of {vocabulary}; ask its tokenizer"
            )
