"""`regard datastore`: a kNN-MT datastore for a model that translates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.lines import print_json
from regard.cli.options import Device, Model, Source, Target, Tsv, files, named

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard datastore runs/translation                                from the training text of the run
  regard datastore MODEL --source more.en --target more.de --out more
  regard datastore runs/translation --lambda 0.2
"""


@commands.command(epilog=EXAMPLES)
def datastore(
    model: Model,
    source: Source = None,
    target: Target = None,
    tsv: Tsv = None,
    valid_source: Annotated[list[str] | None, files("Source sentences for tuning.")] = None,
    valid_target: Annotated[list[str] | None, files("Translations for tuning.")] = None,
    valid: Annotated[list[str] | None, files("Pairs for tuning, in one table.")] = None,
    weight: Annotated[
        float | None, typer.Option("--lambda", help="Weight of the datastore, instead of tuning it.")
    ] = None,
    k: Annotated[int | None, typer.Option("--k", help="Number of neighbours, instead of tuning it.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Temperature, instead of tuning it.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Output folder; default: datastore in the run.")
    ] = None,
    device: Device = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Build a kNN-MT datastore from known translations.

    translate and evaluate use it with --datastore.
    """
    from regard.runs.datastore import make_datastore

    data = named(source=source, target=target, tsv=tsv)
    data |= named(valid_source=valid_source, valid_target=valid_target, valid=valid)
    options = {"lambda": weight, "k": k, "temperature": temperature}
    parameters = {name: value for name, value in options.items() if value is not None}
    saved = make_datastore(model, data, parameters, out, device, lambda line: print(line, file=sys.stderr))
    print_json(saved.as_dict()) if as_json else print(saved)
