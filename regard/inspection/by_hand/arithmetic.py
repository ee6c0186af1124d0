"""From what a person typed to a problem worked out."""

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
from regard.inspection.by_hand.matrices import Matrix, read_mask, read_matrix, shape
from regard.inspection.by_hand.problem import NAMES, Problem, pose
from regard.model.attention import attention_steps
from regard.model.masks import Mask
from regard.model.similarity import SIMILARITIES, Similarity

MOST_DECIMALS = 6
COLDEST, HOTTEST = 1e-6, 1e6


@dataclass(frozen=True, eq=False)
class Rules:
    """How a problem is to be worked out.

    scale     divide by sqrt(d_k), or not; None leaves it to the similarity
    mask      queries x keys, True where a word may look
    decimals  round the weights to so many before they are used, too
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
                "1 changes nothing, and near 0 the largest score takes all"
            )
        if self.decimals is not None and not 0 <= self.decimals <= MOST_DECIMALS:
            raise SettingError(f"round ({self.decimals}) must be 0 to {MOST_DECIMALS} decimals; try 1")


@dataclass(frozen=True, eq=False)
class Rounded:
    """What comes out when the weights are rounded before they are used."""

    decimals: int
    weights: Matrix
    output: Matrix | None


@dataclass(frozen=True, eq=False)
class Worked:
    """One problem worked out: scores to weights, queries x keys, and the output, queries x value width."""

    problem: Problem
    rules: Rules
    scores: Matrix
    divisor: float  # sqrt(d_k), or 1
    scaled: Matrix  # divided by that and by the temperature
    mask: NDArray[np.bool_] | None
    masked: Matrix  # minus infinity where a word may not look
    weights: Matrix
    output: Matrix | None
    rounded: Rounded | None

    @property
    def exponentials(self) -> Matrix:
        """What softmax divides by its sum: e to the power of each score, less the row's largest."""
        largest = np.where(np.isneginf(self.masked).all(1), 0.0, self.masked.max(1))
        return np.exp(self.masked - largest[:, None])

    @property
    def strongest(self) -> list[list[int]]:
        """For each query the keys with the largest weight; more than one where they tie."""
        return [
            [] if not row.any() else np.flatnonzero(np.isclose(row, row.max(), rtol=1e-9)).tolist()
            for row in self.weights
        ]

    def only(self, row: int) -> Worked:
        """The same for one query alone, counted from 0."""
        queries = len(self.problem.query)
        if not 0 <= row < queries:
            raise SettingError(f"row ({row}) must be 0 to {queries - 1}; rows are queries, counted from 0")
        one = slice(row, row + 1)
        problem, rounded = self.problem, self.rounded
        return replace(
            self,
            problem=replace(problem, query=problem.query[one], query_words=problem.query_words[one]),
            rounded=rounded
            and replace(rounded, weights=rounded.weights[one], output=_slice(rounded.output, one)),
            mask=None if self.mask is None else self.mask[one],
            output=_slice(self.output, one),
            **{name: getattr(self, name)[one] for name in ("scores", "scaled", "masked", "weights")},
        )

    def as_dict(self) -> dict[str, Any]:
        """Every step as lists of numbers in full precision; None stands for minus infinity."""
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


def work_out(problem: Problem, rules: Rules) -> Worked:
    """Take a problem through attention_steps and keep everything on the way."""
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
    return Worked(
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
    """The measures of the model that need no trained weights."""
    return sorted(name for name, make in SIMILARITIES.items() if not _is_trained(make(1, 1)))


def round_to_whole(weights: Matrix, decimals: int) -> Matrix:
    """Weights rounded so that every row keeps its sum: each is cut, and the units (tenths, for one decimal)
    then missing go to the largest remainders, to earlier ones where they tie."""
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
        raise SettingError(
            "scores alone do not tell d_k, whose root divides them; add --d-k 64, or --no-scale"
        )
    return math.sqrt(problem.key_width)


def _mask(problem: Problem, rules: Rules) -> Mask:
    queries, keys = len(problem.query), len(problem.key)
    if rules.causal and queries != keys:
        raise ShapeError(f"{queries} queries and {keys} keys; causal needs as many of both, or give a mask")
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
    """Nested lists of plain numbers, for JSON; None for minus infinity."""
    if matrix is None:
        return None
    return [[None if number == -np.inf else number for number in row] for row in matrix.tolist()]


@dataclass(frozen=True, eq=False)
class Answer:
    """A problem worked out, and the example that it is, where its matrices are untouched."""

    worked: Worked
    example: Example | None


def ask(
    example: str | None,
    matrices: Mapping[str, str | None],
    rules: Mapping[str, Any],
    words: str | None = None,
    key_width: int | None = None,
) -> Answer:
    """Work out an example, or a person's own matrices, or an example with some of them replaced.

    Whatever is None was not asked for, and stays as the example has it.
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
        known = replace(known, rounded_by="")  # no source prints the digits that other rules give
    return Answer(work_out(problem, Rules(**asked)), None if own else known)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
