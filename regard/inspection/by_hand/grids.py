"""The matrices of a working as grids: their names, colours and words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regard.inspection.by_hand.arithmetic import Worked
from regard.inspection.by_hand.layout import Grid, write_numbers
from regard.inspection.by_hand.problem import Problem
from regard.inspection.by_hand.reading import Matrix

STYLES = {"q": "query", "k": "key", "v": "value", "wq": "query", "wk": "key", "wv": "value", "x": ""}


def named(problem: Problem, name: str) -> Grid:
    """A matrix of the problem, in its colour and with its words."""
    values = {"q": problem.query, "k": problem.key, "v": problem.value}.get(name, problem.given.get(name))
    assert values is not None
    style = STYLES[name]
    rows = () if name.startswith("w") else problem.query_words if name in "xq" else problem.key_words
    label = f"W^{name[1].upper()}" if name.startswith("w") else name.upper()
    return Grid(label, values, style, rows, row_style=style)


def pairs(worked: Worked, name: str, values: Matrix, masked: bool = False) -> Grid:
    """Scores: a row for every query and a column for every key, minus infinity where masked."""
    problem = worked.problem
    hidden = np.isneginf(worked.masked) if masked else None
    return Grid(name, values, "", problem.query_words, problem.key_words, hidden=hidden, signed=True)


def weights(worked: Worked, name: str, values: Matrix) -> Grid:
    """The weights: masked cells are dots, the largest of a row is bold, and the sums stand beside."""
    problem = worked.problem
    strong = np.isclose(values, values.max(1, keepdims=True)) & (values > 0)
    sums = tuple(row[0] for row in write_numbers(values.sum(1, keepdims=True)))
    hidden = None if worked.mask is None else np.isneginf(worked.masked)
    return Grid(
        name, values, "", problem.query_words, problem.key_words,
        hidden=hidden, hidden_sign="∙", strong=strong, sums=sums,
    )  # fmt: skip


def bare(grid: Grid) -> Grid:
    """A grid without labels and sums, for the inside of an equation."""
    return replace(grid, rows=(), columns=(), sums=())


def product(worked: Worked, shares: Matrix, output: Matrix | None) -> list[Grid | str]:
    """A × V = Z, or A alone where there are no values."""
    grid = weights(worked, "A", shares)
    if output is None:
        return [grid]
    value = bare(named(worked.problem, "v"))
    return [replace(bare(grid), rows=grid.rows), "×", value, "=", Grid("Z", output, "output")]
