"""`regard lesson`: the lectures' claims, measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Settings

if TYPE_CHECKING:
    from regard.lessons.lesson import Result

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard lesson                          list the claims and their verdicts
  regard lesson scaling                  show the stored result
  regard lesson scaling --out DIR        write it as HTML, SVG, PNG and JSON
  regard lesson scaling --run            repeat the experiment and its control, on two cores
  regard lesson --all --run --out DIR    repeat all, on all cores
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
    from regard.lessons.results import NAMES

    _check(name, run, every, out, settings)
    if name is None and not every:
        _list(as_json)
        return
    results = []
    for result in _results(NAMES if every else (name or "",), run, settings or []):
        results.append(result)
        if out is not None:
            _write(result, out)
        if not as_json:
            _print(result)
    results.sort(key=lambda result: NAMES.index(result.name))
    if every and out is not None:
        _write_page(results, out)
    if as_json:
        _print_json(results)
    if any(not result.is_controlled for result in results):
        raise typer.Exit(1)


def _check(name: str | None, run: bool, every: bool, out: Path | None, settings: Settings) -> None:
    """Raise if the options do not belong together."""
    from regard.errors import UsageError

    if every and name:
        raise UsageError(f"--all is for every lesson, and {name} is one; leave one of them out")
    if every and settings:
        raise UsageError("--set is for one lesson; name it in place of --all")
    if settings and not run:
        raise UsageError("--set changes an experiment; add --run")
    if (run or out) and not (name or every):
        raise UsageError("name a lesson, or add --all for every lesson")


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


def _results(names: Sequence[str], again: bool, settings: list[str]) -> Iterator[Result]:
    """The stored results, or those of new runs, each when it is there."""
    from regard.lessons.results import check_name, stored_result

    for name in names:
        check_name(name)
    stored = {} if again else {name: result for name in names if (result := stored_result(name))}
    yield from stored.values()
    if missing := [name for name in names if name not in stored]:
        from regard.lessons.registry import LESSONS
        from regard.lessons.side_by_side import run_lessons
        from regard.runs.toml import read_overrides

        yield from run_lessons([LESSONS.find(name)(**read_overrides(settings)) for name in missing], _say)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _write(result: Result, out: Path) -> None:
    """The result as a page, a figure in two forms, and numbers."""
    from regard.lessons.figures import draw_png, draw_svg
    from regard.lessons.registry import LESSONS
    from regard.lessons.results import write_result
    from regard.lessons.show import page

    lesson = LESSONS.find(result.name)(**result.experiment.settings)
    charts = lesson.charts(result.experiment.measured)
    figure = draw_svg(charts)
    write_result(result, figure, out)
    (out / f"{result.name}.html").write_text(page(result, figure), encoding="utf-8")
    (out / f"{result.name}.png").write_bytes(draw_png(charts))


def _write_page(results: list[Result], out: Path) -> None:
    from regard.lessons.document import markdown

    (out / "lessons.md").write_text(markdown(results), encoding="utf-8")


def _print(result: Result) -> None:
    from rich.console import Console

    from regard.lessons.show import print_lesson

    print_lesson(result, Console())


def _print_json(results: list[Result]) -> None:
    from regard.cli.lines import print_json

    print_json([result.as_dict() for result in results])
