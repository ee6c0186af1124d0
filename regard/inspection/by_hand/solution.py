"""Solve a problem: scores, softmax and output, with every intermediate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import SettingError, ShapeError
from regard.inspection.by_hand.examples import Example, find_example
from regard.inspection.by_hand.problem import NAMES, Matrix, Problem, pose, read_mask, read_matrix, shape
from regard.model.attention import attention_steps
from regard.model.masks import Mask
from regard.model.similarity import SIMILARITIES, Similarity

MOST_DECIMALS = 6
COLDEST, HOTTEST = 1e-6, 1e6


@dataclass(frozen=True, eq=False)
class Rules:
    """How a problem is solved.

    scale     divide by sqrt(d_k), or not; None follows the similarity
    mask      queries x keys, True where a query may attend
    decimals  also compute the output from weights rounded to so many decimals
    """

    similarity: str = "scaled-dot"
    scale: bool | None = None
    causal: bool = False
    mask: NDArray[np.bool_] | None = None
    temperature: float = 1.0
    decimals: int | None = None

    def __post_init__(self) -> None:
        if not COLDEST <= self.temperature <= HOTTEST:
            raise SettingError(
                f"temperature ({self.temperature:g}) must be between {COLDEST:g} and {HOTTEST:g}; "
                "1 changes nothing, near 0 the largest score gets all the weight"
            )
        if self.decimals is not None and not 0 <= self.decimals <= MOST_DECIMALS:
            raise SettingError(f"round ({self.decimals}) must be 0 to {MOST_DECIMALS} decimals; try 1")


@dataclass(frozen=True, eq=False)
class Rounded:
    """The output from rounded weights."""

    decimals: int
    weights: Matrix
    output: Matrix | None


@dataclass(frozen=True, eq=False)
class Solution:
    """A solved problem: scores to weights, queries x keys, and the output, queries x value width."""

    problem: Problem
    rules: Rules
    scores: Matrix
    divisor: float  # sqrt(d_k), or 1
    scaled: Matrix  # divided by the divisor and the temperature
    mask: NDArray[np.bool_] | None
    masked: Matrix  # minus infinity at masked cells
    weights: Matrix
    output: Matrix | None
    rounded: Rounded | None

    @property
    def exponentials(self) -> Matrix:
        """e^(score - the row's largest score): the numerators of softmax."""
        largest = np.where(np.isneginf(self.masked).all(1), 0.0, self.masked.max(1))
        return np.exp(self.masked - largest[:, None])

    @property
    def strongest(self) -> list[list[int]]:
        """For each query the keys with the largest weight; several if they tie."""
        return [
            [] if not row.any() else np.flatnonzero(np.isclose(row, row.max(), rtol=1e-9)).tolist()
            for row in self.weights
        ]

    def only(self, row: int) -> Solution:
        """The solution for one query, counted from 0."""
        queries = len(self.problem.query)
        if not 0 <= row < queries:
            raise SettingError(f"row ({row}) must be 0 to {queries - 1}; rows are queries, counted from 0")
        part = slice(row, row + 1)
        problem, rounded = self.problem, self.rounded
        return replace(
            self,
            problem=replace(problem, query=problem.query[part], query_words=problem.query_words[part]),
            rounded=rounded
            and replace(rounded, weights=rounded.weights[part], output=_slice(rounded.output, part)),
            mask=None if self.mask is None else self.mask[part],
            output=_slice(self.output, part),
            **{name: getattr(self, name)[part] for name in ("scores", "scaled", "masked", "weights")},
        )

    def as_dict(self) -> dict[str, Any]:
        """Every step in full precision as values that JSON can hold; None stands for minus infinity."""
        problem, rounded = self.problem, self.rounded
        direct = problem.start in ("x", "q")
        return {
            "words": {"query": list(problem.query_words), "key": list(problem.key_words)},
            "given": {name: matrix.tolist() for name, matrix in problem.given.items()},
            "query": as_lists(problem.query) if direct else None,
            "key": as_lists(problem.key) if direct else None,
            "value": as_lists(problem.value),
            "similarity": self.rules.similarity,
            "scores": as_lists(self.scores),
            "divisor": self.divisor,
            "temperature": self.rules.temperature,
            "scaled": as_lists(self.scaled),
            "mask": as_lists(self.mask),
            "masked": as_lists(self.masked),
            "exponentials": as_lists(self.exponentials),
            "weights": as_lists(self.weights),
            "output": as_lists(self.output),
            "rounded": rounded
            and {
                "decimals": rounded.decimals,
                "weights": as_lists(rounded.weights),
                "output": as_lists(rounded.output),
            },
            "strongest": self.strongest,
            "learned": problem.learned,
        }


def solve(problem: Problem, rules: Rules) -> Solution:
    """Run attention_steps on a problem and keep every intermediate."""
    similarity = _similarity(problem, rules)
    divisor = _divisor(problem, rules, similarity)
    value = np.zeros((len(problem.key), 1)) if problem.value is None else problem.value
    steps = attention_steps(
        *map(_tensor, (problem.query, problem.key, value)),
        mask=_mask(problem, rules),
        similarity=similarity,
        scale=1 / (divisor * rules.temperature),
    )
    scaled, weights = _array(steps.scaled), _array(steps.weights)
    visible = None if steps.mask is None else steps.mask.numpy()
    return Solution(
        problem=problem,
        rules=rules,
        scores=_array(steps.scores),
        divisor=divisor,
        scaled=scaled,
        mask=visible,
        masked=scaled if visible is None else np.where(visible, scaled, -np.inf),
        weights=weights,
        output=None if problem.value is None else _array(steps.output),
        rounded=None if rules.decimals is None else _rounded(problem, weights, rules.decimals),
    )


def similarities_by_hand() -> list[str]:
    """The similarities without trained weights."""
    return sorted(name for name, make in SIMILARITIES.items() if not _is_trained(make(1, 1)))


def round_to_whole(weights: Matrix, decimals: int) -> Matrix:
    """Round weights so that every row keeps its sum, by the largest-remainder method.

    Each weight is rounded down; the missing units go to the largest remainders, the earlier ones first.
    """
    units = weights * 10**decimals
    cut = np.floor(units + 1e-9)
    missing = np.rint(units.sum(1) - cut.sum(1)).astype(int)
    largest_first = np.argsort(-(units - cut).round(9), axis=1, kind="stable")
    for row, order, count in zip(cut, largest_first, missing, strict=True):
        row[order[:count]] += 1
    return cut / 10**decimals


def _rounded(problem: Problem, weights: Matrix, decimals: int) -> Rounded:
    cut = round_to_whole(weights, decimals)
    return Rounded(decimals, cut, None if problem.value is None else cut @ problem.value)


def _is_trained(similarity: Similarity) -> bool:
    return isinstance(similarity, torch.nn.Module) and len(list(similarity.parameters())) > 0


def _similarity(problem: Problem, rules: Rules) -> Similarity:
    module = SIMILARITIES.find(rules.similarity)(1, problem.key_width or 1)
    if _is_trained(module):
        known = ", ".join(similarities_by_hand())
        raise SettingError(f"similarity {rules.similarity} has trained weights; by hand there are {known}")
    if problem.start in ("x", "q"):
        return module
    if rules.similarity not in ("dot", "scaled-dot"):
        raise SettingError(f"similarity {rules.similarity} compares Q with K; give those instead of scores")
    return SIMILARITIES["dot"](1, 1)


def _divisor(problem: Problem, rules: Rules, similarity: Similarity) -> float:
    if rules.scale is None and rules.similarity != "scaled-dot":
        return 1 / float(similarity.scale)
    if rules.scale is False:
        return 1.0
    if problem.key_width is None:
        raise SettingError("scores need d_k, whose root divides them; add --d-k 64, or --no-scale")
    return math.sqrt(problem.key_width)


def _mask(problem: Problem, rules: Rules) -> Mask:
    queries, keys = len(problem.query), len(problem.key)
    if rules.causal and queries != keys:
        raise ShapeError(
            f"{queries} queries and {keys} keys; a causal mask needs equal numbers; give a mask instead"
        )
    if rules.mask is None:
        return Mask(causal=rules.causal)
    if rules.mask.shape != (queries, keys):
        raise ShapeError(f"mask is {shape(rules.mask)}; it must be {queries} x {keys}, a row for every query")
    return Mask(causal=rules.causal, matrix=torch.from_numpy(rules.mask))


def _slice(matrix: Matrix | None, rows: slice) -> Matrix | None:
    return None if matrix is None else matrix[rows]


def _tensor(matrix: Matrix) -> torch.Tensor:
    return torch.from_numpy(matrix)[None, None]  # B H rows columns


def _array(tensor: torch.Tensor) -> Matrix:
    return tensor[0, 0].numpy()


def as_lists(matrix: NDArray[Any] | None) -> list[Any] | None:
    """Nested lists of numbers for JSON; None stands for minus infinity."""
    if matrix is None:
        return None
    return [[None if number == -np.inf else number for number in row] for row in matrix.tolist()]


@dataclass(frozen=True, eq=False)
class Answer:
    """A solution, and its example if the matrices are unchanged."""

    solution: Solution
    example: Example | None


def ask(
    example: str | None,
    matrices: Mapping[str, str | None],
    rules: Mapping[str, Any],
    words: str | None = None,
    key_width: int | None = None,
) -> Answer:
    """Solve an example, given matrices, or an example with some matrices replaced.

    A value of None keeps what the example has.
    """
    known = find_example(example) if example else None
    own = {name: read_matrix(NAMES[name], text) for name, text in _given(matrices).items()}
    problem = pose(
        {**(known.given if known else {}), **own},
        words.split() if words else known.words if known else (),
        known.query_words if known and not words else (),
        key_width or (known.key_width if known else None),
    )
    asked = {**(known.rules if known else {}), **_given(rules)}
    if "mask" in asked:
        asked["mask"] = read_mask(asked["mask"])
    if known and asked != known.rules:
        known = replace(known, rounded_by="")  # the source prints the digits of its own rules only
    return Answer(solve(problem, Rules(**asked)), None if own else known)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
