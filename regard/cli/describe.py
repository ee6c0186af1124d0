"""`regard describe`: the stack as a table."""

from __future__ import annotations

import json
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
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A size; none lists them all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show a model's parts with their shapes and parameters."""
    if name is None:
        _list_sizes(as_json)
    else:
        _show_stack(name, as_json)


def _list_sizes(as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from regard.model.config import SIZES, ModelConfig

    columns = ("family", "layers", "width", "heads", "feed_forward_width", "vocabulary")
    sizes = {name: ModelConfig.named(name).model_dump(include=set(columns)) for name in SIZES}
    if as_json:
        print(json.dumps(sizes, indent=2))
        return
    table = Table("name", *(column.removesuffix("_width").replace("_", "-") for column in columns), box=None)
    for name, size in sizes.items():
        table.add_row(name, *(str(size[column]) for column in columns))
    Console().print(table)


def _show_stack(name: str, as_json: bool) -> None:
    from regard.model.config import ModelConfig

    config = ModelConfig.named(name)  # an unknown name is answered before torch is loaded
    from dataclasses import asdict

    from rich.console import Console

    from regard.model.describe import describe, rows
    from regard.model.transformer import build_model, count_parameters

    model = build_model(config, device="meta")
    if as_json:
        parts = [asdict(row) for row in rows(model)]
        shown = {"name": name, "parameters": count_parameters(model), "parts": parts}
        print(json.dumps({**shown, "config": config.model_dump()}, indent=2))
    else:
        Console().print(describe(model))
