"""`regard quantize`: a model folder with int8 weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Model

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard quantize runs/mine mine-int8
  regard quantize demo demo-int8
"""


@commands.command(epilog=EXAMPLES)
def quantize(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write; it must not exist.")],
) -> None:
    """Save a model with int8 weights."""
    from regard.checkpoints.folder import WEIGHTS, save_quantized
    from regard.inference.loading import model_folder

    folder = model_folder(model)
    save_quantized(folder, out)
    before, after = ((path / WEIGHTS).stat().st_size / 1e6 for path in (folder, out))
    print(f"{out}: {after:.1f} MB of weights, before {before:.1f} MB")
