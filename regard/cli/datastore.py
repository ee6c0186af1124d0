"""`regard remember`: known translations that have a say when a model translates."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Device, Model, Source, Target, Tsv, files, named

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard remember runs/translation                                 what the run has learned from
  regard remember MODEL --source more.en --target more.de --out more
  regard remember runs/translation --weight 0.2
"""


@commands.command(epilog=EXAMPLES)
def remember(
    model: Model,
    source: Source = None,
    target: Target = None,
    tsv: Tsv = None,
    valid_source: Annotated[list[str] | None, files("What weight and temperature are chosen by.")] = None,
    valid_target: Annotated[list[str] | None, files("Its translations.")] = None,
    valid: Annotated[list[str] | None, files("The same in one table.")] = None,
    weight: Annotated[
        float | None, typer.Option(help="Share of every probability, instead of choosing.")
    ] = None,
    neighbours: Annotated[int | None, typer.Option(help="Nearest vectors that have a say.")] = None,
    temperature: Annotated[float | None, typer.Option(help="How sharply near is told from far.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to; else with the run.")] = None,
    device: Device = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Remember known translations as a model meets them, for translate and evaluate --remembered."""
    from regard.runs import datastore as room

    given = named(source=source, target=target, tsv=tsv)
    given |= named(valid_source=valid_source, valid_target=valid_target, valid=valid)
    chosen = {"weight": weight, "neighbours": neighbours, "temperature": temperature}
    recall = {name: value for name, value in chosen.items() if value is not None}
    found = room.remember(model, given, recall, out, device, lambda line: print(line, file=sys.stderr))
    print(json.dumps(found.to_json()) if as_json else found)
