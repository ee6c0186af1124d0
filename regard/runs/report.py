"""The report of a run: report.html and its curves as pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from regard.errors import UsageError
from regard.runs.curves import Curves, curves_of, draw, write_pictures
from regard.runs.display import duration
from regard.runs.metrics import read_metrics
from regard.runs.run_folder import RunFolder

ENDS = {"steps": "all steps done", "patience": "stopped: no better for long", "signal": "ended by a signal"}
STYLE = """
:root { color-scheme: light dark; --ink: #1d1f23; --soft: #666c76; --line: #dfe2e7; --paper: #ffffff;
  --card: #f7f8fa; --c0: #2563c9; --c1: #d9730d; --c2: #2e8b57; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9aa1ac; --line: #343941;
  --paper: #16181c; --card: #1e2126; --c0: #7aa9f7; --c1: #f0a35e; --c2: #6fcf97; } }
body { margin: 0 auto; max-width: 1100px; padding: 2rem 1.2rem 4rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .7rem; }
p.about { color: var(--soft); margin: .2rem 0 1.4rem; }
.figures { display: flex; flex-wrap: wrap; gap: .6rem; }
.figure { background: var(--card); border-radius: 8px; padding: .5rem .9rem; min-width: 6.5rem; }
.figure b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.figure span { color: var(--soft); font-size: .85rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 1rem; }
svg { width: 100%; height: auto; background: var(--card); border-radius: 8px; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg .title { fill: var(--ink); font-weight: 600; } .grid { stroke: var(--line); }
.curve { fill: none; stroke-width: 1.8; } .key { font-weight: 600; }
.curve.c0 { stroke: var(--c0); } .curve.c1 { stroke: var(--c1); } .curve.c2 { stroke: var(--c2); }
svg .dot.c0, svg .key.c0 { fill: var(--c0); } svg .dot.c1, svg .key.c1 { fill: var(--c1); }
svg .dot.c2, svg .key.c2 { fill: var(--c2); }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; }
pre { background: var(--card); border-radius: 8px; padding: .7rem .9rem; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: .4rem 0; font: 13px/1.5 ui-monospace, monospace; }
summary { cursor: pointer; color: var(--soft); padding: .2rem 0; }
"""


def page(folder: RunFolder, curves: Curves) -> str:
    """The whole document."""
    recipe, facts = folder.recipe(), folder.facts()
    name = escape(folder.path.absolute().name)
    parts = [
        f"<h1>{name}</h1>",
        f'<p class="about">{escape(_about(recipe.task, facts, curves))}</p>',
        f'<div class="figures">{"".join(_figures(curves, facts))}</div>',
        f'<h2>Curves</h2><div class="charts">{"".join(map(draw, curves.charts))}</div>',
        "<h2>Samples over time</h2>",
        *_samples(curves.validations),
        "<h2>What was read</h2>",
        _reading(facts),
        "<h2>Settings</h2>",
        f"<details><summary>recipe.toml</summary><pre>{escape(recipe.to_toml())}</pre></details>",
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{STYLE}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _about(objective: str, facts: dict[str, Any], curves: Curves) -> str:
    state = ENDS.get((curves.finished or {}).get("reason", ""), "not finished")
    resumed = [f"resumed {len(curves.resumed)} times"] if curves.resumed else []
    machine = [
        f"{name} {facts[name]}" for name in ("device", "threads", "seed", "regard", "torch") if name in facts
    ]
    return ", ".join([objective, state, *resumed, *machine])


def _figures(curves: Curves, facts: dict[str, Any]) -> Iterable[str]:
    best = curves.best or (curves.validations[-1] if curves.validations else None)
    shown: dict[str, str] = {}
    if best is not None:
        shown |= _scores(best)
        shown["at step"] = f"{best['step']:,}"
    if facts.get("parameters"):
        shown["parameters"] = f"{facts['parameters']:,}"
    shown["time in steps"] = duration(curves.seconds)
    shown["tokens a second"] = f"{curves.tokens / max(curves.seconds, 1e-9):,.0f}"
    if curves.padding is not None:
        shown["padding"] = f"{100 * curves.padding:.1f} %"
    for name, value in shown.items():
        yield f'<div class="figure"><b>{escape(value)}</b><span>{escape(name)}</span></div>'


def _scores(validation: dict[str, Any]) -> dict[str, str]:
    scores = validation["scores"].items()
    return {name.replace("_", " "): f"{value:.4g}" for name, value in scores if value is not None}


def _samples(validations: Sequence[dict[str, Any]]) -> Iterable[str]:
    """The latest samples first and open, the others folded."""
    with_samples = [event for event in validations if event.get("samples")]
    if not with_samples:
        yield "<p class='about'>None were kept.</p>"
    for place, event in enumerate(reversed(with_samples)):
        texts = "".join(f"<pre>{escape(str(text))}</pre>" for text in event["samples"])
        scores = ", ".join(f"{name} {value}" for name, value in _scores(event).items())
        mark = " open" if place == 0 else ""
        yield f"<details{mark}><summary>step {event['step']:,}: {escape(scores)}</summary>{texts}</details>"


def _reading(facts: dict[str, Any]) -> str:
    """One row per part and reason to skip lines."""
    rows: list[tuple[str, ...]] = []
    for part in ("train", "valid"):
        report = facts.get(part)
        if not isinstance(report, dict):
            continue
        rows.append((part, "kept", f"{report['kept']:,} of {report['read']:,}", ""))
        for reason, mentions in {**report["skipped"], "shortened": report["shortened"]}.items():
            if mentions["count"]:
                places = ", ".join(f"{Path(file).name}:{line}" for file, line, *_ in mentions["places"])
                rows.append((part, reason, f"{mentions['count']:,}", places))
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    head = "".join(f"<th>{name}</th>" for name in ("part", "lines", "count", "first places"))
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def write_report(folder: RunFolder) -> bool:
    """Write report.html and curves/ for the events so far; return whether there are any."""
    curves = curves_of(read_metrics(folder.metrics))
    if not curves.charts:
        return False
    write_pictures(curves.charts, folder.path / "curves")
    folder.report.write_text(page(folder, curves), encoding="utf-8")
    return True


def write_report_of(folder: Path) -> Path:
    """Write the report of a run again and return its path."""
    run = RunFolder(folder)
    run.recipe()
    if not write_report(run):
        raise UsageError(f"{folder} has not taken a step yet; resume it with regard train --resume {folder}")
    return run.report
