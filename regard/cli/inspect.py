"""`regard look`: attention in the terminal, or in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import Model

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard look MODEL "The cat sat."                                all heads of the last layer
  regard look MODEL "The cat sat." --kind encoder --layer 0 --head 1
  regard look MODEL "It was tired." --query it                    what one word looks at, head by head
  regard look MODEL "It was tired." --query it --compare "It was wide."
  regard look MODEL "It was tired." --rank it tired --off encoder.1.0
  regard look MODEL "The cat sat." --save heads.svg
  regard look MODEL "It was tired." --query it --save it.html     a page to keep
"""


def _option(meaning: str, metavar: str | None = None) -> Any:
    return typer.Option(metavar=metavar, help=meaning, show_default=False)


@commands.command(epilog=EXAMPLES)
def look(
    model: Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the model reads.")],
    target: Annotated[str | None, _option("A translation to look at, or how the text goes on.")] = None,
    kind: Annotated[str | None, _option("encoder, decoder or cross.")] = None,
    layer: Annotated[int | None, _option("Counts from 0; without it, the last.", "N")] = None,
    head: Annotated[int | None, _option("Counts from 0; without it, all of them.", "N")] = None,
    query: Annotated[str | None, _option("One word, or the token of that number.", "WORD|N")] = None,
    words: Annotated[bool, typer.Option("--words", help="Join the pieces of a word.")] = False,
    save: Annotated[Path | None, _option("Write .html, .svg, .png, .csv or .npz.", "FILE")] = None,
    compare: Annotated[str | None, _option("A second text: what changes for the query.", "TEXT")] = None,
    rank: Annotated[tuple[str, str] | None, _option("Which heads let X look at Y.", "X Y")] = None,
    off: Annotated[
        list[str] | None, _option("Off: a head (encoder.2.1) or a part (scaling); repeatable.", "PART")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show what a model looks at while it reads and writes.

    Layers, heads and tokens count from 0. A row shows where a token looks; in cross-attention, where the
    model looks in the source while it writes the word behind the arrow.
    """
    if save is not None:
        _check_used("--save", {"--compare": compare, "--rank": rank, "--json": as_json or None})
    if rank is not None:
        others = {"--compare": compare, "--query": query, "--layer": layer, "--head": head}
        _check_used("--rank", {**others, "--words": words or None})
    if compare is not None:
        others = {"--kind": kind, "--layer": layer, "--head": head}
        _check_used("--compare", {**others, "--words": words or None})
    from regard.inference.loading import load
    from regard.inspection.by_hand.board import Board
    from regard.inspection.command import Look, Request
    from regard.service.notes import notes_of

    parts = tuple(off or ())
    request = Request(text, target, kind, layer, head, query, words, compare, rank, parts)
    found = Look(load(model), request, notes_of(Path(model)))
    if save is not None:
        print(found.save(save))
    elif as_json:
        _print_json(found.data())
    else:
        found.show(Board())


def _check_used(option: str, others: dict[str, object]) -> None:
    """Refuse what an option would leave without effect."""
    from regard.errors import UsageError

    idle = next((name for name, value in others.items() if value is not None), None)
    if idle is not None:
        raise UsageError(f"{idle} has no effect beside {option}; leave one of them out")


def _print_json(value: Any) -> None:
    import json

    print(json.dumps(value, allow_nan=False, ensure_ascii=False))
