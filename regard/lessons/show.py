"""A lesson in the terminal and as one self-contained page of HTML. Loads no torch."""

from __future__ import annotations

from html import escape
from typing import Any

from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table as RichTable

from regard.lessons.lesson import Result, Table

STYLE = """
:root { color-scheme: light dark; --ink: #1d1f23; --soft: #5b616b; --line: #dfe2e7; --paper: #fff;
  --card: #f7f8fa; --yes: #1a7f4b; --no: #b3400a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a3abb6; --line: #343941;
  --paper: #16181c; --card: #1e2126; --yes: #6fcf97; --no: #f0a35e; } }
body { margin: 0 auto; max-width: 46rem; padding: 2rem 1.2rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .2rem 0 1rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
.name, .about, dt, th { color: var(--soft); } .name { margin: 0; }
.verdict { background: var(--card); border-left: 4px solid var(--yes); border-radius: 6px;
  padding: .7rem 1rem; }
.verdict.no { border-color: var(--no); } .verdict b { color: var(--yes); } .verdict.no b { color: var(--no); }
figure { margin: 1.4rem 0; overflow-x: auto; } figure svg { color: var(--ink); width: 100%; height: auto;
  min-width: 34rem; }
dl { display: grid; grid-template-columns: 8rem 1fr; gap: .3rem 1rem; } dd { margin: 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; vertical-align: top; } th { font-weight: 500; }
code { background: var(--card); border-radius: 4px; padding: .1rem .3rem; }
"""


def print_lesson(result: Result, console: Console) -> None:
    """The claim, the tables and the verdict."""
    console.print(f"[bold]{plain(result.name)}[/]  {plain(result.claim)}\n")
    for table in result.tables:
        console.print(_rich(table))
    parts = {"verdict": (result.experiment, "rule"), "control": (result.control, "control_words")}
    for label, (experiment, words) in parts.items():
        verdict, text = experiment.verdict, result.text[words].replace("`", "")
        style = "bold green" if verdict.holds else "bold yellow"
        console.print(
            f"{label}: [{style}]{plain(verdict.words)}[/]. {plain(verdict.reason)}", highlight=False
        )
        console.print(f"[dim]{plain(text)}[/]\n", highlight=False)
    for place in result.places:
        ways = " or ".join(f"[bold]{plain(way)}[/]" for way in place.ways)
        console.print(f"{plain(place.text)}: {ways}", highlight=False)
    console.print(f"[dim]{plain(measured_on(result))}[/]", highlight=False)


def page(result: Result, figure: str) -> str:
    """One HTML page: claim, verdict, figure, experiment, control and numbers."""
    verdict, control = result.experiment.verdict, result.control.verdict
    labels = {"question": "Question", "variable": "What changes", "measurement": "Measured", "rule": "Rule"}
    described = "".join(
        f"<dt>{label}</dt><dd>{_prose(result.text[name])}</dd>" for name, label in labels.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>'
        f"{escape(result.name)}: {escape(result.claim)}</title>"
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f'<p class="name">{escape(result.name)}</p><h1>{escape(result.claim)}</h1>'
        f'<p class="verdict{"" if verdict.holds else " no"}"><b>The claim {escape(verdict.words)}.</b> '
        f"{escape(verdict.reason)}</p><figure>{figure}</figure><h2>The experiment</h2><dl>{described}</dl>"
        f"<h2>Control</h2><p>{_prose(result.text['control_words'])} The verdict is then: "
        f"<b>{escape(control.words)}</b>. {escape(control.reason)}</p>"
        f"{_places(result)}<h2>Numbers</h2>{''.join(map(_html, result.tables))}"
        f'<p class="about">{escape(measured_on(result))} Run it again: '
        f"<code>regard lesson {escape(result.name)} --run</code></p></html>\n"
    )


def measured_on(result: Result) -> str:
    """Date, machine, version and time of a run."""
    return (
        f"Measured on {result.date} with regard {result.version} on {result.machine}, "
        f"in {result.seconds:.0f} s of one core, control included."
    )


def write_cell(value: Any) -> str:
    """A cell as text: four significant digits for a number with decimals."""
    return (
        f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )


def _rich(table: Table) -> RichTable:
    printed = RichTable(title=table.title, title_justify="left", title_style="bold")
    for column in table.columns:
        printed.add_column(column)
    for row in table.rows:
        printed.add_row(*(plain(write_cell(cell)) for cell in row))
    return printed


def _html(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(write_cell(cell))}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return (
        f'<p>{escape(table.title)}</p><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _places(result: Result) -> str:
    rows = (
        f"<li>{escape(place.text)}: {' or '.join(f'<code>{escape(way)}</code>' for way in place.ways)}</li>"
        for place in result.places
    )
    return f"<h2>See also</h2><ul>{''.join(rows)}</ul>" if result.places else ""


def _prose(text: str) -> str:
    """Text with `names` as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
