"""The six steps of one query, with every number that goes into them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from rich.markup import escape
from rich.text import Text

from regard.inspection.by_hand.all_rows import divisor_in_words, named
from regard.inspection.by_hand.arithmetic import Worked
from regard.inspection.by_hand.board import Board, write_numbers
from regard.inspection.by_hand.examples import Example
from regard.inspection.by_hand.matrices import Matrix

LONGEST_BAR = 20


def show_row(board: Board, worked: Worked, row: int, example: Example | None = None) -> None:
    """Make, score, divide, softmax, weigh and sum, for the query of that row, counted from 0."""
    one = worked.only(row)
    whose = f"{example.letter}  {example.title}, row" if example else "Row"
    board.title(f"{whose} {row}: {escape(one.problem.query_words[0])}")
    _make(board, one, row)
    _score(board, one)
    _divide(board, one)
    _mask(board, one)
    _softmax(board, one)
    _weigh(board, one)
    _round(board, one, example.rounded_by if example else "")


def _make(board: Board, one: Worked, row: int) -> None:
    problem = one.problem
    if problem.start == "x":
        board.step("1", "Make q, k and v", "[query]q[/] = x [query]W^Q[/]")
        x, query = problem.given["x"][row], problem.query[0]
        board.table(
            [("x =", _vector(x))]
            + [
                (
                    Text(f"q{number} =", "query"),
                    _products(x, column, ("", "query")),
                    "=",
                    Text(_written(total), "query"),
                )
                for number, (column, total) in enumerate(zip(problem.given["wq"].T, query, strict=True))
            ]
        )
        board.say("The keys and values of all words are made the same way, with W^K and W^V.")
    elif problem.start == "q":
        board.step("1", "q, k and v", "are given")
        board.table([(Text("q =", "query"), _vector(problem.query[0], "query"))])
    else:
        return
    board.matrices(named(problem, "k"), *([" ", named(problem, "v")] if problem.value is not None else []))


def _score(board: Board, one: Worked) -> None:
    if one.problem.start == "weights" or (one.problem.start == "scores" and one.mask is not None):
        return
    board.step("2", "Score", "[query]q[/] · [key]k[/], for every key")
    scores = write_numbers(one.scores)[0]
    rows = []
    for word, key, score in zip(one.problem.key_words, one.problem.key, scores, strict=True):
        rows.append((Text(word, "key"), *_scoring(one, key), Text(score, "bold")))
    board.table(rows, right=(0,))


def _scoring(one: Worked, key: Matrix) -> tuple[Text | str, ...]:
    """How one score comes about."""
    if one.problem.start not in ("x", "q"):
        return ("given:",)
    query = one.problem.query[0]
    if one.rules.similarity == "cosine":
        lengths = f"({_written(np.linalg.norm(query))} · {_written(np.linalg.norm(key))})"
        return (Text.assemble("(", _products(query, key), f") / {lengths}"), "=")
    return (_products(query, key), "=")


def _divide(board: Board, one: Worked) -> None:
    if one.divisor == one.rules.temperature == 1:
        if one.problem.start in ("x", "q") and one.rules.similarity != "cosine":
            board.step("3", "Divide by √d_k", "[soft]left out here[/]")
        return
    board.step("3", "Divide", f"by {divisor_in_words(one)} = {_written(one.divisor * one.rules.temperature)}")
    pairs = zip(
        one.problem.key_words, write_numbers(one.scores)[0], write_numbers(one.scaled)[0], strict=True
    )
    by = f"/ {_written(one.divisor * one.rules.temperature)} ="
    board.table(
        [(Text(word, "key"), score, by, Text(scaled, "bold")) for word, score, scaled in pairs], right=(0, 1)
    )


def _mask(board: Board, one: Worked) -> None:
    if one.mask is None:
        return
    board.step("M", "Mask", "-∞ where this word may not look")
    numbers = zip(one.problem.key_words, write_numbers(one.scaled)[0], one.mask[0], strict=True)
    board.table(
        [
            (Text(word, "key"), Text(score, "bold") if may else Text("-∞", "masked"))
            for word, score, may in numbers
        ],
        right=(0, 1),
    )


def _softmax(board: Board, one: Worked) -> None:
    powers, largest = one.exponentials, one.masked.max()
    board.step("4", "Softmax", "e^(s - largest), divided by the sum of all")
    if np.isneginf(largest):
        board.say("There is nothing this word may look at, so every weight is 0.")
        return
    total = powers.sum()
    columns = (
        one.problem.key_words,
        one.masked[0],
        *(write_numbers(m)[0] for m in (powers, one.weights)),
        one.weights[0],
    )
    rows = [
        (
            Text(word, "key"),
            f"e^({_written(score)} - {_written(largest)})" if np.isfinite(score) else "e^-∞",
            "=",
            power,
            f"/ {_written(total)} =",
            Text(weight, "bold"),
            Text("█" * round(share * LONGEST_BAR), "query"),
        )
        for word, score, power, weight, share in zip(*columns, strict=True)
    ]
    board.table(rows, right=(0, 3, 5))
    board.say("Taking the largest score off all of them changes no share and keeps the powers small.")


def _weigh(board: Board, one: Worked) -> None:
    value, output = one.problem.value, one.output
    if value is None or output is None:
        return
    board.step("5", "Weigh the values", "each [value]value[/] times its weight")
    weighted = one.weights[0][:, None] * value
    shares = write_numbers(one.weights)[0]
    rows = zip(one.problem.key_words, shares, value, write_numbers(weighted), strict=True)
    board.table(
        [
            (Text(word, "value"), f"{share} ×", _vector(row, "value"), "=", f"[ {' '.join(product)} ]")
            for word, share, row, product in rows
        ],
        right=(0,),
    )
    board.step("6", "Sum", "add them up, column by column")
    board.table([(Text(one.problem.query_words[0], "output"), "=", _vector(output[0], "output"))])


def _round(board: Board, one: Worked, source: str) -> None:
    if one.rounded is None:
        return
    board.step("≈", "Rounded as one goes", "the weights before they are used")
    if source:
        board.say(source)
    rows = [(Text("weights"), "=", _vector(one.rounded.weights[0]))]
    if one.rounded.output is not None:
        rows.append(
            (Text(one.problem.query_words[0], "output"), "=", _vector(one.rounded.output[0], "output"))
        )
    board.table(rows, right=(0,))


def _vector(numbers: Matrix, style: str = "") -> Text:
    return Text(f"[ {' '.join(write_numbers(numbers[None])[0])} ]", style)


def _products(left: Matrix, right: Matrix, styles: tuple[str, str] = ("query", "key")) -> Text:
    """a·b + c·d + ..., in the colours of what is multiplied."""
    numbers = (write_numbers(x[None])[0] for x in (left, right))
    terms: Iterable[Text] = (
        Text.assemble((a, styles[0]), "·", (f"({b})" if b.startswith("-") else b, styles[1]))
        for a, b in zip(*numbers, strict=True)
    )
    return Text(" + ").join(terms)


def _written(number: float | np.floating) -> str:
    return write_numbers(np.array([[float(number)]]))[0][0]
