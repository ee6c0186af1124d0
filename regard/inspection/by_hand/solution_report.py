"""The solution of a problem in the terminal: step by step for all queries, or number by number for one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from rich.markup import escape
from rich.text import Text

from regard.inspection.by_hand.examples import Example
from regard.inspection.by_hand.problem import Matrix, Problem
from regard.inspection.by_hand.solution import Solution, solve
from regard.inspection.render.board import Board, Grid, write_numbers

MOST_TERMS = 12  # of a sum that is written out
LONGEST_BAR = 20
STYLES = {"q": "query", "k": "key", "v": "value", "wq": "query", "wk": "key", "wv": "value", "x": ""}


def named(problem: Problem, name: str) -> Grid:
    """A matrix of the problem as a grid with its colour and words."""
    values = {"q": problem.query, "k": problem.key, "v": problem.value}.get(name, problem.given.get(name))
    assert values is not None
    style = STYLES[name]
    rows = () if name.startswith("w") else problem.query_words if name in "xq" else problem.key_words
    label = f"W^{name[1].upper()}" if name.startswith("w") else name.upper()
    return Grid(label, values, style, rows, row_style=style)


def pairs(solution: Solution, name: str, values: Matrix, masked: bool = False) -> Grid:
    """Scores as a grid, with minus infinity at masked cells."""
    problem = solution.problem
    hidden = np.isneginf(solution.masked) if masked else None
    return Grid(name, values, "", problem.query_words, problem.key_words, hidden=hidden, signed=True)


def weights(solution: Solution, name: str, values: Matrix) -> Grid:
    """Weights as a grid: dots at masked cells, the largest of each row in bold, and the sums."""
    problem = solution.problem
    strong = np.isclose(values, values.max(1, keepdims=True)) & (values > 0)
    sums = tuple(row[0] for row in write_numbers(values.sum(1, keepdims=True)))
    hidden = None if solution.mask is None else np.isneginf(solution.masked)
    return Grid(
        name, values, "", problem.query_words, problem.key_words,
        hidden=hidden, hidden_sign="∙", strong=strong, sums=sums,
    )  # fmt: skip


def bare(grid: Grid) -> Grid:
    """A grid without labels and sums, for use in an equation."""
    return replace(grid, rows=(), columns=(), sums=())


def product(solution: Solution, shares: Matrix, output: Matrix | None) -> list[Grid | str]:
    """A × V = Z, or A alone without values."""
    grid = weights(solution, "A", shares)
    if output is None:
        return [grid]
    value = bare(named(solution.problem, "v"))
    return [replace(bare(grid), rows=grid.rows), "×", value, "=", Grid("Z", output, "output")]


def show_solution(
    board: Board, solution: Solution, example: Example | None = None, transposed: bool = False
) -> None:
    """Print every step with its formula, matrices and a sentence, then rounding and questions."""
    if example:
        board.title(f"{example.letter}  {example.title}")
        board.say(example.story)
    else:
        board.title("Attention by hand")
    for step in (_project, _score, _divide, _mask, _softmax, _weigh, _sum):
        step(board, solution, transposed)
    if solution.rounded:
        _round(board, solution, example.rounded_by if example else "", transposed)
    if example and example.also_divided and solution.divisor == 1:
        _divide_after_all(board, solution, transposed)
    _answer(board, solution)


def _project(board: Board, solution: Solution, transposed: bool) -> None:
    problem = solution.problem
    if problem.start == "q":
        board.step("1", "Queries, keys and values", "are given")
        parts = [part for name in "qkv" if name in problem.given for part in (named(problem, name), " ")]
        board.matrices(*parts[:-1], transposed=transposed)
    if problem.start != "x":
        return
    board.step(
        "1",
        "Project",
        "[query]Q[/] = X [query]W^Q[/]    [key]K[/] = X [key]W^K[/]    [value]V[/] = X [value]W^V[/]",
    )
    board.say(
        "Each input is multiplied by three learned matrices. Its [query]query[/] is what it looks for, "
        "its [key]key[/] what it offers, its [value]value[/] what it passes on."
    )
    for name in "qkv":
        made = bare(named(problem, name))
        board.matrices(named(problem, "x"), "×", named(problem, f"w{name}"), "=", made, transposed=transposed)
    board.note(
        "A value is not a relevance. Queries and keys alone decide how relevant a word is; the value is "
        "what is then passed on."
    )


def _score(board: Board, solution: Solution, transposed: bool) -> None:
    problem = solution.problem
    if not _shows_scores(solution):
        return
    cosine = solution.rules.similarity == "cosine"
    formula = "S = cos([query]Q[/], [key]K[/])" if cosine else "S = [query]Q[/] [key]Kᵀ[/]"
    board.step("2", "Score", formula)
    scores = pairs(solution, "S", solution.scores)
    if problem.start == "scores":
        board.say(
            "One number for each pair, the dot product of a [query]query[/] and a [key]key[/]. "
            "They are given."
        )
        board.matrices(scores, transposed=transposed)
        return
    line = _line(transposed)
    board.say(f"One number for each pair of a [query]query[/] and a [key]key[/]. {line} is one query.")
    if cosine:
        board.matrices(scores, transposed=transposed)
        board.note(
            "The dot product of two vectors is 1 for equal and -1 for opposite directions only where "
            "both have length 1. The cosine divides by the lengths, so it always is."
        )
        return
    scores = replace(scores, rows=())
    board.matrices(
        named(problem, "q"), "×", bare(named(problem, "k")).transpose(), "=", scores, transposed=transposed
    )
    if transposed:
        board.note("With a token as a column, QᵀK has the same numbers as QKᵀ with a token as a row.")


def _shows_scores(solution: Solution) -> bool:
    """Whether there are scores to show; masked ones that were given are shown with their mask."""
    start = solution.problem.start
    return start != "weights" and (start != "scores" or solution.mask is None)


def _is_divided(board: Board, solution: Solution) -> bool:
    """Whether the scores are divided; where a reader expects it, print that they are not."""
    is_divided = solution.divisor != 1 or solution.rules.temperature != 1
    if not is_divided and solution.problem.start in ("x", "q") and solution.rules.similarity != "cosine":
        board.step("3", "Divide by √d_k", "[soft]not done here[/]")
    return is_divided


def _divide(board: Board, solution: Solution, transposed: bool) -> None:
    problem, temperature = solution.problem, solution.rules.temperature
    if not _is_divided(board, solution):
        return
    parts = ["√d_k"] * (solution.divisor != 1) + ["T"] * (temperature != 1)
    board.step("3", f"Divide by {' · '.join(parts)}", f"S / {divisor_in_words(solution)}")
    if solution.divisor != 1:
        board.say(
            f"The keys have {problem.key_width} numbers. Long vectors give large scores, and then "
            "softmax gives almost only 0 and 1."
        )
    if temperature != 1:
        change = "flatter" if temperature > 1 else "sharper"
        board.say(f"The temperature T = {temperature:g} makes the weights {change}.")
    board.matrices(
        pairs(solution, f"S / {divisor_in_words(solution)}", solution.scaled), transposed=transposed
    )


def divisor_in_words(solution: Solution) -> str:
    """The divisor of the scores as a formula."""
    root = [f"√{solution.problem.key_width}"] if solution.divisor != 1 else []
    heat = [f"{solution.rules.temperature:g}"] if solution.rules.temperature != 1 else []
    return " · ".join(root + heat) if len(root + heat) < 2 else f"({' · '.join(root + heat)})"


def _mask(board: Board, solution: Solution, transposed: bool) -> None:
    if solution.mask is None:
        return
    divided = solution.divisor != 1 or solution.rules.temperature != 1
    formula = f"S / {divisor_in_words(solution)} + M" if divided else "S + M"
    board.step("M", "Mask", formula)
    side = "below" if transposed else "above"
    hidden = f"{side} the diagonal, which are later words," if solution.rules.causal else "hidden by the mask"
    board.say(
        f"Pairs {hidden} become minus infinity, so that softmax gives them exactly 0. "
        f"{_line(transposed)} is one query."
    )
    board.matrices(pairs(solution, formula, solution.scaled, masked=True), transposed=transposed)
    board.note(
        "M holds 0 and -∞ and is added after the division. Inside the division, as on some slides, it gives "
        "the same only because 0 and -∞ do not change when they are divided."
    )


def _softmax(board: Board, solution: Solution, transposed: bool) -> None:
    given = solution.problem.start == "weights" and solution.divisor == solution.rules.temperature == 1
    board.step("4", *(("Weights", "A is given") if given else ("Softmax", "a = e^s / Σ e^s")))
    along = "down each column" if transposed else "along each row"
    board.say(
        f"The weights of each word: shares, so that {along} Σ is 1."
        if given
        else f"The scores become shares, {along}: a larger score has a larger share, and Σ is 1."
    )
    if not solution.weights.any(1).all():
        board.say("A query without visible keys gets zeros.")
    board.matrices(weights(solution, "A", solution.weights), transposed=transposed)
    if solution.problem.start != "weights":
        board.note(
            "Softmax is taken over the scores alone; V comes after it. A score of 0 or below does not mean "
            "“ignore”: every word that is not masked keeps a positive weight."
        )


def _weigh(board: Board, solution: Solution, transposed: bool) -> None:
    problem = solution.problem
    board.step("5", "Weigh the values", "[output]z[/] = a₀ [value]v₀[/] + a₁ [value]v₁[/] + ...")
    if len(problem.key) > MOST_TERMS:
        board.say(f"Sums of {len(problem.key)} terms are too long to print; --row 0 prints one.")
        return
    board.say("Each word becomes a weighted sum of the values of the words it looks at.")
    board.table(
        [(Text(word, "output"), "=", mixture(solution, row)) for row, word in enumerate(problem.query_words)],
        right=(0,),
    )


def mixture(solution: Solution, row: int) -> Text:
    """The output of one query as a sum of words."""
    numbers = write_numbers(solution.weights)[row]
    visible = [True] * len(numbers) if solution.mask is None else solution.mask[row]
    terms = [
        Text.assemble(f"{number} ", (f"v{word}" if word.isdigit() else word, "value"))
        for number, word, may in zip(numbers, solution.problem.key_words, visible, strict=True)
        if may
    ]
    return Text(" + ").join(terms) if terms else Text("0, because it has no visible keys")


def _sum(board: Board, solution: Solution, transposed: bool) -> None:
    if solution.output is None:
        return
    board.step("6", "Sum", "[output]Z[/] = A [value]V[/]")
    board.say("The weighted sums as numbers: a new vector for every word.")
    board.matrices(*product(solution, solution.weights, solution.output), transposed=transposed)


def _round(board: Board, solution: Solution, source: str, transposed: bool) -> None:
    rounded = solution.rounded
    assert rounded
    board.step("≈", "Rounded at each step", f"weights to {_places(rounded.decimals)} before they are used")
    if source:
        board.say(
            f"{source} Both are right: a model computes the exact numbers, a person with a pencil these."
        )
    board.matrices(*product(solution, rounded.weights, rounded.output), transposed=transposed)
    board.say(
        "The rule: round every weight down, then give what is missing to the largest remainders (the "
        "earlier one of two equal remainders), so that Σ stays 1."
        + _why_not_plain(solution.weights, rounded.decimals)
    )


def _why_not_plain(exact: Matrix, decimals: int) -> str:
    plain = exact.round(decimals)
    for before, after in zip(write_numbers(exact), plain, strict=True):
        if after.any() and not np.isclose(after.sum(), 1):
            numbers = ", ".join(f"{number:.{decimals}f}" for number in after)
            total = f"{after.sum():.{decimals}f}"
            return f" Plain rounding would make {', '.join(before)} into {numbers}, which sum to {total}."
    return ""


def _places(decimals: int) -> str:
    return f"{decimals} decimal" + "s" * (decimals != 1)


def _divide_after_all(board: Board, solution: Solution, transposed: bool) -> None:
    again = solve(solution.problem, replace(solution.rules, scale=True))
    board.step(
        "√",
        f"With the division by √{solution.problem.key_width}",
        "softmax([query]Q[/] [key]Kᵀ[/] / √d_k) [value]V[/]",
    )
    board.say("The paper divides. The same inputs then give more even weights, and other outputs:")
    board.matrices(*product(again, again.weights, again.output), transposed=transposed)


def _answer(board: Board, solution: Solution) -> None:
    board.step("?", "Questions")
    problem = solution.problem
    if problem.learned:
        count = f"[bold]{len(problem.learned)}[/]: {', '.join(problem.learned)}"
        board.say(f"How many weight matrices are learned? {count}. The rest is computed.")
    board.say("Which word does each look at most?")
    rows = []
    for word, best in zip(problem.query_words, solution.strongest, strict=True):
        names = " and ".join(problem.key_words[key] for key in best) or "none"
        rows.append((Text(word, "query"), "→", Text.assemble((names, "key"), " equally" * (len(best) > 1))))
    board.table(rows, right=(0,))


def _line(transposed: bool) -> str:
    return "A column" if transposed else "A row"


def show_row(board: Board, solution: Solution, row: int, example: Example | None = None) -> None:
    """Print the six steps for the query of one row, counted from 0, with every number."""
    solution = solution.only(row)
    whose = f"{example.letter}  {example.title}, row" if example else "Row"
    board.title(f"{whose} {row}: {escape(solution.problem.query_words[0])}")
    _row_inputs(board, solution, row)
    _row_score(board, solution)
    _row_divide(board, solution)
    _row_mask(board, solution)
    _row_softmax(board, solution)
    _row_weigh(board, solution)
    _row_round(board, solution, example.rounded_by if example else "")


def _row_inputs(board: Board, solution: Solution, row: int) -> None:
    problem = solution.problem
    if problem.start == "x":
        board.step("1", "Compute q, k and v", "[query]q[/] = x [query]W^Q[/]")
        x, query = problem.given["x"][row], problem.query[0]
        rows: list[tuple[Text | str, ...]] = [("x =", _vector(x))]
        for number, (column, total) in enumerate(zip(problem.given["wq"].T, query, strict=True)):
            terms = _products(x, column, ("", "query"))
            rows.append((Text(f"q{number} =", "query"), terms, "=", Text(_written(total), "query")))
        board.table(rows)
        board.say("The keys and values of all words are computed the same way, with W^K and W^V.")
    elif problem.start == "q":
        board.step("1", "q, k and v", "are given")
        board.table([(Text("q =", "query"), _vector(problem.query[0], "query"))])
    else:
        return
    board.matrices(named(problem, "k"), *([" ", named(problem, "v")] if problem.value is not None else []))


def _row_score(board: Board, solution: Solution) -> None:
    if not _shows_scores(solution):
        return
    board.step("2", "Score", "[query]q[/] · [key]k[/], for every key")
    pairs = zip(_words(solution), solution.problem.key, write_numbers(solution.scores)[0], strict=True)
    rows = [(word, *_score_terms(solution, key), Text(score, "bold")) for word, key, score in pairs]
    board.table(rows, right=(0,))


def _score_terms(solution: Solution, key: Matrix) -> tuple[Text | str, ...]:
    """The terms of one score."""
    if solution.problem.start not in ("x", "q"):
        return ("given:",)
    query = solution.problem.query[0]
    if solution.rules.similarity == "cosine":
        lengths = f"({_written(np.linalg.norm(query))} · {_written(np.linalg.norm(key))})"
        return (Text.assemble("(", _products(query, key), f") / {lengths}"), "=")
    return (_products(query, key), "=")


def _row_divide(board: Board, solution: Solution) -> None:
    if not _is_divided(board, solution):
        return
    divisor = _written(solution.divisor * solution.rules.temperature)
    board.step("3", "Divide", f"by {divisor_in_words(solution)} = {divisor}")
    numbers = (write_numbers(matrix)[0] for matrix in (solution.scores, solution.scaled))
    pairs = zip(_words(solution), *numbers, strict=True)
    rows = [(word, score, f"/ {divisor} =", Text(scaled, "bold")) for word, score, scaled in pairs]
    board.table(rows, right=(0, 1))


def _row_mask(board: Board, solution: Solution) -> None:
    if solution.mask is None:
        return
    board.step("M", "Mask", "-∞ where this word may not look")
    cells = zip(_words(solution), write_numbers(solution.scaled)[0], solution.mask[0], strict=True)
    rows = [(word, Text(score, "bold") if may else Text("-∞", "masked")) for word, score, may in cells]
    board.table(rows, right=(0, 1))


def _row_softmax(board: Board, solution: Solution) -> None:
    powers, largest = solution.exponentials, solution.masked.max()
    board.step("4", "Softmax", "e^(s - largest), divided by the sum of all")
    if np.isneginf(largest):
        board.say("This word has no visible keys, so every weight is 0.")
        return
    divided = f"/ {_written(powers.sum())} ="
    numbers = (write_numbers(matrix)[0] for matrix in (powers, solution.weights))
    rows = []
    for word, score, share, power, weight in zip(
        _words(solution), solution.masked[0], solution.weights[0], *numbers, strict=True
    ):
        term = f"e^({_written(score)} - {_written(largest)})" if np.isfinite(score) else "e^-∞"
        bar = Text("█" * round(share * LONGEST_BAR), "query")
        rows.append((word, term, "=", power, divided, Text(weight, "bold"), bar))
    board.table(rows, right=(0, 3, 5))
    board.say("Subtracting the largest score from all scores keeps the weights and avoids overflow.")


def _row_weigh(board: Board, solution: Solution) -> None:
    value, output = solution.problem.value, solution.output
    if value is None or output is None:
        return
    board.step("5", "Weigh the values", "each [value]value[/] times its weight")
    weighted, shares = solution.weights[0][:, None] * value, write_numbers(solution.weights)[0]
    rows = [
        (word, f"{share} ×", _vector(row, "value"), "=", f"[ {' '.join(product)} ]")
        for word, share, row, product in zip(
            _words(solution, "value"), shares, value, write_numbers(weighted), strict=True
        )
    ]
    board.table(rows, right=(0,))
    board.step("6", "Sum", "add them up, column by column")
    board.table([_output_row(solution, output)])


def _row_round(board: Board, solution: Solution, source: str) -> None:
    if solution.rounded is None:
        return
    board.step("≈", "Rounded at each step", "the weights before they are used")
    if source:
        board.say(source)
    rows = [(Text("weights"), "=", _vector(solution.rounded.weights[0]))]
    if solution.rounded.output is not None:
        rows.append(_output_row(solution, solution.rounded.output))
    board.table(rows, right=(0,))


def _output_row(solution: Solution, output: Matrix) -> tuple[Text, str, Text]:
    return Text(solution.problem.query_words[0], "output"), "=", _vector(output[0], "output")


def _words(solution: Solution, style: str = "key") -> list[Text]:
    return [Text(word, style) for word in solution.problem.key_words]


def _vector(numbers: Matrix, style: str = "") -> Text:
    return Text(f"[ {' '.join(write_numbers(numbers[None])[0])} ]", style)


def _products(left: Matrix, right: Matrix, styles: tuple[str, str] = ("query", "key")) -> Text:
    """a·b + c·d + ..., in the colours of the factors."""
    numbers = (write_numbers(x[None])[0] for x in (left, right))
    terms: Iterable[Text] = (
        Text.assemble((a, styles[0]), "·", (f"({b})" if b.startswith("-") else b, styles[1]))
        for a, b in zip(*numbers, strict=True)
    )
    return Text(" + ").join(terms)


def _written(number: float | np.floating) -> str:
    return write_numbers(np.array([[float(number)]]))[0][0]
