"""Sampling: rows that go on by one id a step, each by its own settings; greedy where the temperature is 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from regard.engine.stepper import Choices, Stepper
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
    row_constraints,
    slimmed,
    taken,
)
from regard.inference.search.requests import (
    Answer,
    Request,
    admit_rows,
    check_numbers,
    check_requests,
    result_of,
    room_for,
    unused,
)

COLD = 1e-4  # at a lower temperature the likeliest id is all that is left


@dataclass(frozen=True)
class SamplingParameters:
    """How each row chooses, as columns."""

    cold: np.ndarray  # R, True where the likeliest id is taken
    picky: np.ndarray  # R, True where top-k or top-p leave out something
    temperature: np.ndarray  # R
    top_k: np.ndarray  # R
    top_p: np.ndarray  # R
    min_p: np.ndarray  # R
    penalty: np.ndarray  # R
    uniforms: np.ndarray  # R T, a number between 0 and 1 for each id to come, the first one last
    enough: np.ndarray  # R, how many of the likeliest ids the row has to see


@dataclass(frozen=True)
class Chosen:
    """An id for each row and what the unrestricted model thinks of it."""

    ids: np.ndarray
    log_probabilities: np.ndarray


def choose(choices: Choices, taste: SamplingParameters, written: Written) -> Chosen:
    """An id for each row; minus infinity is the log-probability of one that has nothing to choose from."""
    ids, chances = in_order_of_ids(choices)
    wanted = penalised(chances, choices.logits, taste.penalty, written)
    column = wanted.argmax(1)
    warm = np.flatnonzero(~taste.cold)
    if len(warm):
        everybody = len(warm) == len(column)
        some = taste if everybody else taken(taste, warm)
        uniforms = some.uniforms[np.arange(len(warm)), -1 - written.generated[warm]]
        column[warm] = draw(wanted if everybody else wanted[warm], some, uniforms)
    rows = np.arange(len(column))
    return Chosen(column if ids is None else ids[rows, column], chances[rows, column])


def in_order_of_ids(choices: Choices) -> tuple[np.ndarray | None, np.ndarray]:
    """Ids and log-probabilities, R K each; without ids, column i is id i."""
    if choices.ids is None or choices.ids.shape[1] == 1:
        return choices.ids, choices.log_probabilities
    order = choices.ids.argsort(1)
    return np.take_along_axis(choices.ids, order, 1), np.take_along_axis(choices.log_probabilities, order, 1)


def penalised(
    chances: np.ndarray, logits: np.ndarray | None, penalty: np.ndarray, written: Written
) -> np.ndarray:
    """R V: what each row chooses by. Rows without a penalty choose by their log-probabilities.

    The others choose by logits (Keskar et al. 2019): of an id that the row holds already, in its prefix too,
    a logit above 0 is divided by the penalty and one below 0 multiplied. What is banned stays so. Where there
    are no logits, log-probabilities take their place.
    """
    rows = np.flatnonzero(penalty != 1)
    if not len(rows):
        return chances
    wanted = chances.copy()
    if logits is not None:
        wanted[rows] = np.where(np.isneginf(chances[rows]), -np.inf, logits[rows])
    row, place = np.nonzero(written.ids[rows] >= 0)
    row = rows[row]
    ids, factor = written.ids[row, place], penalty[row].astype(chances.dtype)
    held = wanted[row, ids]
    wanted[row, ids] = np.where(held < 0, held * factor, held / factor)
    return wanted


def draw(wanted: np.ndarray, taste: SamplingParameters, uniforms: np.ndarray) -> np.ndarray:
    """A column for each row: the first at which the heaped-up weights pass luck's share of them all."""
    heap = PrefixSums(weights(wanted, taste))
    return heap.passing(uniforms * heap.total)


def weights(wanted: np.ndarray, taste: SamplingParameters) -> np.ndarray:
    """R K: what each candidate weighs in the draw, the likeliest 1, those that are out 0."""
    peak = wanted.max(1, keepdims=True)
    peak = np.where(np.isneginf(peak), 0, peak)
    with np.errstate(over="ignore"):
        cooled = (wanted - peak) / taste.temperature[:, None].astype(wanted.dtype)
    weight = np.exp(cooled)
    if taste.min_p.any():
        weight[weight < taste.min_p[:, None].astype(weight.dtype)] = 0
    if taste.picky.any():
        picky = slice(None) if taste.picky.all() else np.flatnonzero(taste.picky)
        weight[picky] *= survivors(cooled[picky], taste.top_k[picky], taste.top_p[picky])
    return weight


def survivors(cooled: np.ndarray, top_k: np.ndarray, top_p: np.ndarray) -> np.ndarray:
    """R K: which candidates remain: the top k, and of these the fewest that weigh top-p of them."""
    most = np.minimum(top_k, cooled.shape[1])
    falling = -np.sort(-cooled, axis=1)[:, : most.max()]
    heap = PrefixSums(np.exp(falling) * (np.arange(falling.shape[1]) < most[:, None]))
    counts = np.minimum(most, 1 + heap.passing(np.nextafter(top_p * heap.total, 0)))
    return _down_to(falling[np.arange(len(falling)), counts - 1], cooled, counts)


class PrefixSums:
    """The running sums of R K weights in double precision, by blocks and then inside the one that matters."""

    _block = 128

    def __init__(self, weight: np.ndarray):
        self._weight = weight
        starts = np.arange(0, weight.shape[1], self._block)
        sums = np.add.reduceat(weight, starts, axis=1, dtype=np.float64)
        self._before = np.zeros((len(weight), len(starts) + 1))  # what lies before each block, and in all
        np.cumsum(sums, axis=1, out=self._before[:, 1:])

    @property
    def total(self) -> np.ndarray:
        """R: what all weigh."""
        return self._before[:, -1]

    def passing(self, aim: np.ndarray) -> np.ndarray:
        """R: the first column at which the running sum is above the aim, or that reaches the total."""
        row = np.arange(len(aim))
        block = (self._before[:, 1:] > _below(aim, self.total)[:, None]).argmax(1)
        column = block[:, None] * self._block + np.arange(self._block)
        inside = column < self._weight.shape[1]
        weight = np.where(inside, self._weight[row[:, None], np.where(inside, column, 0)], 0)
        sums = self._before[row, block][:, None] + np.cumsum(weight, axis=1, dtype=np.float64)
        return column[row, (sums > _below(aim, sums[:, -1])[:, None]).argmax(1)]


def _below(aim: np.ndarray, top: np.ndarray) -> np.ndarray:
    """The aim, kept from reaching the top by rounding."""
    return np.minimum(aim, np.nextafter(top, 0))


def _down_to(bound: np.ndarray, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """R K: so many values from the largest down to the border; of those on it the ones with lower ids."""
    keep = values >= bound[:, None]
    crowded = np.flatnonzero(np.count_nonzero(keep, axis=1) > counts)
    if len(crowded):
        above, level = values[crowded] > bound[crowded, None], values[crowded] == bound[crowded, None]
        left = counts[crowded, None] - above.sum(1, keepdims=True)
        keep[crowded] = above | (level & (np.cumsum(level, axis=1) <= left))
    return keep


ALL = 1 << 31  # more ids than any vocabulary has


class SamplingSettings(Constraints):
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
    rules: RowConstraints
    taste: SamplingParameters


class Sampling:
    """A running batch of rows that enter and leave between steps. It has the stepper for itself.

    Requests with plain Limits are answered greedily; of equally likely ids the lower is taken.
    """

    def __init__(self, stepper: Stepper):
        self._stepper = unused(stepper)
        self._requests: dict[int, Request] = {}
        self._listens = False  # whether any request has an `until`
        self._issued = 0
        self._rows = taken(_row(Request(np.zeros(1, int), Constraints(max_length=1)), 0, None), NONE)

    @property
    def active(self) -> list[int]:
        """The tickets of the requests that run."""
        return list(self._requests)

    def admit(self, requests: Sequence[Request]) -> list[int]:
        """Let requests enter, all or none; a ticket for each."""
        check_requests(requests, self._stepper, Constraints, SamplingSettings)
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
    rules = row_constraints(request.settings, room)
    taste = _taste(request.settings, int(rules.longest[0]))
    return Rows(np.array([ticket]), begin(request.prefix), rules, taste)


def _taste(settings: Constraints, longest: int) -> SamplingParameters:
    if not isinstance(settings, SamplingSettings):
        settings = GREEDY
    cold = settings.temperature < COLD
    uniforms = np.empty(0) if cold else np.random.default_rng(settings.seed).random(longest)
    top_k = settings.top_k or ALL
    enough = ALL if settings.repetition_penalty != 1 else 1 if cold else top_k
    return SamplingParameters(
        np.array([cold]),
        np.array([settings.top_k is not None or settings.top_p is not None]),
        np.array([settings.temperature]),
        np.array([top_k]),
        np.array([settings.top_p or 1.0]),
        np.array([settings.min_p or 0.0]),
        np.array([settings.repetition_penalty]),
        uniforms[None, ::-1],
        np.array([enough]),
    )
