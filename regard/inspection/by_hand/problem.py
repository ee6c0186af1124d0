"""A problem in attention by hand: matrices from files or text, checked and joined.

The input is X with three weight matrices, or Q, K and V, or scores, or attention weights. A matrix is a small
file or a line of text such as "1 0 1; 0 2 0".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import SettingError, ShapeError, UsageError

Matrix = NDArray[np.float64]

LARGEST_SIDE = 64
LARGEST_NUMBER = 1e30  # products of sums of products of such numbers stay finite
LARGEST_FILE = 1_000_000
KINDS = (".csv", ".tsv", ".txt", ".json", ".npy")
MINUS_INFINITY = ("-inf", "-∞", "−∞")
NAMES = {
    "x": "X", "wq": "W^Q", "wk": "W^K", "wv": "W^V", "q": "Q", "k": "K", "v": "V",
    "scores": "scores", "weights": "weights",
}  # fmt: skip
# What has to be given together, by the first of them.
STARTS = {"x": ("wq", "wk", "wv"), "q": ("k",), "scores": (), "weights": ()}


@dataclass(frozen=True, eq=False)
class Problem:
    """Queries and keys whose dot products are the scores, the values if there are any, and their words.

    start      "x", "q", "scores" or "weights": what was given
    given      the matrices as given, by name
    key_width  d_k, or None if scores were given without it
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
        """The names of the weight matrices that training would learn."""
        return [NAMES[name] for name in ("wq", "wk", "wv") if name in self.given]


def pose(
    matrices: Mapping[str, Any],
    words: Sequence[str] = (),
    query_words: Sequence[str] = (),
    key_width: int | None = None,
) -> Problem:
    """A problem from matrices by name; words label the keys and, if the number fits, the queries."""
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
        names = " and ".join(NAMES[name] for name in starts) or "no input"
        raise SettingError(f"{names}; give one of X with W^Q, W^K and W^V, or Q, K and V, or scores")
    start = starts[0]
    for needed in STARTS[start]:
        if needed not in given:
            raise SettingError(f"{NAMES[needed]} is missing; {NAMES[start]} needs it, add --{needed}")
    for name in given:
        if name not in (start, *STARTS[start]) and (name != "v" or start == "x"):
            raise SettingError(
                f"{NAMES[name]} is given with {NAMES[start]}, which does not use it; leave it out"
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
    # With the identity as keys, the dot products of a query are its own numbers.
    return given["scores"], np.eye(given["scores"].shape[1]), given.get("v")


def _invert_weights(given: Mapping[str, Matrix]) -> tuple[Matrix, Matrix, Matrix | None]:
    weights = given["weights"]
    if (weights <= 0).any() or not np.allclose(weights.sum(1), 1):
        raise SettingError("weights must be above 0 and add up to 1 in every row; give scores instead")
    # The softmax of their logarithms gives the weights.
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


def read_matrix(name: str, written: str) -> Matrix:
    """Read and check a matrix that was given as a path or as text."""
    return check_numbers(name, _read(name, written))


def read_mask(written: str) -> NDArray[np.bool_]:
    """A mask, True where a query may attend: written as 1 and 0, or as M with 0 and -inf."""
    mask = _read("mask", written)
    visible = mask == (0.0 if np.isneginf(mask).any() else 1.0)
    odd = mask[~visible & (mask != 0) & ~np.isneginf(mask)]
    if odd.size:
        raise SettingError(f"mask holds {odd[0]:g}; write 1 for visible and 0 for hidden, or M as 0 and -inf")
    if not mask.any():
        raise SettingError("a mask of zeros alone hides every word; write 1 for visible")
    return visible


def check_numbers(name: str, rows: Any) -> Matrix:
    """Check that the rows are a matrix of finite numbers that can be multiplied without overflow."""
    matrix = _rectangle(name, rows)
    if not np.isfinite(matrix).all() or np.abs(matrix).max() > LARGEST_NUMBER:
        odd = matrix[~(np.abs(matrix) <= LARGEST_NUMBER)][0]
        raise SettingError(f"{name} holds {odd:g}; write plain numbers, none beyond {LARGEST_NUMBER:g}")
    return matrix


def _read(name: str, written: str) -> Matrix:
    path = Path(written)
    if path.suffix.lower() in KINDS:
        return _rectangle(name, _read_file(name, path))
    if written.lstrip().startswith("["):
        return _rectangle(name, _read_json(name, written))
    return _rectangle(name, _split(name, written.replace(";", "\n")))


def _read_file(name: str, path: Path) -> Any:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise UsageError(f"{name}: {path} has over {LARGEST_FILE:,} bytes; give a small matrix")
        if path.suffix.lower() == ".npy":
            return _read_npy(path)
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f'{name}: no file {path}; check the path, or write rows like "1 0; 0 1"') from None
    except OSError as error:
        raise UsageError(f"{name}: {path} cannot be read ({error.strerror}); name another file") from None
    except ValueError:
        raise UsageError(f"{name}: {path} is not a readable {path.suffix} file; save it again") from None
    if path.suffix.lower() == ".json":
        return _read_json(name, text)
    return _split(name, text.replace(";", "\n") if path.suffix.lower() == ".txt" else text)


def _read_npy(path: Path) -> Matrix:
    try:
        # Mapped, so that a header cannot ask for more memory than the file holds.
        return np.array(np.lib.format.open_memmap(path, mode="r"))
    except OSError:
        raise
    except Exception as error:  # a damaged header fails in many ways
        raise ValueError from error


def _read_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise SettingError(f"{name} is not JSON; write rows of numbers, as [[1, 0], [0, 1]]") from None


def _split(name: str, text: str) -> list[list[float]]:
    """Split lines into rows, at commas if there are any, else at spaces."""
    lines = [line for line in text.splitlines() if line.strip()]
    return [
        [_number(name, cell.strip()) for cell in (line.split(",") if "," in line else line.split())]
        for line in lines
    ]


def _number(name: str, cell: str) -> float:
    if cell in MINUS_INFINITY:
        return -np.inf
    try:
        return float(cell)
    except ValueError:
        rule = 'write rows like "1 0; 0 1", or name a file that ends in ' + ", ".join(KINDS)
        raise SettingError(f"{name} holds {cell[:40]!r}, which is not a number; {rule}") from None


def _rectangle(name: str, rows: Any) -> Matrix:
    if isinstance(rows, (list, tuple)):
        _check_rows(name, rows)
    array = np.asarray(rows)
    if array.dtype.kind not in "biuf":
        raise SettingError(f"{name} holds something other than real numbers; write rows of plain numbers")
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2 or not array.size:
        raise ShapeError(f"{name} has the shape {array.shape}; a matrix has rows and columns, at least one")
    if max(array.shape) > LARGEST_SIDE:
        raise ShapeError(f"{name} is {shape(array)}; give at most {LARGEST_SIDE} rows and columns")
    return array.astype(np.float64)


def _check_rows(name: str, rows: list[Any] | tuple[Any, ...]) -> None:
    lengths = [len(row) for row in rows if isinstance(row, (list, tuple))]
    if not lengths:
        return
    if len(lengths) < len(rows):
        raise ShapeError(f"{name} mixes rows and numbers; write every row as a list of its own")
    for number, length in enumerate(lengths):
        if length != lengths[0]:
            raise ShapeError(
                f"{name} has {lengths[0]} numbers in row 0 and {length} in row {number}; "
                "give every row the same number"
            )


def shape(matrix: NDArray[Any]) -> str:
    """Rows x columns as text."""
    return " x ".join(map(str, matrix.shape))
