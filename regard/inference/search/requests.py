"""Request, Result and Answer of a search, and the loop that runs a search from its first step to its last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np

from regard.engine.stepper import Stepper
from regard.errors import CheckpointError, SettingError, UsageError
from regard.inference.search.constraints import Constraints, Reason, RowTokens, length_penalty


@dataclass(frozen=True, eq=False)
class Request:
    """What to continue and how. Rows of different settings share a batch.

    The prefix begins with the start token; further ids force the beginning of the answer. `until` is called
    after each step with the ids generated so far (of each live hypothesis, in a beam), and ends the row if it
    returns True. Stop strings and streaming use it. It is not called for an end id or a stop sequence. It
    must not raise, because the step is shared by all requests.
    """

    prefix: np.ndarray
    settings: Constraints
    source: np.ndarray | None = None
    until: Callable[[np.ndarray], bool] | None = None

    def __post_init__(self):
        object.__setattr__(self, "prefix", _ids("prefix", self.prefix))
        if self.source is not None:
            object.__setattr__(self, "source", _ids("source", self.source))


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The likeliest ids at one step with their log-probabilities, in descending order."""

    ids: np.ndarray
    log_probabilities: np.ndarray


@dataclass(frozen=True)
class Result:
    """What was generated after the prefix, with the end or stop, and its scores.

    `log_probabilities` are those of the unrestricted distribution, one per id. `score` is their sum, equal to
    that of a teacher-forced pass. `rank_score` is the score divided by the length penalty. `reason` says why
    generation ended: an end id, a stop, the maximum length, "stuck" if every id was forbidden, or cancelled.
    `alternatives` has an entry for each id if the settings ask for them.
    """

    ids: np.ndarray
    log_probabilities: np.ndarray
    score: float
    rank_score: float
    reason: Reason
    ending: int  # the length of the end or stop in `ids`
    alternatives: Sequence[Alternatives] = ()

    @property
    def content(self) -> np.ndarray:
        """The ids without the end or stop."""
        return self.ids[: len(self.ids) - self.ending]


@dataclass
class Node:
    """A hypothesis in the tree of a beam search: its parent and one more token.

    `fate` is "kept" if it was extended, "outranked" if better ones filled the beam, "abandoned" if the search
    ended first, or the reason why it finished: end, stop, length, stuck, cancelled. `place` is its rank among
    the results, or None if it is not among them.
    """

    number: int
    parent: int | None
    token: int | None  # None at the root, which is the prefix
    step: int  # the number of generated ids
    log_probability: float  # of the token
    score: float
    rank_score: float
    fate: str = "kept"
    place: int | None = None


class Tree:
    """Every hypothesis of a request in the order in which it was scored; the first is the prefix."""

    def __init__(self, alpha: float):
        self.nodes = [Node(0, None, None, 0, 0.0, 0.0, 0.0)]
        self._alpha = alpha

    def add(self, parent: int, token: int, log_probability: float, fate: str) -> int:
        """Add a continuation of a node; the number of the new node."""
        before, number = self.nodes[parent], len(self.nodes)
        step, score = before.step + 1, before.score + log_probability
        rank_score = score / length_penalty(step, self._alpha)
        self.nodes.append(Node(number, parent, token, step, log_probability, score, rank_score, fate))
        return number

    def as_dict(self) -> list[dict[str, Any]]:
        """The nodes as JSON values."""
        return [asdict(node) for node in self.nodes]


@dataclass(frozen=True)
class Answer:
    """The results of a request, the best first, and the tree of the beam if it was asked for."""

    request_id: int
    request: Request
    results: list[Result]
    tree: Tree | None = None

    @property
    def best(self) -> Result:
        """The result that ranks first."""
        return self.results[0]


class Search(Protocol):
    """A running batch that advances one step per call; requests enter and leave between steps."""

    @property
    def active(self) -> list[int]:
        """The ids of the running requests."""
        ...

    def admit(self, requests: Sequence[Request]) -> list[int]:
        """Add requests, all or none; the id of each."""
        ...

    def step(self) -> list[Answer]:
        """Generate one id for every row; the answers of the requests that this finished."""
        ...

    def cancel(self, request_id: int) -> Answer | None:
        """Remove a request and return what it has generated; None if it has finished already."""
        ...


def run(search: Search, requests: Iterable[Request], max_running: int | None = None) -> list[Answer]:
    """The answer to every request, in the order of requests."""
    return sorted(stream_answers(search, requests, max_running), key=lambda answer: answer.request_id)


def stream_answers(
    search: Search, requests: Iterable[Request], max_running: int | None = None
) -> Iterator[Answer]:
    """Answers as they finish; at most `max_running` requests run at a time."""
    if max_running is not None and max_running < 1:
        raise SettingError(f"max_running ({max_running}) must be 1 or more; leave it out to run all at once")
    waiting = iter(requests)
    while True:
        free = None if max_running is None else max(max_running - len(search.active), 0)
        search.admit(list(islice(waiting, free)))
        if not search.active:
            return
        yield from search.step()


def result_of(tokens: RowTokens, row: int, reason: Reason, constraints: Constraints) -> Result:
    """The result of a row."""
    ids, log_probabilities = tokens.generated_ids(row).copy(), tokens.generated_log_probabilities(row).copy()
    score = float(log_probabilities.cumsum(dtype=np.float64)[-1]) if len(ids) else 0.0
    rank_score = score / length_penalty(len(ids), constraints.length_penalty)
    return Result(ids, log_probabilities, score, rank_score, reason, _ending(ids, reason, constraints))


def check_requests(requests: Sequence[Request], stepper: Stepper, *kinds: type[Constraints]) -> None:
    """Raise if the search or the model cannot answer a request."""
    for request in requests:
        _check_type(request.settings, kinds)
        _check_vocabulary(request, stepper.vocabulary)
        free = free_length(request, stepper)
        if free is not None and free < 1:
            raise SettingError(
                f"prefix ({len(request.prefix)} ids) fills the model's {stepper.limit}; make it shorter"
            )
    if len({request.source is None for request in requests}) > 1:
        raise SettingError("some requests have a source and some have none; give all or none")


def free_length(request: Request, stepper: Stepper) -> int | None:
    """How many ids fit behind the prefix, or None if the model has no maximum length."""
    return None if stepper.limit is None else stepper.limit - len(request.prefix)


def read_prefixes(requests: Sequence[Request], stepper: Stepper) -> None:
    """Add a row to the stepper for each request."""
    sources = [request.source for request in requests if request.source is not None]
    stepper.admit([request.prefix for request in requests], sources or None)


def check_unused(stepper: Stepper) -> Stepper:
    """The stepper, which must not have rows of another search."""
    if stepper.rows:
        raise UsageError(f"this stepper runs {stepper.rows} rows already; give each search its own")
    return stepper


def check_numbers(log_probabilities: np.ndarray) -> None:
    """Raise if a log-probability is NaN."""
    if np.count_nonzero(np.isnan(log_probabilities)):
        raise CheckpointError("the model gives NaN, so its weights are damaged; load another checkpoint")


def _ending(ids: np.ndarray, reason: Reason, constraints: Constraints) -> int:
    if reason == "end":
        return 1
    if reason != "stop":
        return 0
    generated = tuple(ids.tolist())
    return max((len(stop) for stop in constraints.stop if generated[-len(stop) :] == stop), default=0)


def _ids(name: str, values: Any) -> np.ndarray:
    ids = np.asarray(values)
    if ids.ndim != 1 or not ids.size:
        raise SettingError(f"{name} of shape {ids.shape} must be a row of ids; give one id at least")
    if ids.dtype.kind not in "iu":
        raise SettingError(f"{name} of {ids.dtype} must hold ids, which are whole numbers; ask the tokenizer")
    if ids.min() < 0:
        raise SettingError(f"{name} ({ids.min()}) must hold ids, 0 or more; ask the tokenizer")
    return ids.astype(np.int64)


def _check_type(settings: Constraints, kinds: tuple[type[Constraints], ...]) -> None:
    if type(settings) not in kinds:
        known = " or ".join(kind.__name__ for kind in kinds)
        raise SettingError(
            f"settings ({type(settings).__name__}) must be {known}; this search reads no others"
        )


def _check_vocabulary(request: Request, vocabulary: int) -> None:
    constraints = request.settings
    largest_ids = {
        "prefix": int(request.prefix.max()),
        "end": max(constraints.end, default=0),
        "stop": max(map(max, constraints.stop), default=0),
        "forbidden": max(map(max, constraints.forbidden), default=0),
    }
    for name, largest in largest_ids.items():
        if largest >= vocabulary:
            raise SettingError(
                f"{name} ({largest}) must be below the vocabulary of {vocabulary}; ask its tokenizer"
            )
