"""`regard by-hand`: attention by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.lines import print_json

if TYPE_CHECKING:
    from regard.inspection.by_hand.solution import Answer


commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard by-hand                         the worked examples
  regard by-hand B                       three inputs, from the first product to the last sum
  regard by-hand B --row 0               one of them, number by number
  regard by-hand masked --transpose      a masked pattern, a column for each query
  regard by-hand --q "1 0; 0 1" --k "1 1; 0 1" --v "2 0; 0 2" --causal --json
"""


def _matrix(name: str, meaning: str) -> Any:
    return typer.Option(f"--{name}", metavar="MATRIX", help=f"{meaning}.", show_default=False)


@commands.command("by-hand", epilog=EXAMPLES)
def by_hand(
    example: Annotated[
        str | None, typer.Argument(metavar="EXAMPLE", help="A, B, C or D; default: list the examples.")
    ] = None,
    x: Annotated[str | None, _matrix("x", "Inputs, a row for each word")] = None,
    wq: Annotated[str | None, _matrix("wq", "W^Q")] = None,
    wk: Annotated[str | None, _matrix("wk", "W^K")] = None,
    wv: Annotated[str | None, _matrix("wv", "W^V")] = None,
    q: Annotated[str | None, _matrix("q", "Queries, instead of X")] = None,
    k: Annotated[str | None, _matrix("k", "Keys")] = None,
    v: Annotated[str | None, _matrix("v", "Values")] = None,
    scores: Annotated[str | None, _matrix("scores", "Scores, instead of Q and K")] = None,
    key_width: Annotated[
        int | None,
        typer.Option("--d-k", metavar="N", min=1, help="Key width of given --scores."),
    ] = None,
    scale: Annotated[
        bool | None, typer.Option("--scale/--no-scale", help="Divide the scores by sqrt(d_k).")
    ] = None,
    causal: Annotated[bool | None, typer.Option("--causal/--no-causal", help="Mask later words.")] = None,
    mask: Annotated[str | None, _matrix("mask", "1 for visible, 0 for masked")] = None,
    similarity: Annotated[
        str | None, typer.Option(metavar="NAME", help="scaled-dot, dot or cosine.", show_default=False)
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Also divide the scores by this.", show_default=False)
    ] = None,
    decimals: Annotated[
        int | None, typer.Option("--round", metavar="N", help="Also show early rounding.")
    ] = None,
    words: Annotated[str | None, typer.Option(metavar="'A B C'", help="Labels of the rows.")] = None,
    row: Annotated[int | None, typer.Option(metavar="N", help="Only one query; counts from 0.")] = None,
    transpose: Annotated[bool, typer.Option("--transpose", help="A column for each query.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every step as JSON, unrounded.")] = False,
) -> None:
    """Compute attention on small matrices, step by step.

    A MATRIX is a .csv, .tsv, .txt, .json or .npy file, or rows like "1 0; 0 1". With an EXAMPLE, it replaces
    the matrix of the example.
    """
    matrices = {"x": x, "wq": wq, "wk": wk, "wv": wv, "q": q, "k": k, "v": v, "scores": scores}
    rules = {
        "scale": scale, "causal": causal, "mask": mask, "similarity": similarity,
        "temperature": temperature, "decimals": decimals,
    }  # fmt: skip
    given = (example, *matrices.values(), *rules.values(), words, row, key_width)
    if all(value is None for value in given):
        _list(as_json)
        return
    from regard.inspection.by_hand.solution import ask

    answer = ask(example, matrices, rules, words, key_width)
    if as_json:
        print_json((answer.solution if row is None else answer.solution.only(row)).as_dict())
    else:
        _show(answer, row, transpose)


def _list(as_json: bool) -> None:
    from regard.inspection.by_hand.examples import EXAMPLES, list_examples
    from regard.inspection.render.board import Board

    if as_json:
        print_json([example.as_dict() for example in EXAMPLES])
    else:
        list_examples(Board())


def _show(answer: Answer, row: int | None, transpose: bool) -> None:
    from regard.inspection.by_hand.solution_report import show_row, show_solution
    from regard.inspection.render.board import Board

    if row is None:
        show_solution(Board(), answer.solution, answer.example, transpose)
    else:
        show_row(Board(), answer.solution, row, answer.example)
