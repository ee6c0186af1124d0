"""Sampling: rows that advance by one id per step, each with its own settings; greedy at temperature 0.

R rows, K candidates per row, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from regard.engine.stepper import Choices, Stepper
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
    select_rows,
    trim_padding,
)
from regard.inference.search.requests import (
    Alternatives,
    Answer,
    Request,
    Result,
    check_numbers,
    check_requests,
    check_unused,
    free_length,
    read_prefixes,
    result_of,
    run,
)

ALL = 1 << 31  # more ids than any vocabulary has
GREEDY_BELOW = 1e-4  # a lower temperature takes the likeliest id


class SamplingSettings(Constraints):
    """The settings of sampling, applied in this order: repetition penalty, temperature, top-k, top-p, min-p.

    A row draws its random numbers from its own seed when it enters, so that an answer does not depend on the
    other rows. The repetition penalty is that of transformers: for ids that the row holds, also in its
    prefix, logits above 0 are divided by it and logits below 0 multiplied.
    """

    temperature: Annotated[float, between(0, 100, "0 takes the likeliest id")] = 1.0
    top_k: Annotated[int | None, between(1, ALL, "leave it out to draw from every id")] = None
    top_p: Annotated[float | None, between(1e-6, 1, "leave it out to draw from every id")] = None
    min_p: Annotated[float | None, between(0, 1, "leave it out to draw from every id")] = None
    repetition_penalty: Annotated[float, between(0.01, 100, "1 is no penalty")] = 1.0
    seed: Annotated[int, between(0, (1 << 64) - 1, "give any whole number, 0 or more")] = 0
    alternatives: Annotated[int, between(0, 100, "0 keeps none")] = 0  # likeliest ids kept at each step


GREEDY = SamplingSettings(temperature=0.0)


def sample(stepper: Stepper, requests: Sequence[Request], max_running: int | None = None) -> list[Answer]:
    """An answer to each request, drawn by its SamplingSettings."""
    return run(Sampling(stepper), requests, max_running)


def greedy(stepper: Stepper, requests: Sequence[Request], max_running: int | None = None) -> list[Answer]:
    """The likeliest id at every step, whatever the temperature of a request."""
    cold = [
        replace(request, settings=request.settings.changed(temperature=0.0))
        if isinstance(request.settings, SamplingSettings)
        else request
        for request in requests
    ]
    answers = run(Sampling(stepper), cold, max_running)
    return [replace(answer, request=request) for answer, request in zip(answers, requests, strict=True)]


@dataclass(frozen=True)
class SamplingParameters:
    """The sampling settings of each row as columns."""

    is_greedy: np.ndarray  # R, True if the likeliest id is taken
    is_truncated: np.ndarray  # R, True if top-k or top-p is set
    temperature: np.ndarray  # R
    top_k: np.ndarray  # R
    top_p: np.ndarray  # R
    min_p: np.ndarray  # R
    penalty: np.ndarray  # R
    uniforms: np.ndarray  # R T, a random number between 0 and 1 for each id to come, the first one last
    candidates: np.ndarray  # R, how many of the likeliest ids the row needs

    @classmethod
    def of(cls, settings: Constraints, max_length: int) -> SamplingParameters:
        """One row; settings without sampling are greedy."""
        if not isinstance(settings, SamplingSettings):
            settings = GREEDY
        is_greedy = settings.temperature < GREEDY_BELOW
        uniforms = np.empty(0) if is_greedy else np.random.default_rng(settings.seed).random(max_length)
        top_k = settings.top_k or ALL
        candidates = ALL if settings.repetition_penalty != 1 else 1 if is_greedy else top_k
        candidates = max(candidates, settings.alternatives)
        return cls(
            np.array([is_greedy]),
            np.array([settings.top_k is not None or settings.top_p is not None]),
            np.array([settings.temperature]),
            np.array([top_k]),
            np.array([settings.top_p or 1.0]),
            np.array([settings.min_p or 0.0]),
            np.array([settings.repetition_penalty]),
            uniforms[None, ::-1],
            np.array([candidates]),
        )


@dataclass(frozen=True)
class NextIds:
    """An id for each row and its log-probability in the unrestricted distribution."""

    ids: np.ndarray
    log_probabilities: np.ndarray


def next_ids(choices: Choices, parameters: SamplingParameters, tokens: RowTokens) -> NextIds:
    """An id for each row; its log-probability is minus infinity if every id is banned."""
    if choices.ids is not None and choices.ids.shape[1] == 1:  # nothing to choose
        return NextIds(choices.ids[:, 0], choices.log_probabilities[:, 0])
    ids, log_probabilities = in_order_of_ids(choices)
    scores = penalised(log_probabilities, choices.logits, parameters.penalty, tokens)
    column = scores.argmax(1)
    sampled = np.flatnonzero(~parameters.is_greedy)
    if len(sampled):
        if len(sampled) < len(column):
            scores, parameters = scores[sampled], select_rows(parameters, sampled)
        uniforms = parameters.uniforms[np.arange(len(sampled)), -1 - tokens.generated[sampled]]
        column[sampled] = draw(scores, parameters, uniforms)
    rows = np.arange(len(column))
    return NextIds(column if ids is None else ids[rows, column], log_probabilities[rows, column])


def in_order_of_ids(choices: Choices) -> tuple[np.ndarray | None, np.ndarray]:
    """Ids and log-probabilities, R K each; if ids is None, column i is id i."""
    if choices.ids is None:
        return choices.ids, choices.log_probabilities
    order = choices.ids.argsort(1)
    return np.take_along_axis(choices.ids, order, 1), np.take_along_axis(choices.log_probabilities, order, 1)


def penalised(
    log_probabilities: np.ndarray, logits: np.ndarray | None, penalty: np.ndarray, tokens: RowTokens
) -> np.ndarray:
    """R V: the scores to sample from: log-probabilities, or penalised logits for rows with a penalty.

    For an id that the row holds (Keskar et al. 2019), a logit above 0 is divided by the penalty and one below
    0 multiplied. Banned ids stay banned. If there are no logits, log-probabilities are used.
    """
    rows = np.flatnonzero(penalty != 1)
    if not len(rows):
        return log_probabilities
    scores = log_probabilities.copy()
    if logits is not None:
        scores[rows] = np.where(np.isneginf(log_probabilities[rows]), -np.inf, logits[rows])
    row, column = np.nonzero(tokens.ids[rows] >= 0)
    row = rows[row]
    ids, factor = tokens.ids[row, column], penalty[row].astype(log_probabilities.dtype)
    values = scores[row, ids]
    scores[row, ids] = np.where(values < 0, values * factor, values / factor)
    return scores


def draw(scores: np.ndarray, parameters: SamplingParameters, uniforms: np.ndarray) -> np.ndarray:
    """A column for each row, drawn by inverting the cumulative distribution at its uniform number."""
    sums = PrefixSums(weights(scores, parameters))
    return sums.first_above(uniforms * sums.total)


def weights(scores: np.ndarray, parameters: SamplingParameters) -> np.ndarray:
    """R K: unnormalised probabilities after temperature, top-k, top-p and min-p; the largest is 1."""
    peak = scores.max(1, keepdims=True)
    peak = np.where(np.isneginf(peak), 0, peak)
    with np.errstate(over="ignore"):
        scaled = (scores - peak) / parameters.temperature[:, None].astype(scores.dtype)
    weight = np.exp(scaled)
    if parameters.min_p.any():
        weight[weight < parameters.min_p[:, None].astype(weight.dtype)] = 0
    if parameters.is_truncated.any():
        is_truncated = parameters.is_truncated
        rows = slice(None) if is_truncated.all() else np.flatnonzero(is_truncated)
        weight[rows] *= top_k_top_p_mask(scaled[rows], parameters.top_k[rows], parameters.top_p[rows])
    return weight


def top_k_top_p_mask(scaled: np.ndarray, top_k: np.ndarray, top_p: np.ndarray) -> np.ndarray:
    """R K: the k likeliest candidates, and of these the smallest set with the probability mass top-p."""
    most = np.minimum(top_k, scaled.shape[1])
    descending = -np.sort(-scaled, axis=1)[:, : most.max()]
    sums = PrefixSums(np.exp(descending) * (np.arange(descending.shape[1]) < most[:, None]))
    counts = np.minimum(most, 1 + sums.first_above(np.nextafter(top_p * sums.total, 0)))
    return _largest_mask(descending[np.arange(len(descending)), counts - 1], scaled, counts)


class PrefixSums:
    """Prefix sums of R K weights in double precision, by blocks; only one block per row is summed in full."""

    _block = 128

    def __init__(self, weight: np.ndarray):
        self._weight = weight
        starts = np.arange(0, weight.shape[1], self._block)
        sums = np.add.reduceat(weight, starts, axis=1, dtype=np.float64)
        self._before = np.zeros((len(weight), len(starts) + 1))  # the sum before each block, and the total
        np.cumsum(sums, axis=1, out=self._before[:, 1:])

    @property
    def total(self) -> np.ndarray:
        """R: the sum of all weights."""
        return self._before[:, -1]

    def first_above(self, target: np.ndarray) -> np.ndarray:
        """R: the first column at which the prefix sum exceeds the target, or reaches the total."""
        row = np.arange(len(target))
        block = (self._before[:, 1:] > _below(target, self.total)[:, None]).argmax(1)
        column = block[:, None] * self._block + np.arange(self._block)
        inside = column < self._weight.shape[1]
        weight = np.where(inside, self._weight[row[:, None], np.where(inside, column, 0)], 0)
        sums = self._before[row, block][:, None] + np.cumsum(weight, axis=1, dtype=np.float64)
        return column[row, (sums > _below(target, sums[:, -1])[:, None]).argmax(1)]


def _below(target: np.ndarray, top: np.ndarray) -> np.ndarray:
    """The target, kept below the top despite rounding."""
    return np.minimum(target, np.nextafter(top, 0))


def _largest_mask(bound: np.ndarray, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """R K: the largest `counts` values of each row, down to its bound; of equal ones those with lower ids."""
    keep = values >= bound[:, None]
    tied = np.flatnonzero(np.count_nonzero(keep, axis=1) > counts)
    if len(tied):
        above, equal = values[tied] > bound[tied, None], values[tied] == bound[tied, None]
        remaining = counts[tied, None] - above.sum(1, keepdims=True)
        keep[tied] = above | (equal & (np.cumsum(equal, axis=1) <= remaining))
    return keep


@dataclass(frozen=True)
class Rows:
    """The running rows as columns."""

    request_id: np.ndarray
    tokens: RowTokens
    constraints: RowConstraints
    parameters: SamplingParameters

    @classmethod
    def of(cls, request: Request, request_id: int, free: int | None) -> Rows:
        """The row of one request; `free` is how many ids fit behind its prefix."""
        constraints = RowConstraints.of(request.settings, free)
        parameters = SamplingParameters.of(request.settings, int(constraints.max_length[0]))
        return cls(np.array([request_id]), RowTokens.of(request.prefix), constraints, parameters)


class Sampling:
    """A running batch of rows; requests enter and leave between steps. The stepper is used by it alone.

    Requests with plain Constraints are answered greedily; of equally likely ids the lower is taken.
    """

    def __init__(self, stepper: Stepper):
        self._stepper = check_unused(stepper)
        self._requests: dict[int, Request] = {}
        self._alternatives: dict[int, list[Alternatives]] = {}  # of the requests that ask for them
        self._has_until = False  # whether any request has an `until`
        self._next_id = 0
        example = Request(np.zeros(1, int), Constraints(max_length=1))
        self._rows = select_rows(Rows.of(example, 0, None), NO_ROWS)

    @property
    def active(self) -> list[int]:
        """The ids of the running requests."""
        return list(self._requests)

    def admit(self, requests: Sequence[Request]) -> list[int]:
        """Add requests, all or none; the id of each."""
        check_requests(requests, self._stepper, Constraints, SamplingSettings)
        if not requests:
            return []
        request_ids = list(range(self._next_id, self._next_id + len(requests)))
        new_rows = [
            Rows.of(request, request_id, free_length(request, self._stepper))
            for request, request_id in zip(requests, request_ids, strict=True)
        ]
        read_prefixes(requests, self._stepper)
        self._rows = concatenate_rows([self._rows, *new_rows])
        self._requests |= dict(zip(request_ids, requests, strict=True))
        self._alternatives |= {i: [] for i in request_ids if _alternatives(self._requests[i])}
        self._has_until = any(request.until for request in self._requests.values())
        self._next_id += len(requests)
        return request_ids

    def step(self) -> list[Answer]:
        """Generate one id for every row; the answers of the requests that this finished."""
        if not self._requests:
            return []
        rows = self._rows
        bans = banned(rows.constraints, rows.tokens)
        choices = self._stepper.step(rows.tokens.last, self._candidates(), bans)
        chosen = next_ids(choices, rows.parameters, rows.tokens)
        check_numbers(chosen.log_probabilities)
        tokens = rows.tokens.append(chosen.ids, chosen.log_probabilities)
        if self._alternatives:
            self._keep_alternatives(choices)
        codes = self._codes(chosen, tokens)
        self._rows = Rows(rows.request_id, tokens, rows.constraints, rows.parameters)
        if not codes.any():
            return []
        finished = np.flatnonzero(codes)
        answers = [
            self._answer(row, codes[row], rows.tokens if codes[row] == STUCK else tokens)
            for row in finished.tolist()
        ]
        self._drop(finished)
        return answers

    def cancel(self, request_id: int) -> Answer | None:
        """Remove a request and return what it has generated; None if it has finished already."""
        if request_id not in self._requests:
            return None
        rows = np.flatnonzero(self._rows.request_id == request_id)
        answer = self._answer(int(rows[0]), CANCELLED, self._rows.tokens)
        self._drop(rows)
        return answer

    def generated(self, request_id: int) -> Result:
        """What a running request has generated so far."""
        row = int(np.flatnonzero(self._rows.request_id == request_id)[0])
        return self._result(row, CANCELLED, self._rows.tokens)

    def _keep_alternatives(self, choices: Choices) -> None:
        for row in np.flatnonzero(np.isin(self._rows.request_id, list(self._alternatives))).tolist():
            request_id = int(self._rows.request_id[row])
            count = _alternatives(self._requests[request_id])
            self._alternatives[request_id].append(_likeliest(choices, row, count))

    def _candidates(self) -> int | None:
        """How many candidates the rows need; None for the whole vocabulary."""
        count = int(self._rows.parameters.candidates.max())
        return count if count < self._stepper.vocabulary else None

    def _codes(self, chosen: NextIds, tokens: RowTokens) -> np.ndarray:
        """Why each row finishes, or RUNNING; `tokens` hold the chosen ids."""
        rows = self._rows
        codes = finish_codes(rows.constraints, rows.tokens, chosen.ids[:, None])[:, 0]
        codes[(codes == RUNNING) & (tokens.generated >= rows.constraints.max_length)] = LENGTH
        codes[chosen.log_probabilities == -np.inf] = STUCK
        if self._has_until:
            for row in np.flatnonzero((codes == RUNNING) | (codes == LENGTH)).tolist():
                until = self._requests[int(rows.request_id[row])].until
                if until is not None and until(tokens.generated_ids(row)):
                    codes[row] = STOP
        return codes

    def _answer(self, row: int, code: int, tokens: RowTokens) -> Answer:
        result = self._result(row, code, tokens)
        request_id = int(self._rows.request_id[row])
        self._alternatives.pop(request_id, None)
        return Answer(request_id, self._requests.pop(request_id), [result])

    def _result(self, row: int, code: int, tokens: RowTokens) -> Result:
        request_id = int(self._rows.request_id[row])
        result = result_of(tokens, row, REASONS[int(code)], self._requests[request_id].settings)
        kept = self._alternatives.get(request_id)
        return replace(result, alternatives=tuple(kept[: len(result.ids)])) if kept else result

    def _drop(self, rows: np.ndarray) -> None:
        self._stepper.drop(rows)
        kept = select_rows(self._rows, np.delete(np.arange(len(self._rows.request_id)), rows))
        constraints, parameters = trim_padding(kept.constraints), trim_padding(kept.parameters)
        self._rows = Rows(kept.request_id, kept.tokens.trimmed(), constraints, parameters)


def _alternatives(request: Request) -> int:
    return getattr(request.settings, "alternatives", 0)


def _likeliest(choices: Choices, row: int, count: int) -> Alternatives:
    """The likeliest ids of a row; equal ones are ordered by id."""
    values = choices.log_probabilities[row]
    order = np.argsort(-values, kind="stable")[:count]
    ids = order if choices.ids is None else choices.ids[row][order]
    return Alternatives(ids, values[order])
