"""`regard describe`: the parts of a model as a table."""

from __future__ import annotations

import json
from typing import Annotated

import typer

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard describe                  list the sizes
  regard describe tiny             the parts of a model
  regard describe gpt-3 --json     175 billion parameters, counted and not allocated
"""


@commands.command(epilog=EXAMPLES)
def describe(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A size; lists all if absent.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show the parts of a model with shapes and parameters."""
    if name is None:
        _list_sizes(as_json)
    else:
        _describe_size(name, as_json)


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


def _describe_size(name: str, as_json: bool) -> None:
    from regard.model.config import ModelConfig

    config = ModelConfig.named(name)  # raise on an unknown name before torch is imported
    from dataclasses import asdict

    from rich.console import Console

    from regard.model.describe import describe, rows
    from regard.model.transformer import build_model, count_parameters

    model = build_model(config, device="meta")
    if as_json:
        parts = [asdict(row) for row in rows(model)]
        description = {"name": name, "parameters": count_parameters(model), "parts": parts}
        print(json.dumps({**description, "config": config.model_dump()}, indent=2))
    else:
        Console().print(describe(model))
