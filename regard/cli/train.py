"""`regard train`: from text files to a trained model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import (
    Labelled,
    PlainText,
    Settings,
    Source,
    Target,
    Tsv,
    Valid,
    ValidSource,
    ValidTarget,
    files,
)

if TYPE_CHECKING:
    from regard.runs.run import Run

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard train --list                                         the recipes
  regard train translation --source a.en --target a.de        two files, line by line
  regard train translation --source a.en --target a.de --minutes 60
  regard train language-model --text book.txt --out runs/book  a language model
  regard train sst2 --labelled train.tsv --valid dev.tsv      a classifier
  regard train classification --labelled a.tsv --set model.init_from=runs/words
  regard train mine.toml --set training.steps=200             a recipe of your own
  regard train --resume runs/book                             resume from the newest checkpoint
  regard train --resume runs/book/checkpoints/step-00000200   resume from an earlier step
"""


@commands.command(epilog=EXAMPLES)
def train(
    recipe: Annotated[str | None, typer.Argument(metavar="RECIPE|FILE.toml", help="See --list.")] = None,
    source: Source = None,
    target: Target = None,
    tsv: Tsv = None,
    text: PlainText = None,
    labelled: Labelled = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    valid: Valid = None,
    test_source: Annotated[list[str] | None, files("Test text for regard evaluate, source side.")] = None,
    test_target: Annotated[list[str] | None, files("Test text, target side.")] = None,
    test: Annotated[list[str] | None, files("Test text as one file.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(metavar="N", help="Minutes for the whole run; sizes are chosen to fit."),
    ] = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="A new folder for the run.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN|CHECKPOINT", help="Resume a run, from its newest checkpoint or a given one."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a run's report again.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of CPU threads.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or mps.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all random numbers.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard files.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    list_recipes: Annotated[bool, typer.Option("--list", help="Show the recipes.")] = False,
) -> None:
    """Train a model on text files with a recipe."""
    files = {
        "source": source, "target": target, "tsv": tsv, "text": text, "labelled": labelled,
        "valid_source": valid_source, "valid_target": valid_target, "valid": valid,
        "test_source": test_source, "test_target": test_target, "test": test,
    }  # fmt: skip
    machine = {"threads": threads, "device": device, "seed": seed, "minutes": minutes}
    others = (*files.values(), *machine.values(), settings, tensorboard or None)
    if list_recipes:
        _check_alone("--list", "shows the recipes and trains nothing", recipe, out, resume, report, *others)
        return _list_recipes(as_json)
    if report is not None:
        _check_alone("--report DIR", "is about a run that exists", recipe, out, resume, *others)
        return _print_report(report, as_json)
    from regard.runs.run import as_settings
    from regard.runs.run import resume as resume_run
    from regard.runs.run import train as train_run
    from regard.runs.toml import merged, read_overrides

    changes = read_overrides(settings or [])
    if resume is not None:
        _check_alone("--resume", "is about a run that exists", recipe, out)
        changes = merged(as_settings(files, machine), changes)
        return _print_run(resume_run(resume, changes, not quiet, tensorboard), as_json)
    run = train_run(
        _needed(recipe),
        **files,
        **machine,
        out=out,
        settings=changes,
        show=not quiet,
        tensorboard=tensorboard,
    )
    return _print_run(run, as_json)


def _check_alone(option: str, rule: str, *others: object) -> None:
    """Refuse options that would have no effect."""
    from regard.errors import UsageError

    if any(other is not None for other in others):
        away = "other folders" if option.startswith("--resume") else "other options"
        raise UsageError(f"{option} {rule}; leave the recipe and {away} out")


def _print_report(folder: Path, as_json: bool) -> None:
    from regard.runs.report import write_report_of

    path = write_report_of(folder)
    print(json.dumps({"report": str(path)}) if as_json else path)


def _list_recipes(as_json: bool) -> None:
    from regard.runs.recipe_files import recipes

    if as_json:
        print(json.dumps(recipes(), indent=2))
        return
    for name, line in recipes().items():
        print(f"{name:27}{line}")


def _needed(recipe: str | None) -> str:
    from regard.errors import UsageError

    if recipe is None:
        raise UsageError("no recipe was named; regard train --list shows them, and --resume RUN resumes one")
    return recipe


def _print_run(run: Run, as_json: bool) -> None:
    model = str(run.folder / "model")
    if as_json:
        print(json.dumps({"model": model, "step": run.step, "reason": run.reason, "scores": run.metrics}))
        return
    scores = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in run.metrics.items())
    print(f"{model}: {scores}")
