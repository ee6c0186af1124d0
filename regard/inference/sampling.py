"""Sampling: rows that go on by one id a step, each by its own settings; greedy where the temperature is 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from regard.inference.choosing import COLD, Chosen, Taste, choose
from regard.inference.limits import (
    CANCELLED,
    GOING,
    LENGTH,
    REASONS,
    STOP,
    STUCK,
    Limits,
    Rules,
    banned,
    between,
    finishing,
    rules_of,
)
from regard.inference.request import (
    Answer,
    Request,
    admit_rows,
    check_numbers,
    check_requests,
    result_of,
    room_for,
    unused,
)
from regard.inference.rows import NONE, Written, begin, joined, slimmed, taken
from regard.stepping import Stepper

ALL = 1 << 31  # more ids than any vocabulary has


class SamplingSettings(Limits):
    """How to draw an id: the penalty first, then temperature, top-k, of that top-p, of that min-p.

    A row's random numbers come from its own seed and are drawn when it enters, so that an answer depends
    on no neighbour. The repetition penalty is that of transformers: of ids that the row holds already, prefix
    included, logits above 0 are divided by it and those below 0 multiplied.
    """

    temperature: Annotated[float, between(0, 100, "0 takes the likeliest id")] = 1.0
    top_k: Annotated[int | None, between(1, ALL, "leave it out to draw from every id")] = None
    top_p: Annotated[float | None, between(1e-6, 1, "leave it out to draw from every id")] = None
    min_p: Annotated[float | None, between(0, 1, "leave it out to draw from every id")] = None
    repetition_penalty: Annotated[float, between(0.01, 100, "1 is no penalty")] = 1.0
    seed: Annotated[int, between(0, (1 << 64) - 1, "give any whole number, 0 or more")] = 0


GREEDY = SamplingSettings(temperature=0.0)


@dataclass(frozen=True)
class Rows:
    """The rows that run, as columns."""

    ticket: np.ndarray
    written: Written
    rules: Rules
    taste: Taste


class Sampling:
    """A running batch of rows that enter and leave between steps. It has the stepper for itself.

    Requests with plain Limits are answered greedily; of equally likely ids the lower is taken.
    """

    def __init__(self, stepper: Stepper):
        self._stepper = unused(stepper)
        self._requests: dict[int, Request] = {}
        self._listens = False  # whether any request has an `until`
        self._issued = 0
        self._rows = taken(_row(Request(np.zeros(1, int), Limits(max_length=1)), 0, None), NONE)

    @property
    def active(self) -> list[int]:
        """The tickets of the requests that run."""
        return list(self._requests)

    def admit(self, requests: Sequence[Request]) -> list[int]:
        """Let requests enter, all or none; a ticket for each."""
        check_requests(requests, self._stepper, Limits, SamplingSettings)
        if not requests:
            return []
        tickets = list(range(self._issued, self._issued + len(requests)))
        entering = [
            _row(request, ticket, room_for(request, self._stepper))
            for request, ticket in zip(requests, tickets, strict=True)
        ]
        admit_rows(requests, self._stepper)
        self._rows = joined([self._rows, *entering])
        self._requests |= dict(zip(tickets, requests, strict=True))
        self._listens = any(request.until for request in self._requests.values())
        self._issued += len(requests)
        return tickets

    def step(self) -> list[Answer]:
        """One id more for every row; the answers that this finished."""
        if not self._requests:
            return []
        rows = self._rows
        choices = self._stepper.step(rows.written.last, self._enough(), banned(rows.rules, rows.written))
        chosen = choose(choices, rows.taste, rows.written)
        check_numbers(chosen.log_probabilities)
        after = rows.written.append(chosen.ids, chosen.log_probabilities)
        codes = self._codes(chosen, after)
        self._rows = Rows(rows.ticket, after, rows.rules, rows.taste)
        done = np.flatnonzero(codes)
        answers = [
            self._answer(row, codes[row], rows.written if codes[row] == STUCK else after)
            for row in done.tolist()
        ]
        self._drop(done)
        return answers

    def cancel(self, ticket: int) -> Answer | None:
        """Let a request leave with what it has so far; None where it has left already."""
        if ticket not in self._requests:
            return None
        rows = np.flatnonzero(self._rows.ticket == ticket)
        answer = self._answer(int(rows[0]), CANCELLED, self._rows.written)
        self._drop(rows)
        return answer

    def _enough(self) -> int | None:
        """How many candidates every row can do with; None for all of them."""
        most = int(self._rows.taste.enough.max())
        return most if most < self._stepper.vocabulary else None

    def _codes(self, chosen: Chosen, after: Written) -> np.ndarray:
        """Why each row is over, if it is."""
        rows = self._rows
        codes = finishing(rows.rules, rows.written, chosen.ids[:, None])[:, 0]
        codes[(codes == GOING) & (after.generated >= rows.rules.longest)] = LENGTH
        codes[np.isneginf(chosen.log_probabilities)] = STUCK
        return self._listened(codes, after) if self._listens else codes

    def _listened(self, codes: np.ndarray, after: Written) -> np.ndarray:
        """The same, after each request has been asked that has an `until`."""
        for row in np.flatnonzero((codes == GOING) | (codes == LENGTH)).tolist():
            until = self._requests[int(self._rows.ticket[row])].until
            if until is not None and until(after.answer(row)):
                codes[row] = STOP
        return codes

    def _answer(self, row: int, code: int, written: Written) -> Answer:
        ticket = int(self._rows.ticket[row])
        request = self._requests.pop(ticket)
        return Answer(ticket, request, [result_of(written, row, REASONS[int(code)], request.settings)])

    def _drop(self, rows: np.ndarray) -> None:
        if not len(rows):
            return
        self._stepper.drop(rows)
        kept = taken(self._rows, np.delete(np.arange(len(self._rows.ticket)), rows))
        self._rows = Rows(kept.ticket, kept.written.trimmed(), slimmed(kept.rules), slimmed(kept.taste))


def _row(request: Request, ticket: int, room: int | None) -> Rows:
    rules = rules_of(request.settings, room)
    taste = _taste(request.settings, int(rules.longest[0]))
    return Rows(np.array([ticket]), begin(request.prefix), rules, taste)


def _taste(settings: Limits, longest: int) -> Taste:
    if not isinstance(settings, SamplingSettings):
        settings = GREEDY
    cold = settings.temperature < COLD
    luck = np.empty(0) if cold else np.random.default_rng(settings.seed).random(longest)
    top_k = settings.top_k or ALL
    enough = ALL if settings.repetition_penalty != 1 else 1 if cold else top_k
    return Taste(
        np.array([cold]),
        np.array([settings.top_k is not None or settings.top_p is not None]),
        np.array([settings.temperature]),
        np.array([top_k]),
        np.array([settings.top_p or 1.0]),
        np.array([settings.min_p or 0.0]),
        np.array([settings.repetition_penalty]),
        luck[None, ::-1],
        np.array([enough]),
    )
