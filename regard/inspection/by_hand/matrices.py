"""A small matrix from a file or from a line of text: `"1 0 1; 0 2 0"`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import SettingError, ShapeError, UsageError

Matrix = NDArray[np.float64]

LARGEST_SIDE = 64
LARGEST_NUMBER = 1e30  # the products of two such numbers, added up and multiplied again, stay finite
LARGEST_FILE = 1_000_000
KINDS = (".csv", ".tsv", ".txt", ".json", ".npy")
MINUS_INFINITY = ("-inf", "-∞", "−∞")


def read_matrix(name: str, written: str) -> Matrix:
    """The matrix that a person gave under that name, as a path or inline, checked."""
    return check_numbers(name, _read(name, written))


def read_mask(written: str) -> NDArray[np.bool_]:
    """A mask, True where a word may look: written as 1 and 0, or as the lectures' M of 0 and -inf."""
    mask = _read("mask", written)
    visible = mask == (0.0 if np.isneginf(mask).any() else 1.0)
    odd = mask[~visible & (mask != 0) & ~np.isneginf(mask)]
    if odd.size:
        raise SettingError(
            f"mask holds {odd[0]:g}; write 1 for may look and 0 for hidden, or M as 0 and -inf"
        )
    if not mask.any():
        raise SettingError("a mask of zeros alone hides every word; write 1 where a word may look")
    return visible


def check_numbers(name: str, rows: Any) -> Matrix:
    """The same as a matrix of finite numbers, none too large to be multiplied."""
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
    """Lines to rows; a cell is divided from the next by a comma if there is one, or by space."""
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
        raise ShapeError(f"{name} is {shape(array)}; by hand {LARGEST_SIDE} rows or columns are the most")
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
                "every row needs as many"
            )


def shape(matrix: NDArray[Any]) -> str:
    """Rows x columns, in words."""
    return " x ".join(map(str, matrix.shape))
