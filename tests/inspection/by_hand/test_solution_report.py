"""Matrices as text: aligned, labelled, transposed, and within the width."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from regard.inspection.by_hand.solution import ask
from regard.inspection.by_hand.solution_report import show_row, show_solution
from regard.inspection.render.board import COLOURS, Board, Grid, lay_out, transpose_equation, write_numbers


def lines(*parts, width=80) -> list[str]:
    """What is laid out, without its styles."""
    return [line.plain for line in lay_out(parts, width)]


def shown(show, width=80, encoding="utf-8", colours=False) -> str:
    """What a function writes on a board."""
    written = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
    show(Board(Console(theme=COLOURS, file=written, width=width, highlight=False, force_terminal=colours)))
    written.seek(0)
    return written.read()


@pytest.mark.parametrize(
    ("numbers", "written"),
    [
        ([1, -20], ["1", "-20"]),
        ([0.5, 1], ["0.5", "1.0"]),
        ([1 / 3, 0], ["0.3333", "0.0000"]),
        ([-1e-9, 1], ["0", "1"]),
        ([-1e-5, 0.3], ["0.0000", "0.3000"]),
        ([2e6, 1], ["2.000e+06", "1.000e+00"]),
        ([2e-5, 0], ["2.000e-05", "0.000e+00"]),
    ],
)
def test_numbers_of_a_matrix_share_one_format(numbers, written):
    assert write_numbers(np.array([numbers], dtype=float)) == [written]


def test_signs_are_shown_where_they_differ():
    assert write_numbers(np.array([[1.5, -2.0]]), signed=True) == [["+1.5", "-2.0"]]
    assert write_numbers(np.array([[1.5, 2.0]]), signed=True) == [["1.5", "2.0"]]


def test_a_product_stands_on_one_line():
    left = Grid("A", np.array([[1.0, 20.0]]), rows=("it",))
    right = Grid("B", np.array([[3.0], [4.0]]))
    assert lines(left, "×", right, "=", Grid("C", np.array([[83.0]]))) == [
        "      A         B       C",
        "it [ 1 20 ] × ⎡ 3 ⎤ = [ 83 ]",
        "              ⎣ 4 ⎦",
    ]


def test_labels_hidden_cells_and_sums():
    weights = np.array([[1.0, 0.0], [0.25, 0.75]])
    grid = Grid(
        "A", weights, rows=("a", "bb"), columns=("a", "bb"), sums=("1", "1"),
        hidden=np.array([[False, True], [False, False]]),
    )  # fmt: skip
    assert lines(grid) == [
        "         A",
        "        a   bb",
        " a ⎡ 1.00   -∞ ⎤  Σ 1",
        "bb ⎣ 0.25 0.75 ⎦  Σ 1",
    ]
    assert lines(grid.transpose()) == [
        "        Aᵀ",
        "        a   bb",
        " a ⎡ 1.00 0.25 ⎤",
        "bb ⎣   -∞ 0.75 ⎦",
        " Σ      1    1",
    ]


def test_a_transposed_product_is_the_transposed_factors_in_reverse():
    a, b = Grid("A", np.ones((2, 3))), Grid("W^Q", np.ones((3, 4)))
    c = Grid("Kᵀ", np.ones((2, 4)))
    transposed = transpose_equation([a, "×", b, "=", c])
    assert [part if isinstance(part, str) else part.name for part in transposed] == [
        "(W^Q)ᵀ",
        "×",
        "Aᵀ",
        "=",
        "K",
    ]
    shapes = [part.values.shape for part in transposed if isinstance(part, Grid)]
    assert shapes == [(4, 3), (3, 2), (4, 2)]


def test_long_labels_are_cut_and_wide_letters_measured():
    written = lines(Grid("S", np.ones((2, 1)), rows=("incomprehensibilities", "猫")))
    assert written[1].startswith("incomprehen… ⎡")
    assert written[2].startswith(" " * 10 + "猫 ⎣")


def test_a_wide_matrix_is_cut_into_bands():
    grid = Grid(
        "S", np.arange(60.0).reshape(2, 30) * 1000, rows=("a", "b"), columns=tuple(map(str, range(30)))
    )
    written = lines(grid, width=60)
    assert max(map(len, written)) <= 60
    assert "S  columns 0 to" in written[0]
    text = "\n".join(written)
    assert all(str(number * 1000) in text.split() for number in range(60))


def test_an_equation_that_is_too_wide_goes_on_below():
    grid = Grid("S", np.ones((2, 10)))
    row = "⎡ 1 1 1 1 1 1 1 1 1 1 ⎤"
    first, _, *below = [line for line in lines(grid, "=", grid, width=40) if not line.endswith("S")]
    assert (first, below[0]) == (row, f" = {row}")


@settings(max_examples=25)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(40, 120), st.booleans())
def test_nothing_is_wider_than_the_screen(queries, keys, width, screen, transposed):
    random = np.random.default_rng(queries * 144 + keys * 12 + width)
    matrices = [random.normal(size=shape).round(3) for shape in ((queries, width), (keys, width), (keys, 5))]
    q, k, v = ("; ".join(" ".join(map(str, row)) for row in matrix) for matrix in matrices)
    solution = ask(None, {"q": q, "k": k, "v": v}, {"decimals": 2}).solution
    for text in (
        shown(lambda board: show_solution(board, solution, None, transposed), screen),
        shown(lambda board: show_row(board, solution, queries - 1), screen),
    ):
        assert max(map(len, text.splitlines())) <= screen
        assert not any(line != line.rstrip() for line in text.splitlines())


def test_colours_only_where_there_is_a_terminal():
    answer = ask("C", {}, {})

    def show(board):
        show_solution(board, answer.solution, answer.example)

    plain, coloured = shown(show), shown(show, colours=True)
    assert "\x1b" not in plain
    assert "\x1b" in coloured


@pytest.mark.parametrize("name", ["A", "B", "C", "D"])
def test_a_screen_with_ascii_alone(name):
    answer = ask(name, {}, {})
    text = shown(lambda board: show_solution(board, answer.solution, answer.example), encoding="ascii")
    text += shown(lambda board: show_row(board, answer.solution, 0, answer.example), encoding="ascii")
    assert text.isascii()
    assert "?" not in text.replace(" ?  Questions", "").replace("most?", "").replace("learned?", "")
    assert ("-inf" in text) == (name == "C")
