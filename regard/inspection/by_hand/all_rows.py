"""A problem worked out step by step on the board, for all queries at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from rich.text import Text

from regard.inspection.by_hand.arithmetic import Worked, work_out
from regard.inspection.by_hand.board import Board, Grid, write_numbers
from regard.inspection.by_hand.examples import Example
from regard.inspection.by_hand.matrices import Matrix
from regard.inspection.by_hand.problem import Problem

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


MOST_TERMS = 12  # of a sum that is written out in words


def show_working(board: Board, worked: Worked, example: Example | None = None, turned: bool = False) -> None:
    """Every step: formula, matrices and a sentence; then what else there is to say of it."""
    if example:
        board.title(f"{example.letter}  {example.title}")
        board.say(example.story)
    else:
        board.title("Attention by hand")
    for step in (_project, _score, _divide, _mask, _softmax, _weigh, _sum):
        step(board, worked, turned)
    if worked.rounded:
        _round(board, worked, example.rounded_by if example else "", turned)
    if example and example.also_divided and worked.divisor == 1:
        _divide_after_all(board, worked, turned)
    _answer(board, worked)


def _project(board: Board, worked: Worked, turned: bool) -> None:
    problem = worked.problem
    if problem.start == "q":
        board.step("1", "Queries, keys and values", "are given")
        parts = [part for name in "qkv" if name in problem.given for part in (named(problem, name), " ")]
        board.matrices(*parts[:-1], turned=turned)
    if problem.start != "x":
        return
    board.step(
        "1",
        "Project",
        "[query]Q[/] = X [query]W^Q[/]    [key]K[/] = X [key]W^K[/]    [value]V[/] = X [value]W^V[/]",
    )
    board.say(
        "Every input meets three learned matrices. Its [query]query[/] says what it looks for, "
        "its [key]key[/] what it offers, its [value]value[/] what it hands over."
    )
    for name in "qkv":
        made = bare(named(problem, name))
        board.matrices(named(problem, "x"), "×", named(problem, f"w{name}"), "=", made, turned=turned)
    board.note(
        "A value is not a relevance. Who is relevant to whom is settled by queries and keys alone; "
        "the value is what is then handed over."
    )


def _score(board: Board, worked: Worked, turned: bool) -> None:
    problem = worked.problem
    if problem.start == "weights" or (problem.start == "scores" and worked.mask is not None):
        return
    cosine = worked.rules.similarity == "cosine"
    formula = "S = cos([query]Q[/], [key]K[/])" if cosine else "S = [query]Q[/] [key]Kᵀ[/]"
    board.step("2", "Score", formula)
    scores = pairs(worked, "S", worked.scores)
    if problem.start == "scores":
        board.say(
            "One number for each pair, the dot product of a [query]query[/] and a [key]key[/]: "
            "these are given."
        )
        board.matrices(scores, turned=turned)
        return
    board.say(
        f"One number for each pair of a [query]query[/] and a [key]key[/]. {_line(turned)} is one query's."
    )
    if cosine:
        board.matrices(scores, turned=turned)
        board.note(
            "The dot product of two vectors is 1 for equal and -1 for opposite directions only where "
            "both have length 1. The cosine divides by the lengths, so it always is."
        )
        return
    scores = replace(scores, rows=())
    board.matrices(named(problem, "q"), "×", bare(named(problem, "k")).turn(), "=", scores, turned=turned)
    if turned:
        board.note(
            "With a token as a column, as here, QᵀK is what QKᵀ is with a token as a row: the same numbers."
        )


def _divide(board: Board, worked: Worked, turned: bool) -> None:
    problem, temperature = worked.problem, worked.rules.temperature
    if worked.divisor == 1 and temperature == 1:
        if problem.start in ("x", "q") and worked.rules.similarity != "cosine":
            board.step("3", "Divide by √d_k", "[soft]left out here[/]")
        return
    parts = ["√d_k"] * (worked.divisor != 1) + ["T"] * (temperature != 1)
    board.step("3", f"Divide by {' · '.join(parts)}", f"S / {divisor_in_words(worked)}")
    if worked.divisor != 1:
        board.say(
            f"The keys are {problem.key_width} numbers long. Long vectors make large scores, and large "
            "scores would leave softmax almost nothing but 0 and 1."
        )
    if temperature != 1:
        change = "flatter" if temperature > 1 else "sharper"
        board.say(f"The temperature T = {temperature:g} makes the weights {change}.")
    board.matrices(pairs(worked, f"S / {divisor_in_words(worked)}", worked.scaled), turned=turned)


def divisor_in_words(worked: Worked) -> str:
    """What the scores are divided by, as it would be written."""
    root = [f"√{worked.problem.key_width}"] if worked.divisor != 1 else []
    heat = [f"{worked.rules.temperature:g}"] if worked.rules.temperature != 1 else []
    return " · ".join(root + heat) if len(root + heat) < 2 else f"({' · '.join(root + heat)})"


def _mask(board: Board, worked: Worked, turned: bool) -> None:
    if worked.mask is None:
        return
    divided = worked.divisor != 1 or worked.rules.temperature != 1
    formula = f"S / {divisor_in_words(worked)} + M" if divided else "S + M"
    board.step("M", "Mask", formula)
    side = "below" if turned else "above"
    reach = f"{side} the diagonal, which are later words," if worked.rules.causal else "hidden by the mask"
    board.say(
        f"Pairs {reach} become minus infinity, so that softmax gives them exactly 0. "
        f"{_line(turned)} is one query."
    )
    board.matrices(pairs(worked, formula, worked.scaled, masked=True), turned=turned)
    board.note(
        "M holds 0 and -∞ and is added after the division. Written inside it, as on some slides, it "
        "does no harm only because those two stay what they are when divided."
    )


def _softmax(board: Board, worked: Worked, turned: bool) -> None:
    given = worked.problem.start == "weights" and worked.divisor == worked.rules.temperature == 1
    board.step("4", *(("Weights", "A is given") if given else ("Softmax", "a = e^s / Σ e^s")))
    along = "down each column" if turned else "along each row"
    board.say(
        f"What each word takes from every word: shares, so that {along} Σ is 1."
        if given
        else f"The scores become shares, {along}: a larger score has a larger share, and Σ is 1."
    )
    if not worked.weights.any(1).all():
        board.say("A query that may look at nothing gets zeros.")
    board.matrices(weights(worked, "A", worked.weights), turned=turned)
    if worked.problem.start != "weights":
        board.note(
            "Softmax is taken over the scores alone; V comes after it. And a score of 0 or below does "
            "not mean “ignore”: every word that is not masked keeps a positive weight, however small."
        )


def _weigh(board: Board, worked: Worked, turned: bool) -> None:
    problem = worked.problem
    board.step("5", "Weigh the values", "[output]z[/] = a₀ [value]v₀[/] + a₁ [value]v₁[/] + ...")
    if len(problem.key) > MOST_TERMS:
        board.say(f"Sums of {len(problem.key)} terms are long; --row 0 writes out one.")
        return
    board.say("Each word becomes a mixture of what all the words it looks at hand over.")
    board.table(
        [(Text(word, "output"), "=", mixture(worked, row)) for row, word in enumerate(problem.query_words)],
        right=(0,),
    )


def mixture(worked: Worked, row: int) -> Text:
    """One query's output as a sum of words."""
    numbers = write_numbers(worked.weights)[row]
    seen = [True] * len(numbers) if worked.mask is None else worked.mask[row]
    terms = [
        Text.assemble(f"{number} ", (f"v{word}" if word.isdigit() else word, "value"))
        for number, word, may in zip(numbers, worked.problem.key_words, seen, strict=True)
        if may
    ]
    return Text(" + ").join(terms) if terms else Text("0, for it may look at nothing")


def _sum(board: Board, worked: Worked, turned: bool) -> None:
    if worked.output is None:
        return
    board.step("6", "Sum", "[output]Z[/] = A [value]V[/]")
    board.say("The mixtures in digits: a new vector for every word.")
    board.matrices(*product(worked, worked.weights, worked.output), turned=turned)


def _round(board: Board, worked: Worked, source: str, turned: bool) -> None:
    rounded = worked.rounded
    assert rounded
    board.step("≈", "Rounded as one goes", f"weights to {_places(rounded.decimals)} before they are used")
    if source:
        board.say(
            f"{source} Neither is wrong: a model computes the exact ones above, a person with a pencil these."
        )
    board.matrices(*product(worked, rounded.weights, rounded.output), turned=turned)
    board.say(
        "The rule: cut every weight, then give what is missing to the largest remainders (to the "
        "earlier one where two are equal), so that Σ stays 1."
        + _why_not_plain(worked.weights, rounded.decimals)
    )


def _why_not_plain(exact: Matrix, decimals: int) -> str:
    plain = exact.round(decimals)
    for before, after in zip(write_numbers(exact), plain, strict=True):
        if after.any() and not np.isclose(after.sum(), 1):
            numbers = ", ".join(f"{number:.{decimals}f}" for number in after)
            total = f"{after.sum():.{decimals}f}"
            return f" Plain rounding would make {', '.join(before)} into {numbers}, which is {total} in all."
    return ""


def _places(decimals: int) -> str:
    return f"{decimals} decimal" + "s" * (decimals != 1)


def _divide_after_all(board: Board, worked: Worked, turned: bool) -> None:
    again = work_out(worked.problem, replace(worked.rules, scale=True))
    board.step(
        "√",
        f"With the division by √{worked.problem.key_width}",
        "softmax([query]Q[/] [key]Kᵀ[/] / √d_k) [value]V[/]",
    )
    board.say("The paper divides. The same inputs then give softer weights, and other outputs:")
    board.matrices(*product(again, again.weights, again.output), turned=turned)


def _answer(board: Board, worked: Worked) -> None:
    board.step("?", "Questions")
    problem = worked.problem
    if problem.learned:
        count = f"[bold]{len(problem.learned)}[/]: {', '.join(problem.learned)}"
        board.say(f"How many weight matrices are learned? {count}. The rest is computed.")
    board.say("Which word does each look at most?")
    rows = []
    for word, best in zip(problem.query_words, worked.strongest, strict=True):
        names = " and ".join(problem.key_words[key] for key in best) or "none"
        rows.append((Text(word, "query"), "→", Text.assemble((names, "key"), " alike" * (len(best) > 1))))
    board.table(rows, right=(0,))


def _line(turned: bool) -> str:
    return "A column" if turned else "A row"
