"""The table of `regard bench decode` in a page, written between two markers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from regard.bench.interleaved import OURS, Implementation, Outcome
from regard.bench.report import bandwidth_shares, processor
from regard.errors import RegardError

BEGIN, END = "<!-- decode table: begin -->", "<!-- decode table: end -->"


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


def write_between(path: Path, text: str) -> None:
    """Replace what lies between the markers of a page."""
    page = path.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RegardError(f"{path} has no lines {BEGIN} and {END}; add them where the table belongs")
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


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
