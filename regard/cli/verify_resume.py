"""`regard verify-resume`: the proof that a crash costs nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Labelled, PlainText, Settings, Source, Target, Tsv, named

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard verify-resume translation                                 a built-in copy task
  regard verify-resume shakespeare --text shakespeare.txt --steps 40
  regard verify-resume mine.toml --set optimizer.name=adamw
  regard verify-resume translation --kills 50                      ended so often while it saves
"""


@commands.command("verify-resume", epilog=EXAMPLES)
def verify_resume(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE|FILE.toml", help="See regard train --list.")],
    source: Source = None,
    target: Target = None,
    tsv: Tsv = None,
    text: PlainText = None,
    labelled: Labelled = None,
    settings: Settings = None,
    steps: Annotated[int, typer.Option(help="Steps of each run.")] = 60,
    kills: Annotated[
        int, typer.Option(min=0, metavar="N", help="End it N times while it saves, by SIGKILL.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep both runs here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Prove that an interrupted run ends bit-equal.

    It trains once straight and once interrupted, in new processes, and compares every bit.
    """
    from tempfile import TemporaryDirectory

    from regard.runs.resume_check import verify_resume as verify
    from regard.runs.toml import merged, read_overrides

    files = {"data": named(source=source, target=target, tsv=tsv, text=text, labelled=labelled)}
    changes = merged(files, read_overrides(settings or []))
    with TemporaryDirectory() as temporary:
        place = out or Path(temporary)
        verdict = verify(recipe, place, changes, steps, lambda line: print(line, file=sys.stderr), kills)
    shown = {"exact": verdict.is_exact, "steps": verdict.steps, "compared": verdict.compared}
    print(json.dumps(shown, indent=2) if as_json else verdict)
    raise typer.Exit(0 if verdict.is_exact else 1)
