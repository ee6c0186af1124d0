"""`regard lesson`: the lectures' claims, measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Settings

if TYPE_CHECKING:
    from regard.lessons.lesson import Result

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard lesson                      list the claims and their verdicts
  regard lesson scaling              show the stored result
  regard lesson scaling --out DIR    write it as HTML, SVG, PNG and JSON
  regard lesson scaling --run        repeat the experiment
  regard lesson --all --run          repeat all of them; takes up to an hour
"""


@commands.command(epilog=EXAMPLES)
def lesson(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A lesson; lists all if absent.")] = None,
    run: Annotated[bool, typer.Option("--run", help="Repeat the experiment and its control.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All lessons.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write page, figure and numbers here.")
    ] = None,
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show a claim of the lectures, measured, and its verdict."""
    from regard.errors import UsageError
    from regard.lessons.results import NAMES

    if every and name:
        raise UsageError(f"--all is for every lesson, and {name} is one; leave one of them out")
    if settings and not run:
        raise UsageError("--set changes an experiment; add --run")
    if name is None and not every:
        if run or out:
            raise UsageError("name a lesson, or add --all for every lesson")
        _list(as_json)
        return
    results = [_result(one, run, settings or [], out) for one in (NAMES if every else (name,)) if one]
    _show(results, as_json)
    if any(not result.is_controlled for result in results):
        raise typer.Exit(1)


def _list(as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from regard.cli.lines import print_json
    from regard.lessons.results import NAMES, stored_result

    results = [result for name in NAMES if (result := stored_result(name)) is not None]
    rows = [(result.name, result.experiment.verdict.words, result.claim) for result in results]
    if as_json:
        print_json([{"name": name, "claim": claim, "verdict": verdict} for name, verdict, claim in rows])
        return
    table = Table("lesson", "verdict", "claim", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _result(name: str, again: bool, settings: list[str], out: Path | None) -> Result:
    from regard.lessons.results import check_name, stored_figure, stored_result, write_result

    check_name(name)
    result = None if again else stored_result(name)
    if result is None:
        result, figure, picture = _run(name, settings)
    elif out is not None:
        from regard.lessons.figures import draw_png
        from regard.lessons.registry import LESSONS

        figure = stored_figure(name)
        picture = draw_png(LESSONS.find(name)().charts(result.experiment.measured))
    else:
        return result
    if out is not None:
        from regard.lessons.show import page

        write_result(result, figure, out)
        (out / f"{name}.html").write_text(page(result, figure), encoding="utf-8")
        (out / f"{name}.png").write_bytes(picture)
    return result


def _run(name: str, settings: list[str]) -> tuple[Result, str, bytes]:
    from regard.lessons.figures import draw_png, draw_svg
    from regard.lessons.registry import LESSONS
    from regard.lessons.results import run
    from regard.runs.toml import read_overrides

    lesson = LESSONS.find(name)(**read_overrides(settings))
    result = run(lesson, lambda line: typer.echo(f"{name}: {line}", err=True))
    charts = lesson.charts(result.experiment.measured)
    return result, draw_svg(charts), draw_png(charts)


def _show(results: list[Result], as_json: bool) -> None:
    from rich.console import Console

    from regard.cli.lines import print_json
    from regard.lessons.show import print_lesson

    if as_json:
        print_json([result.as_dict() for result in results])
        return
    for result in results:
        print_lesson(result, Console())
