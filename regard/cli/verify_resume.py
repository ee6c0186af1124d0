"""`regard verify-resume`: the proof that a crash costs nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard verify-resume translation                                 a built-in copy task
  regard verify-resume shakespeare --text shakespeare.txt --steps 40
  regard verify-resume mine.toml --set training.optimizer=adamw
"""


@commands.command("verify-resume", epilog=EXAMPLES)
def verify_resume(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE|FILE.toml", help="See regard train --list.")],
    source: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Sentences to translate.")] = None,
    target: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Their translations.")] = None,
    tsv: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Both in one table.")] = None,
    text: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Plain text.")] = None,
    labelled: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Texts with labels.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Replace a setting.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps of each run.")] = 60,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep both runs here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Train straight and interrupted, in new processes, and compare every bit."""
    from tempfile import TemporaryDirectory

    from regard.runs.resume_check import verify_resume as verify
    from regard.runs.toml import merged, read_overrides

    given = {"source": source, "target": target, "tsv": tsv, "text": text, "labelled": labelled}
    files = {"data": {name: value for name, value in given.items() if value}}
    changes = merged(files, read_overrides(settings or []))
    with TemporaryDirectory() as temporary:
        verdict = verify(
            recipe, out or Path(temporary), changes, steps, lambda line: print(line, file=sys.stderr)
        )
    shown = {"exact": verdict.is_exact, "steps": verdict.steps, "compared": verdict.compared}
    print(json.dumps(shown, indent=2) if as_json else verdict)
    raise typer.Exit(0 if verdict.is_exact else 1)
