"""The tables of `regard bench decode` and `regard bench serve` in a page, written between two markers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.bench.interleaved import OURS, Implementation, Outcome
from regard.bench.report import bandwidth_shares, processor
from regard.errors import RegardError


def decode_table(outcomes: Sequence[Outcome], threads: int, bandwidth: float, rounds: int) -> str:
    """The outcomes as a table in Markdown, below a line that names the machine."""
    rows = [_row(outcome, bandwidth) for outcome in outcomes]
    return "\n".join(
        [
            f"Measured on {time.strftime('%Y-%m-%d')}: {processor()}, {threads} threads, which read memory at"
            f" {bandwidth / 1e9:.0f} GB/s; medians of {rounds} rounds.",
            "",
            "| case | unit | Regard | best peer | ratio | quartiles | share of bandwidth | MB, ours / peer |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
        ]
    )


def serve_table(outcomes: Sequence[dict[str, Any]], threads: int, rounds: int) -> str:
    """The outcomes of `regard bench serve` as a table in Markdown: a row for each server of a case."""
    rows = [_served(outcome, server) for outcome in outcomes for server in outcome["latency_ms"]]
    return "\n".join(
        [
            f"Measured on {time.strftime('%Y-%m-%d')}: {processor()}, {threads} threads for each server;"
            f" medians of {rounds} rounds.",
            "",
            "| case | server | requests/s | ratio of Regard's best to it | p50, ms | p95, ms | p99, ms"
            " | time beside the Translator alone |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
        ]
    )


def _served(outcome: dict[str, Any], server: str) -> str:
    speed, ratio = (outcome.get(name, {}).get(server) for name in ("speeds", "ratios"))
    overhead = outcome.get("overhead") if server == outcome.get("best") else None
    cells = [
        outcome["case"],
        server,
        "" if speed is None else f"{speed:,.1f}",
        "" if ratio is None else f"{ratio:.2f}",
        *(f"{milliseconds:,.1f}" for milliseconds in outcome["latency_ms"][server].values()),
        "" if overhead is None else f"{100 * overhead:+.1f} %",
    ]
    return "| " + " | ".join(cells) + " |"


def markers(name: str) -> tuple[str, str]:
    """The lines of a page between which a table lies."""
    return f"<!-- {name} table: begin -->", f"<!-- {name} table: end -->"


def write_between(path: Path, name: str, text: str) -> None:
    """Replace what lies between the markers of a page."""
    before, after = around_table(path, name)
    begin, end = markers(name)
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def around_table(path: Path, name: str) -> tuple[str, str]:
    """What a page has before and after the markers of a table; raise if it has none."""
    if not path.is_file():
        raise RegardError(f"{path} is not a file; give a page with a table to replace")
    begin_line, end_line = markers(name)
    before, begin, rest = path.read_text(encoding="utf-8").partition(begin_line)
    _, end, after = rest.partition(end_line)
    if not begin or not end:
        raise RegardError(
            f"{path} has no lines {begin_line} and {end_line}; add them where the table belongs"
        )
    return before, after


def _row(outcome: Outcome, bandwidth: float) -> str:
    best = outcome.ratio
    ours = (
        best.ours if best else max((c.title for c in outcome.implementations), key=outcome.speeds.__getitem__)
    )
    shares = bandwidth_shares(outcome, bandwidth)
    cells = [outcome.case.name, outcome.case.unit, f"{outcome.speeds[ours]:,.0f}, {_setting(outcome, ours)}"]
    if best is None:
        cells += ["none installed", "", ""]
    else:
        low, high = best.quartiles
        cells += [
            f"{outcome.speeds[best.theirs]:,.0f}, {best.theirs}",
            f"{best.median:.2f}",
            f"{low:.2f} to {high:.2f}",
        ]
    cells.append(", ".join(f"{share:.2f} {_setting(outcome, title)}" for title, share in shares.items()))
    cells.append(f"{_megabytes(outcome, ours)} / {_megabytes(outcome, best.theirs if best else None)}")
    return "| " + " | ".join(cells) + " |"


def _find(outcome: Outcome, title: str | None) -> Implementation | None:
    return next((c for c in outcome.implementations if c.title == title), None)


def _setting(outcome: Outcome, title: str) -> str:
    found = _find(outcome, title)
    return found.setting if found and found.setting else OURS


def _megabytes(outcome: Outcome, title: str | None) -> str:
    found = _find(outcome, title)
    return "-" if found is None or found.memory is None else f"{found.memory / 1e6:.0f}"
