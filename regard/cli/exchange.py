"""`regard import` and `regard export`: models from and to the formats of other projects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, Model

if TYPE_CHECKING:
    from regard.exchange.report import Report

commands = typer.Typer()

IMPORT = """\b
Examples:
  regard import downloads/all-MiniLM-L6-v2 models/minilm
  regard import downloads/model.gguf models/llama --json
"""
EXPORT = """\b
Examples:
  regard export runs/mine exported
  regard export demo exported --format ctranslate2 --json
"""

OutFolder = Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write; it must not exist.")]


@commands.command("import", epilog=IMPORT)
def import_folder(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A Hugging Face folder or a GGUF file.")],
    out: OutFolder,
    json: AsJson = False,
) -> None:
    """Convert another project's model to a model folder.

    The report is printed and saved as verification.json. If the verification fails, nothing is written.
    """
    from regard.exchange.importing import import_model

    _print(import_model(folder, out), json)


@commands.command("export", epilog=EXPORT)
def export_folder(
    model: Model,
    out: OutFolder,
    format: Annotated[
        str, typer.Option(metavar="NAME", help="huggingface, ctranslate2, onnx, gguf, gguf-f16 or gguf-q8_0.")
    ] = "huggingface",
    json: AsJson = False,
) -> None:
    """Convert a model to the format of another project.

    The report is printed and saved as verification.json. If the verification fails, nothing is written.
    """
    from regard.exchange.formats import EXPORTS

    _print(EXPORTS.find(format)(model, out), json)


def _print(report: Report, as_json: bool) -> None:
    import json

    if as_json:
        print(json.dumps(report.as_dict(), ensure_ascii=False))
    else:
        print("\n".join(report.lines()))
