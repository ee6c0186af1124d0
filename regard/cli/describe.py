"""`regard describe`: the stack as a table."""

from __future__ import annotations

from typing import Annotated

import typer

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard describe                  the sizes known by name
  regard describe tiny             the stack, part by part
  regard describe gpt-3 --json     175 billion parameters, counted and not allocated
"""


@commands.command(epilog=EXAMPLES)
def describe(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A size; without one, all are listed.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show a model's parts with their shapes and parameters."""
    print(name, as_json)
