"""`regard attend`: attention by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.inspection.by_hand.arithmetic import Answer


commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard attend                    the worked examples
  regard attend B                  three inputs, from the first product to the last sum
  regard attend B --row 0          one of them, number by number
  regard attend masked --turned    a masked pattern, a column for each query
  regard attend --q "1 0; 0 1" --k "1 1; 0 1" --v "2 0; 0 2" --causal --json
"""


def _matrix(name: str, meaning: str) -> Any:
    return typer.Option(f"--{name}", metavar="MATRIX", help=f"{meaning}.", show_default=False)


@commands.command(epilog=EXAMPLES)
def attend(
    example: Annotated[
        str | None, typer.Argument(metavar="EXAMPLE", help="A, B, C or D; without one, they are listed.")
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
        typer.Option("--d-k", metavar="N", min=1, help="How long the keys behind given scores are."),
    ] = None,
    scale: Annotated[
        bool | None, typer.Option("--scale/--no-scale", help="Divide by sqrt(d_k), or do not.")
    ] = None,
    causal: Annotated[
        bool | None, typer.Option("--causal/--no-causal", help="Hide later words from earlier ones.")
    ] = None,
    mask: Annotated[str | None, _matrix("mask", "1 where a query may look, 0 where not")] = None,
    similarity: Annotated[
        str | None, typer.Option(metavar="NAME", help="scaled-dot, dot or cosine.", show_default=False)
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Divide the scores by this, too.", show_default=False)
    ] = None,
    decimals: Annotated[
        int | None, typer.Option("--round", metavar="N", help="Show too what early rounding gives.")
    ] = None,
    words: Annotated[
        str | None, typer.Option(metavar="'A B C'", help="Names of the rows, with spaces between.")
    ] = None,
    row: Annotated[
        int | None, typer.Option(metavar="N", help="One query alone, number by number; counts from 0.")
    ] = None,
    turned: Annotated[bool, typer.Option("--turned", help="A column for each query.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every step as JSON, unrounded.")] = False,
) -> None:
    """Work out attention by hand: the lectures' examples, or your own small matrices.

    A MATRIX is a .csv, .tsv, .txt, .json or .npy file, or rows like "1 0; 0 1". Beside an EXAMPLE, it
    replaces the example's own.
    """
    matrices = {"x": x, "wq": wq, "wk": wk, "wv": wv, "q": q, "k": k, "v": v, "scores": scores}
    rules = {
        "scale": scale, "causal": causal, "mask": mask, "similarity": similarity,
        "temperature": temperature, "decimals": decimals,
    }  # fmt: skip
    asked = (example, *matrices.values(), *rules.values(), words, row, key_width)
    if all(value is None for value in asked):
        _list(as_json)
        return
    from regard.inspection.by_hand.arithmetic import ask

    answer = ask(example, matrices, rules, words, key_width)
    if as_json:
        _print_json((answer.worked if row is None else answer.worked.only(row)).as_dict())
    else:
        _show(answer, row, turned)


def _list(as_json: bool) -> None:
    from regard.inspection.by_hand.board import Board
    from regard.inspection.by_hand.examples import EXAMPLES, list_examples

    if as_json:
        _print_json([example.as_dict() for example in EXAMPLES])
    else:
        list_examples(Board())


def _show(answer: Answer, row: int | None, turned: bool) -> None:
    from regard.inspection.by_hand.all_rows import show_working
    from regard.inspection.by_hand.board import Board
    from regard.inspection.by_hand.one_row import show_row

    if row is None:
        show_working(Board(), answer.worked, answer.example, turned)
    else:
        show_row(Board(), answer.worked, row, answer.example)


def _print_json(value: Any) -> None:
    import json

    print(json.dumps(value, allow_nan=False, ensure_ascii=False))
