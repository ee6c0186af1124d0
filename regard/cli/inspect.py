"""`regard inspect`: attention in the terminal or in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.lines import print_json
from regard.cli.options import Model

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard inspect MODEL "The cat sat."                                all heads of the last layer
  regard inspect MODEL "The cat sat." --kind encoder --layer 0 --head 1
  regard inspect MODEL "It was tired." --query it                    what one word looks at, head by head
  regard inspect MODEL "It was tired." --query it --compare "It was wide."
  regard inspect MODEL "It was tired." --rank it tired --ablate encoder.1.0
  regard inspect MODEL "It was tired." --why il elle                 why it writes il and not elle
  regard inspect MODEL "It was tired." --lens                        what each layer would write
  regard inspect MODEL "The cat sat." --save heads.svg
  regard inspect MODEL "It was tired." --query it --save it.html     the studio's view in one file
"""


def _option(meaning: str, metavar: str | None = None) -> Any:
    return typer.Option(metavar=metavar, help=meaning, show_default=False)


@commands.command(epilog=EXAMPLES)
def inspect(
    model: Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text that the model reads.")],
    target: Annotated[str | None, _option("A translation to inspect, or a continuation.")] = None,
    kind: Annotated[str | None, _option("encoder, decoder or cross.")] = None,
    layer: Annotated[int | None, _option("Counts from 0; default: the last.", "N")] = None,
    head: Annotated[int | None, _option("Counts from 0; default: all.", "N")] = None,
    query: Annotated[str | None, _option("One word, or the number of a token.", "WORD|N")] = None,
    words: Annotated[bool, typer.Option("--words", help="Merge the tokens of a word.")] = False,
    save: Annotated[Path | None, _option("Write .html, .svg, .png, .csv or .npz.", "FILE")] = None,
    compare: Annotated[str | None, _option("A second text to compare with.", "TEXT")] = None,
    rank: Annotated[tuple[str, str] | None, _option("Rank heads by attention from X to Y.", "X Y")] = None,
    ablate: Annotated[
        list[str] | None, _option("Ablate a head (encoder.2.1) or a part (scaling); repeatable.", "PART")
    ] = None,
    why: Annotated[
        tuple[str, str] | None, _option("Why it writes X and not Y, by input token.", "X Y")
    ] = None,
    lens: Annotated[bool, typer.Option("--lens", help="What each layer would write.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show the attention of a model on a text.

    Layers, heads and tokens count from 0. A row shows where a token looks. In cross-attention, it shows where
    the model looks in the source while it writes the word after the arrow.
    """
    if save is not None:
        others = {"--compare": compare, "--rank": rank, "--why": why, "--lens": lens or None}
        _check_unused("--save", {**others, "--json": as_json or None})
    if rank is not None:
        others = {"--compare": compare, "--query": query, "--layer": layer, "--head": head}
        _check_unused("--rank", {**others, "--why": why, "--lens": lens or None, "--words": words or None})
    if compare is not None:
        others = {"--kind": kind, "--layer": layer, "--head": head}
        _check_unused("--compare", {**others, "--why": why, "--lens": lens or None, "--words": words or None})
    if why is not None or lens:
        others = {"--kind": kind, "--layer": layer, "--head": head, "--query": query}
        others |= {"--lens": lens or None} if why is not None else {}
        _check_unused("--lens" if why is None else "--why", {**others, "--words": words or None})
    from regard.inference.loading import load
    from regard.inspection.render.board import Board
    from regard.inspection.render.terminal_report import Report, Request
    from regard.service.notes import notes_of

    parts = tuple(ablate or ())
    request = Request(text, target, kind, layer, head, query, words, compare, rank, parts, why, lens)
    report = Report(load(model), request, notes_of(Path(model)))
    if save is not None:
        print(report.save(save))
    elif as_json:
        print_json(report.as_dict())
    else:
        report.show(Board())


def _check_unused(option: str, others: dict[str, object]) -> None:
    """Raise if an option is given that another one makes void."""
    from regard.errors import UsageError

    unused = next((name for name, value in others.items() if value is not None), None)
    if unused is not None:
        raise UsageError(f"{unused} has no effect beside {option}; leave one of them out")
