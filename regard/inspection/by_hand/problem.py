"""What is given: inputs with three weight matrices, or queries, keys and values, or scores, or weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import SettingError, ShapeError
from regard.inspection.by_hand.matrices import Matrix, check_numbers, shape

NAMES = {
    "x": "X", "wq": "W^Q", "wk": "W^K", "wv": "W^V", "q": "Q", "k": "K", "v": "V",
    "scores": "scores", "weights": "weights",
}  # fmt: skip
# What has to be given together, and the first of the six steps that is left to do.
STARTS = {"x": ("wq", "wk", "wv"), "q": ("k",), "scores": (), "weights": ()}


@dataclass(frozen=True, eq=False)
class Problem:
    """Queries and keys whose dot products are the scores, the values if there are any, and their words.

    start      "x", "q", "scores" or "weights": what was given, and so where the working begins
    given      the matrices as given, by name
    key_width  d_k, or None where scores were given without it
    """

    start: str
    given: Mapping[str, Matrix]
    query: Matrix
    key: Matrix
    value: Matrix | None
    key_width: int | None
    query_words: tuple[str, ...]
    key_words: tuple[str, ...]

    @property
    def learned(self) -> list[str]:
        """The weight matrices that training would find."""
        return [NAMES[name] for name in ("wq", "wk", "wv") if name in self.given]


def pose(
    matrices: Mapping[str, Any],
    words: Sequence[str] = (),
    query_words: Sequence[str] = (),
    key_width: int | None = None,
) -> Problem:
    """A problem from matrices by name; words are the keys' and, where there are as many, the queries' too."""
    given = {name: check_numbers(NAMES[name], rows) for name, rows in matrices.items()}
    start = _start(given)
    query, key, value = _MAKERS[start](given)
    if key.shape[1] != query.shape[1]:
        raise ShapeError(f"Q is {shape(query)} and K is {shape(key)}; both need the same width")
    if value is not None and len(value) != len(key):
        raise ShapeError(f"K is {shape(key)} and V is {shape(value)}; both need a row for every word")
    if start in ("x", "q"):
        key_width = query.shape[1]
    labels = _labels(words, query_words, len(query), len(key))
    return Problem(start, given, query, key, value, key_width, *labels)


def _start(given: Mapping[str, Matrix]) -> str:
    starts = [name for name in STARTS if name in given]
    if len(starts) != 1:
        found = " and ".join(NAMES[name] for name in starts) or "nothing to begin with"
        raise SettingError(f"{found}; give one of X with W^Q, W^K and W^V, or Q, K and V, or scores")
    start = starts[0]
    for needed in STARTS[start]:
        if needed not in given:
            raise SettingError(f"{NAMES[needed]} is missing; {NAMES[start]} needs it, add --{needed}")
    for name in given:
        if name not in (start, *STARTS[start]) and (name != "v" or start == "x"):
            raise SettingError(
                f"{NAMES[name]} is given beside {NAMES[start]}, which needs none; leave it out"
            )
    return start


def _project(given: Mapping[str, Matrix]) -> tuple[Matrix, Matrix, Matrix]:
    x = given["x"]
    for name in ("wq", "wk", "wv"):
        if len(given[name]) != x.shape[1]:
            raise ShapeError(
                f"X is {shape(x)} and {NAMES[name]} is {shape(given[name])}; they do not multiply: "
                f"{NAMES[name]} needs {x.shape[1]} rows"
            )
    return x @ given["wq"], x @ given["wk"], x @ given["wv"]


def _take(given: Mapping[str, Matrix]) -> tuple[Matrix, Matrix, Matrix | None]:
    return given["q"], given["k"], given.get("v")


def _invert_scores(given: Mapping[str, Matrix]) -> tuple[Matrix, Matrix, Matrix | None]:
    # With one axis for each key, a query's dot products with the keys are its own numbers.
    return given["scores"], np.eye(given["scores"].shape[1]), given.get("v")


def _invert_weights(given: Mapping[str, Matrix]) -> tuple[Matrix, Matrix, Matrix | None]:
    weights = given["weights"]
    if (weights <= 0).any() or not np.allclose(weights.sum(1), 1):
        raise SettingError("weights must be above 0 and add up to 1 in every row; give scores instead")
    # The softmax of logarithms gives the numbers back.
    return np.log(weights), np.eye(weights.shape[1]), given.get("v")


_MAKERS = {"x": _project, "q": _take, "scores": _invert_scores, "weights": _invert_weights}


def _labels(
    words: Sequence[str], query_words: Sequence[str], queries: int, keys: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if words and len(words) not in (queries, keys):
        needed = f"{keys}" if queries == keys else f"{queries} queries or {keys} keys"
        raise ShapeError(f"words has {len(words)} ({' '.join(words)[:40]}); there are {needed} to name")
    of_keys = words if len(words) == keys else ()
    of_queries = query_words if len(query_words) == queries else words if len(words) == queries else ()
    return _printable(of_queries or _numbers(queries)), _printable(of_keys or _numbers(keys))


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _printable(words: Sequence[str]) -> tuple[str, ...]:
    return tuple("".join(sign if sign.isprintable() else "?" for sign in word) for word in words)
