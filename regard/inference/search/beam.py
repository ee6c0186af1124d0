"""Beam search: the best few hypotheses of each request go on together, one id a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from pydantic import model_validator

from regard.engine.stepper import Stepper
from regard.errors import SettingError
from regard.inference.search.constraints import (
    CANCELLED,
    GOING,
    LENGTH,
    NONE,
    REASONS,
    STOP,
    STUCK,
    Constraints,
    RowConstraints,
    Written,
    banned,
    begin,
    between,
    finishing,
    joined,
    length_penalty,
    row_constraints,
    slimmed,
    taken,
)
from regard.inference.search.requests import (
    Answer,
    Request,
    Result,
    admit_rows,
    check_numbers,
    check_requests,
    result_of,
    room_for,
    unused,
)
from regard.inference.search.selection import (
    Continuations,
    Picked,
    Places,
    Selection,
    Tree,
    continuations,
    places_of,
    select_beams,
)


class Pool:
    """The best of a request's finished hypotheses, in order, and the tree where one is kept."""

    def __init__(self, request: Request, n_best: int, tree: Tree | None):
        self.request, self.tree = request, tree
        self._n_best = n_best
        self._best: list[tuple[Result, int]] = []
        self._stuck: list[tuple[Result, int]] = []

    def add(self, result: Result, node: int) -> None:
        """Take in a hypothesis; of equals the earlier one ranks first."""
        few = self._stuck if result.reason == "stuck" else self._best
        few.append((result, node))
        few.sort(key=lambda pair: -pair[0].rank_score)
        del few[self._n_best :]
        self.mark(node, result.reason)

    @property
    def bound(self) -> float:
        """What a hypothesis must rank above to be among the results."""
        return self._best[-1][0].rank_score if len(self._best) == self._n_best else -np.inf

    def mark(self, node: int, fate: str) -> None:
        """Note in the tree what became of a hypothesis."""
        if self.tree is not None:
            self.tree.nodes[node].fate = fate

    def answer(self, ticket: int) -> Answer:
        """The results, their places noted in the tree; stuck ones only where there is nothing else."""
        few = self._best or self._stuck
        if self.tree is not None:
            for place, (_, node) in enumerate(few):
                self.tree.nodes[node].place = place
        return Answer(ticket, self.request, [result for result, _ in few], self.tree)


class BeamSettings(Constraints):
    """How wide to search, and when a request is over.

    It is over when `beams` x `patience` hypotheses have finished (Kasai et al. 2022; patience 1 is what is
    commonly done), or sooner, when no live hypothesis could come to rank above the `n_best` finished
    ones, were all its further tokens certain and its length the longest. Without patience only the latter
    counts. At the longest length every live hypothesis is finished as it is; one after which everything is
    forbidden is a result only where no other finished.
    """

    beams: Annotated[int, between(1, 1 << 12, "1 is greedy")] = 4
    n_best: Annotated[int, between(1, 1 << 12, "1 gives the best alone")] = 1
    patience: Annotated[float | None, between(0.01, 1000, "leave it None to search on")] = 1.0
    tree: bool = False  # keep every hypothesis, kept or dropped, for a picture

    @model_validator(mode="after")
    def _check_beams(self) -> BeamSettings:
        if self.n_best > self.beams:
            raise SettingError(
                f"n_best ({self.n_best}) must not be above beams ({self.beams}); widen the beam"
            )
        return self

    @property
    def quota(self) -> float:
        """How many finished hypotheses end the search."""
        return np.inf if self.patience is None else max(self.n_best, round(self.beams * self.patience))


@dataclass(frozen=True)
class Groups:
    """The requests that run, as columns."""

    ticket: np.ndarray  # G
    rules: RowConstraints
    beams: np.ndarray  # G
    quota: np.ndarray  # G, how many finished hypotheses end the search
    longest_penalty: np.ndarray  # G, the length penalty at the longest length
    looked_at: np.ndarray  # G, how many continuations of a row can matter
    finished: np.ndarray  # G, how many hypotheses have finished
    bound: np.ndarray  # G, what a hypothesis must rank above to be among the results


@dataclass(frozen=True)
class Rows:
    """The live hypotheses as columns, those of a request one after the other."""

    group: np.ndarray  # R, where in Groups the request stands
    written: Written
    score: np.ndarray  # R
    node: np.ndarray  # R, the hypothesis in its tree


class Beam:
    """A running batch of beams whose requests enter and leave between steps. It has the stepper for itself.

    A request has as many rows as it has live hypotheses: one when it enters, so that its prefix and its
    source are read once. BeamSettings says when it is over.
    """

    def __init__(self, stepper: Stepper):
        self._stepper = unused(stepper)
        self._pools: dict[int, Pool] = {}
        self._issued = 0
        self._listens = self._draws = False  # whether any request has an `until`, or wants its tree
        nobody = Request(np.zeros(1, int), BeamSettings())
        self._groups = taken(_group(nobody, 0, None), NONE)
        self._rows = taken(_row(nobody, 0), NONE)
        self._rules = self._groups.rules  # of each row

    @property
    def active(self) -> list[int]:
        """The tickets of the requests that run."""
        return list(self._pools)

    def admit(self, requests: Sequence[Request]) -> list[int]:
        """Let requests enter, all or none; a ticket for each."""
        check_requests(requests, self._stepper, BeamSettings)
        if not requests:
            return []
        running = len(self._groups.ticket)
        tickets = list(range(self._issued, self._issued + len(requests)))
        rooms = [room_for(request, self._stepper) for request in requests]
        groups = [_group(*each) for each in zip(requests, tickets, rooms, strict=True)]
        admit_rows(requests, self._stepper)
        self._groups = joined([self._groups, *groups])
        self._rows = joined([self._rows, *(_row(each, running + i) for i, each in enumerate(requests))])
        self._rules = taken(self._groups.rules, self._rows.group)
        self._pools |= {ticket: _pool(each) for ticket, each in zip(tickets, requests, strict=True)}
        self._issued += len(requests)
        self._listens = any(pool.request.until for pool in self._pools.values())
        self._draws = any(pool.tree for pool in self._pools.values())
        return tickets

    def step(self) -> list[Answer]:
        """One id more for every live hypothesis; the answers that this finished."""
        if not self._pools:
            return []
        may = self._ask()
        codes = finishing(self._rules, self._rows.written, may.ids)
        places = places_of(self._rows.group, len(self._pools))
        scores = places.spread(self._rows.score[:, None] + may.log_probabilities, -np.inf)
        verdict = select_beams(scores, places.spread(codes > GOING, False), self._groups.beams)
        picked = places.gather(verdict.lives | verdict.finishes, may.ids.shape[1])
        grown = self._grown(picked, may, self._record(may, places, verdict))
        why = self._why(grown, codes[picked.where])
        self._give_up_the_stuck(may)
        self._finish(grown, why)
        return self._go_on(grown, picked.parent, why)

    def cancel(self, ticket: int) -> Answer | None:
        """Let a request leave with what it has so far; None where it has left already."""
        if ticket not in self._pools:
            return None
        mine = self._groups.ticket[self._rows.group] == ticket
        self._finish(self._rows, np.where(mine, CANCELLED, GOING))
        return self._leave(self._rows, np.arange(len(mine)), ~mine, self._groups.ticket == ticket)[0]

    def _ask(self) -> Continuations:
        """What may follow each row: as many of the best as can matter to any."""
        best = min(int(self._groups.looked_at.max()), self._stepper.vocabulary)
        written = self._rows.written
        may = continuations(self._stepper.step(written.last, best, banned(self._rules, written)))
        check_numbers(may.log_probabilities)
        return may

    def _grown(self, picked: Picked, may: Continuations, nodes: np.ndarray | None) -> Rows:
        """The hypotheses that live or finish, each a row and one id more."""
        ids, chances = may.ids[picked.where], may.log_probabilities[picked.where]
        rows = taken(self._rows, picked.parent)
        node = rows.node if nodes is None else nodes[picked.group, picked.place]
        return Rows(rows.group, rows.written.append(ids, chances), rows.score + chances, node)

    def _why(self, grown: Rows, codes: np.ndarray) -> np.ndarray:
        """Why each hypothesis is over, if it is."""
        longest = self._groups.rules.longest[grown.group]
        codes[(codes == GOING) & (grown.written.generated >= longest)] = LENGTH
        if self._listens:
            for row in np.flatnonzero((codes == GOING) | (codes == LENGTH)).tolist():
                until = self._pool(grown.group[row]).request.until
                if until is not None and until(grown.written.answer(row)):
                    codes[row] = STOP
        return codes

    def _give_up_the_stuck(self, may: Continuations) -> None:
        """Take note of hypotheses after which everything is forbidden."""
        stuck = np.isneginf(may.log_probabilities[:, 0])
        if stuck.any():
            self._finish(self._rows, np.where(stuck, STUCK, GOING))

    def _finish(self, rows: Rows, why: np.ndarray) -> None:
        """Put the hypotheses that are over into their request's pool."""
        for row in np.flatnonzero(why).tolist():
            group = int(rows.group[row])
            pool = self._pool(group)
            result = result_of(rows.written, row, REASONS[int(why[row])], pool.request.settings)
            pool.add(result, int(rows.node[row]))
            self._groups.finished[group] += why[row] != STUCK
            self._groups.bound[group] = pool.bound

    def _go_on(self, grown: Rows, parents: np.ndarray, why: np.ndarray) -> list[Answer]:
        """Keep the live hypotheses of requests that are not over, and answer the others."""
        groups, goes = self._groups, why == GOING
        best = np.full(len(groups.ticket), -np.inf)
        np.maximum.at(best, grown.group[goes], grown.score[goes])
        over = (groups.finished >= groups.quota) | (best / groups.longest_penalty <= groups.bound)
        self._abandon(grown, goes & over[grown.group])
        return self._leave(grown, parents, goes & ~over[grown.group], over)

    def _leave(self, rows: Rows, parents: np.ndarray, keep: np.ndarray, over: np.ndarray) -> list[Answer]:
        """Let requests leave that are over, and the stepper's rows follow those that are kept."""
        answers = [self._pools.pop(int(ticket)).answer(int(ticket)) for ticket in self._groups.ticket[over]]
        parents = parents[keep]
        if not np.array_equal(parents, np.arange(self._stepper.rows)):
            self._stepper.reorder(parents)
        kept = rows if keep.all() else taken(rows, np.flatnonzero(keep))
        if answers:
            group = (np.cumsum(~over) - 1)[kept.group]
            kept = replace(kept, written=kept.written.trimmed(), group=group)
            self._groups = slimmed(taken(self._groups, np.flatnonzero(~over)))
        if answers or not np.array_equal(kept.group, self._rows.group):
            self._rules = taken(self._groups.rules, kept.group)
        self._rows = kept
        return answers

    def _abandon(self, rows: Rows, given_up: np.ndarray) -> None:
        """Note in the trees who was alive when the search was over."""
        if self._draws:
            for row in np.flatnonzero(given_up).tolist():
                self._pool(rows.group[row]).mark(int(rows.node[row]), "abandoned")

    def _record(self, may: Continuations, places: Places, verdict: Selection) -> np.ndarray | None:
        """G C: the number of each continuation in its request's tree, where one is kept."""
        if not self._draws:
            return None
        numbers = np.zeros((len(self._pools), places.width, may.ids.shape[1]), dtype=np.int64)
        lives = verdict.lives.reshape(numbers.shape)
        for group, pool in enumerate(self._pools.values()):
            if pool.tree is not None:
                rows, few = np.flatnonzero(places.group == group), self._groups.looked_at[group]
                mine = (group, slice(len(rows)), slice(few))
                numbers[mine] = pool.tree.grow(self._rows.node[rows], may.of(rows, few), lives[mine])
        return numbers.reshape(verdict.lives.shape)

    def _pool(self, group: int) -> Pool:
        return self._pools[int(self._groups.ticket[group])]


def _pool(request: Request) -> Pool:
    settings = _settings(request)
    return Pool(request, settings.n_best, Tree(settings.length_penalty) if settings.tree else None)


def _row(request: Request, group: int) -> Rows:
    return Rows(np.array([group]), begin(request.prefix), np.zeros(1), np.zeros(1, dtype=np.int64))


def _group(request: Request, ticket: int, room: int | None) -> Groups:
    settings = _settings(request)
    rules = row_constraints(settings, room)
    return Groups(
        np.array([ticket]),
        rules,
        np.array([settings.beams]),
        np.array([settings.quota]),
        length_penalty(rules.longest, settings.length_penalty),
        settings.beams + rules.enders,
        np.array([0]),
        np.array([-np.inf]),
    )


def _settings(request: Request) -> BeamSettings:
    assert isinstance(request.settings, BeamSettings)
    return request.settings
