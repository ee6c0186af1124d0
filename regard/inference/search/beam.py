"""Beam search: the best hypotheses of each request advance together, one id per step.

R rows (live hypotheses), K continuations per row, G requests, C continuations per request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated

import numpy as np
from pydantic import model_validator

from regard.engine.stepper import Choices, Stepper
from regard.errors import SettingError
from regard.inference.search.constraints import (
    CANCELLED,
    LENGTH,
    NO_ROWS,
    REASONS,
    RUNNING,
    STOP,
    STUCK,
    Constraints,
    RowConstraints,
    RowTokens,
    banned,
    between,
    concatenate_rows,
    finish_codes,
    length_penalty,
    select_rows,
    trim_padding,
)
from regard.inference.search.requests import (
    Answer,
    Request,
    Result,
    Tree,
    check_numbers,
    check_requests,
    check_unused,
    free_length,
    read_prefixes,
    result_of,
    run,
)


class BeamSettings(Constraints):
    """The settings of beam search.

    A request is finished when `beams` x `patience` hypotheses have finished (Kasai et al. 2022; patience 1 is
    the usual rule). It is finished earlier if no live hypothesis could rank above the `n_best` finished ones,
    even if all its further tokens had probability 1 and its length were the maximum. With patience None only
    the second rule holds. At the maximum length every live hypothesis finishes. A hypothesis after which
    every id is forbidden is a result only if no other hypothesis finishes.
    """

    beams: Annotated[int, between(1, 1 << 12, "1 is greedy")] = 4
    n_best: Annotated[int, between(1, 1 << 12, "1 gives the best alone")] = 1
    patience: Annotated[float | None, between(0.01, 1000, "leave it None to search on")] = 1.0
    tree: bool = False  # keep every hypothesis, also those that were dropped

    @model_validator(mode="after")
    def _check_beams(self) -> BeamSettings:
        if self.n_best > self.beams:
            raise SettingError(
                f"n_best ({self.n_best}) must not be above beams ({self.beams}); widen the beam"
            )
        return self

    @property
    def max_finished(self) -> float:
        """How many finished hypotheses end the search."""
        return np.inf if self.patience is None else max(self.n_best, round(self.beams * self.patience))


def beam_search(
    stepper: Stepper, requests: Sequence[Request], max_running: int | None = None
) -> list[Answer]:
    """The best hypotheses of each request, by its BeamSettings."""
    return run(Beam(stepper), requests, max_running)


@dataclass(frozen=True)
class Continuations:
    """The ids that may follow each row, R K, the likeliest first; equal ones are ordered by id."""

    ids: np.ndarray
    log_probabilities: np.ndarray


def continuations(choices: Choices) -> Continuations:
    """The continuations that a stepper gives, equal ones ordered by id."""
    ids, values = choices.ids, choices.log_probabilities
    assert ids is not None
    if np.count_nonzero(values[:, 1:] == values[:, :-1]):
        order = np.lexsort((ids, -values))
        ids, values = np.take_along_axis(ids, order, 1), np.take_along_axis(values, order, 1)
    return Continuations(ids, values)


@dataclass(frozen=True)
class Selected:
    """Selected continuations: their request and column in it, the row they extend and their column there."""

    group: np.ndarray
    column: np.ndarray
    row: np.ndarray
    row_column: np.ndarray

    @property
    def where(self) -> tuple[np.ndarray, np.ndarray]:
        """Their indices in an array of R K."""
        return self.row, self.row_column


@dataclass(frozen=True)
class RowLayout:
    """Which request each row belongs to, for rows sorted by request."""

    group: np.ndarray  # R
    first: np.ndarray  # G, the first row of each request
    width: int  # the number of rows of the widest request

    @classmethod
    def of(cls, group: np.ndarray, groups: int) -> RowLayout:
        """The layout of rows whose requests are `group`."""
        first = np.searchsorted(group, np.arange(groups))
        return cls(group, first, int(np.bincount(group, minlength=groups).max(initial=0)))

    def by_group(self, values: np.ndarray, padding: float) -> np.ndarray:
        """R K to G C, in the order of rows; missing rows are padded."""
        if len(self.group) == len(self.first) * self.width:  # none is missing
            return values.reshape(len(self.first), -1)
        padded = np.full((len(self.first), self.width, values.shape[1]), padding, dtype=values.dtype)
        padded[self.group, np.arange(len(self.group)) - self.first[self.group]] = values
        return padded.reshape(len(self.first), -1)

    def selected(self, mask: np.ndarray, count: int) -> Selected:
        """The continuations where a mask of G C is True, in the order of rows of `count` columns."""
        group, column = mask.nonzero()
        return Selected(group, column, self.first[group] + column // count, column % count)


@dataclass(frozen=True)
class Selection:
    """G C: which continuations live on and which finish."""

    lives: np.ndarray
    finishes: np.ndarray


def select_beams(scores: np.ndarray, ending: np.ndarray, beams: np.ndarray) -> Selection:
    """Select continuations by scores, G C; `ending` are those that would finish, `beams` is G.

    An ending one finishes if it is among the best `beams` continuations of its request. The best `beams` of
    the others live on. Equal scores are ordered by row, then by id.
    """
    order = (-scores).argsort(axis=1, kind="stable") + np.arange(len(scores))[:, None] * scores.shape[1]
    ends, possible = ending.ravel()[order], scores.ravel()[order] > -np.inf
    goes_on = possible & ~ends
    lives, finishes = np.empty_like(ending), np.empty_like(ending)
    lives.ravel()[order] = goes_on & (goes_on.cumsum(axis=1) <= beams[:, None])
    finishes.ravel()[order] = possible & ends & (np.arange(scores.shape[1]) < beams[:, None])
    return Selection(lives, finishes)


class FinishedHypotheses:
    """The best finished hypotheses of a request, in order, and its tree if one is kept."""

    def __init__(self, request: Request):
        settings = _settings(request)
        self.request = request
        self.tree = Tree(settings.length_penalty) if settings.tree else None
        self._n_best = settings.n_best
        self._best: list[tuple[Result, int]] = []
        self._stuck: list[tuple[Result, int]] = []

    def add(self, result: Result, node: int) -> None:
        """Add a hypothesis; of equal ones the earlier ranks first."""
        results = self._stuck if result.reason == "stuck" else self._best
        results.append((result, node))
        results.sort(key=lambda pair: -pair[0].rank_score)
        del results[self._n_best :]
        self.mark(node, result.reason)

    @property
    def bound(self) -> float:
        """The rank score that a hypothesis must exceed to be among the results."""
        return self._best[-1][0].rank_score if len(self._best) == self._n_best else -np.inf

    def is_result(self, rank_score: float) -> bool:
        """Whether a hypothesis that finishes with this score would be among the results."""
        return rank_score > self.bound

    def mark(self, node: int, fate: str) -> None:
        """Set the fate of a hypothesis in the tree."""
        if self.tree is not None:
            self.tree.nodes[node].fate = fate

    def answer(self, request_id: int) -> Answer:
        """The results, ranked in the tree; stuck ones only if there are no others."""
        results = self._best or self._stuck
        if self.tree is not None:
            for place, (_, node) in enumerate(results):
                self.tree.nodes[node].place = place
        return Answer(request_id, self.request, [result for result, _ in results], self.tree)


@dataclass(frozen=True)
class RunningRequests:
    """The running requests as columns."""

    request_id: np.ndarray  # G
    constraints: RowConstraints
    beams: np.ndarray  # G
    max_finished: np.ndarray  # G, how many finished hypotheses end the search
    max_length_penalty: np.ndarray  # G, the length penalty at the maximum length
    candidates: np.ndarray  # G, how many continuations of a row can be selected
    finished: np.ndarray  # G, how many hypotheses have finished
    bound: np.ndarray  # G, the rank score that a hypothesis must exceed to be among the results

    @classmethod
    def of(cls, requests: Sequence[Request], first_id: int, stepper: Stepper) -> RunningRequests:
        """Requests with consecutive ids. Settings that several share are evaluated once."""
        keys = [(id(request.settings), free_length(request, stepper)) for request in requests]
        examples = dict(zip(keys, requests, strict=True))
        kinds = concatenate_rows([cls.of_one(request, free) for (_, free), request in examples.items()])
        numbers = {key: number for number, key in enumerate(examples)}
        columns = select_rows(kinds, np.array([numbers[key] for key in keys]))
        return replace(columns, request_id=first_id + np.arange(len(requests)))

    @classmethod
    def of_one(cls, request: Request, free: int | None) -> RunningRequests:
        """One request; `free` is how many ids fit behind its prefix."""
        settings = _settings(request)
        constraints = RowConstraints.of(settings, free)
        return cls(
            np.array([0]),
            constraints,
            np.array([settings.beams]),
            np.array([settings.max_finished]),
            length_penalty(constraints.max_length, settings.length_penalty),
            settings.beams + constraints.max_endings,
            np.array([0]),
            np.array([-np.inf]),
        )


@dataclass(frozen=True)
class Hypotheses:
    """Hypotheses as columns, sorted by request."""

    group: np.ndarray  # R, the index of the request in RunningRequests
    tokens: RowTokens
    score: np.ndarray  # R
    node: np.ndarray  # R, the number in the tree

    @classmethod
    def of(cls, request: Request, group: int) -> Hypotheses:
        """The first hypothesis of a request: its prefix."""
        return cls(np.array([group]), RowTokens.of(request.prefix), np.zeros(1), np.zeros(1, dtype=np.int64))


class Beam:
    """A running batch of beams; requests enter and leave between steps. The stepper is used by it alone.

    A request has one row per live hypothesis. It enters with one row, so that prefix and source are read
    once.
    """

    def __init__(self, stepper: Stepper):
        self._stepper = check_unused(stepper)
        self._finished: dict[int, FinishedHypotheses] = {}
        self._next_id = 0
        self._has_until = self._has_trees = False  # whether any request has an `until`, or a tree
        self._groups, self._rows = _no_requests()
        self._arrange_rows()

    @property
    def active(self) -> list[int]:
        """The ids of the running requests."""
        return list(self._finished)

    def admit(self, requests: Sequence[Request]) -> list[int]:
        """Add requests, all or none; the id of each."""
        check_requests(requests, self._stepper, BeamSettings)
        if not requests:
            return []
        running = len(self._groups.request_id)
        groups = RunningRequests.of(requests, self._next_id, self._stepper)
        read_prefixes(requests, self._stepper)
        rows = [Hypotheses.of(request, running + i) for i, request in enumerate(requests)]
        self._groups = concatenate_rows([self._groups, groups] if running else [groups])
        self._rows = concatenate_rows([self._rows, *rows] if running else rows)
        self._arrange_rows()
        request_ids = groups.request_id.tolist()
        self._finished |= dict(zip(request_ids, map(FinishedHypotheses, requests), strict=True))
        self._next_id += len(requests)
        self._has_until = any(finished.request.until for finished in self._finished.values())
        self._has_trees = any(finished.tree for finished in self._finished.values())
        return request_ids

    def step(self) -> list[Answer]:
        """Extend every live hypothesis by one id; the answers of the requests that this finished."""
        if not self._finished:
            return []
        following = self._continuations()
        codes = finish_codes(self._constraints, self._rows.tokens, following.ids)
        layout = self._layout
        scores = layout.by_group(self._rows.score[:, None] + following.log_probabilities, -np.inf)
        selection = select_beams(scores, layout.by_group(codes > RUNNING, False), self._groups.beams)
        selected = layout.selected(selection.lives | selection.finishes, following.ids.shape[1])
        extended = self._extended(selected, following, self._grow_trees(following, layout, selection))
        codes = self._codes(extended, codes[selected.where])
        self._finish_stuck(following)
        self._finish(extended, codes)
        return self._keep_live(extended, selected.row, codes)

    def cancel(self, request_id: int) -> Answer | None:
        """Remove a request and return what it has generated; None if it has finished already."""
        if request_id not in self._finished:
            return None
        cancelled = self._groups.request_id[self._rows.group] == request_id
        self._finish(self._rows, np.where(cancelled, CANCELLED, RUNNING))
        is_over = self._groups.request_id == request_id
        return self._remove(self._rows, np.arange(len(cancelled)), ~cancelled, is_over)[0]

    def _continuations(self) -> Continuations:
        """The continuations of each row, as many as can be selected."""
        count = min(int(self._groups.candidates.max()), self._stepper.vocabulary)
        tokens = self._rows.tokens
        following = continuations(self._stepper.step(tokens.last, count, banned(self._constraints, tokens)))
        check_numbers(following.log_probabilities)
        return following

    def _extended(self, selected: Selected, following: Continuations, nodes: np.ndarray | None) -> Hypotheses:
        """The hypotheses that live on or finish, each a row with one more id."""
        ids, log_probabilities = following.ids[selected.where], following.log_probabilities[selected.where]
        rows = select_rows(self._rows, selected.row)
        node = rows.node if nodes is None else nodes[selected.group, selected.column]
        tokens = rows.tokens.append(ids, log_probabilities)
        return Hypotheses(rows.group, tokens, rows.score + log_probabilities, node)

    def _codes(self, extended: Hypotheses, codes: np.ndarray) -> np.ndarray:
        """Why each hypothesis finishes, or RUNNING."""
        max_length = self._groups.constraints.max_length[extended.group]
        codes[(codes == RUNNING) & (extended.tokens.generated >= max_length)] = LENGTH
        if self._has_until:
            for row in np.flatnonzero((codes == RUNNING) | (codes == LENGTH)).tolist():
                until = self._finished_of(extended.group[row]).request.until
                if until is not None and until(extended.tokens.generated_ids(row)):
                    codes[row] = STOP
        return codes

    def _finish_stuck(self, following: Continuations) -> None:
        """Finish hypotheses after which every id is forbidden."""
        stuck = following.log_probabilities[:, 0] == -np.inf
        if np.count_nonzero(stuck):
            self._finish(self._rows, np.where(stuck, STUCK, RUNNING))

    def _finish(self, rows: Hypotheses, codes: np.ndarray) -> None:
        """Add the hypotheses that are not running to the finished ones of their request."""
        generated = rows.tokens.generated
        for row in np.flatnonzero(codes).tolist():
            group = int(rows.group[row])
            finished, reason, node = self._finished_of(group), REASONS[int(codes[row])], int(rows.node[row])
            settings = finished.request.settings
            penalty = length_penalty(int(generated[row]), settings.length_penalty)
            if reason == "stuck" or finished.is_result(float(rows.score[row]) / penalty):
                finished.add(result_of(rows.tokens, row, reason, settings), node)
            else:
                finished.mark(node, reason)
            self._groups.finished[group] += codes[row] != STUCK
            self._groups.bound[group] = finished.bound

    def _keep_live(self, extended: Hypotheses, parents: np.ndarray, codes: np.ndarray) -> list[Answer]:
        """Keep the live hypotheses of unfinished requests, and answer the finished requests."""
        groups, running = self._groups, codes == RUNNING
        best = np.full(len(groups.request_id), -np.inf)
        np.maximum.at(best, extended.group[running], extended.score[running])
        is_over = (groups.finished >= groups.max_finished) | (
            best / groups.max_length_penalty <= groups.bound
        )
        if self._has_trees:
            for row in np.flatnonzero(running & is_over[extended.group]).tolist():
                self._finished_of(extended.group[row]).mark(int(extended.node[row]), "abandoned")
        return self._remove(extended, parents, running & ~is_over[extended.group], is_over)

    def _remove(
        self, rows: Hypotheses, parents: np.ndarray, keep: np.ndarray, is_over: np.ndarray
    ) -> list[Answer]:
        """Remove finished requests, and reorder the stepper's rows by the parents of the rows kept."""
        over = self._groups.request_id[is_over].tolist()
        answers = [self._finished.pop(request_id).answer(request_id) for request_id in over]
        parents = parents[keep]
        if not np.array_equal(parents, np.arange(self._stepper.rows)):
            self._stepper.reorder(parents)
        kept = rows if keep.all() else select_rows(rows, np.flatnonzero(keep))
        if len(answers) == len(is_over):  # nothing runs any more
            self._groups, kept = _no_requests()
        elif answers:
            group = (np.cumsum(~is_over) - 1)[kept.group]
            kept = replace(kept, tokens=kept.tokens.trimmed(), group=group)
            self._groups = trim_padding(select_rows(self._groups, np.flatnonzero(~is_over)))
        is_arranged = not answers and np.array_equal(kept.group, self._rows.group)
        self._rows = kept
        if not is_arranged:
            self._arrange_rows()
        return answers

    def _arrange_rows(self) -> None:
        """Set what depends on which request each row belongs to."""
        group = self._rows.group
        self._layout = RowLayout.of(group, len(self._groups.request_id))
        self._constraints = select_rows(self._groups.constraints, group)  # of each row

    def _grow_trees(
        self, following: Continuations, layout: RowLayout, selection: Selection
    ) -> np.ndarray | None:
        """G C: the number of each continuation in the tree of its request, 0 if it is impossible."""
        if not self._has_trees:
            return None
        numbers = np.zeros((len(self._finished), layout.width, following.ids.shape[1]), dtype=np.int64)
        lives = selection.lives.reshape(numbers.shape)
        for group, finished in enumerate(self._finished.values()):
            if finished.tree is None:
                continue
            values = following.log_probabilities[:, : self._groups.candidates[group]]
            for index, row in enumerate(np.flatnonzero(layout.group == group).tolist()):
                for column in np.flatnonzero(values[row] > -np.inf).tolist():
                    fate = "kept" if lives[group, index, column] else "outranked"
                    token, value = int(following.ids[row, column]), float(values[row, column])
                    node = finished.tree.add(int(self._rows.node[row]), token, value, fate)
                    numbers[group, index, column] = node
        return numbers.reshape(selection.lives.shape)

    def _finished_of(self, group: int) -> FinishedHypotheses:
        return self._finished[int(self._groups.request_id[group])]


@cache
def _no_requests() -> tuple[RunningRequests, Hypotheses]:
    """The columns of a search without requests."""
    example = Request(np.zeros(1, int), BeamSettings())
    columns = RunningRequests.of_one(example, None), Hypotheses.of(example, 0)
    return select_rows(columns[0], NO_ROWS), select_rows(columns[1], NO_ROWS)


def _settings(request: Request) -> BeamSettings:
    assert isinstance(request.settings, BeamSettings)
    return request.settings
