"""Outcomes as text that a person reads."""

from __future__ import annotations

import platform
import shutil
import sys
import time
from collections.abc import Callable

import torch

from regard.bench.interleaved import OURS, Case, Contender, Outcome, Ratio


def gemm_speed(size: int = 1536, turns: int = 7) -> float:
    """Operations a second that this machine reaches in one large float32 product, at its best."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(turns):
        started = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def has_compiler() -> bool:
    """Whether torch.compile can work here; says so where it cannot."""
    if any(shutil.which(name) for name in ("c++", "g++", "clang++", "cl")):
        return True
    print("no C++ compiler here: compiled twins are left out", file=sys.stderr)
    return False


def our_work(case: Case) -> Callable[[], object]:
    """Our own piece of a case's work."""
    return next(contender.work for contender in case.contenders() if contender.name == OURS)


def profile(work: Callable[[], object], rows: int = 12) -> str:
    """Where a piece of work spends its time, as a table of torch operations."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    work()
    with record(activities=[ProfilerActivity.CPU]) as seen:
        work()
    return seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=rows, max_name_column_width=50)


def heading(threads: int, peak: float) -> str:
    """The machine in a line."""
    return f"{platform.machine()}, {threads} threads, float32 product {peak / 1e9:.0f} GFLOP/s at its best"


def line(outcome: Outcome, peak: float) -> str:
    """One case: everybody's figure, how many times it our best is, and the ratios that count."""
    rows = [f"{outcome.case.name}, {outcome.case.unit}"]
    rows += [_figure(outcome, contender) for contender in outcome.contenders]
    best, eager = outcome.ratio, outcome.eager_ratio
    if best is None:
        rows.append("  no peer is here to compare with")
    elif eager is None or eager.theirs == best.theirs:
        rows.append(f"  {best.ours} to the best peer: {_spread(best)}")
    else:
        rows.append(f"  {best.ours} to the best peer, {best.theirs}: {_spread(best)}")
        rows.append(f"  {eager.ours} to the best eager peer, {eager.theirs}: {_spread(eager)}")
    if outcome.case.operations:
        share = outcome.case.operations / outcome.case.amount * outcome.speeds[OURS] / peak
        rows.append(f"  regard's share of the product's peak: {share:.0%}")
    return "\n".join(rows)


def _figure(outcome: Outcome, contender: Contender) -> str:
    ratio = outcome.ratios.get(contender.title)
    row = f"  {contender.title:36}{outcome.speeds[contender.title]:>12,.0f}"
    row += "" if ratio is None else f"   {ratio.median:6.2f} x"
    return row + ("" if contender.agreement is None else f"   same output {contender.agreement:.0%}")


def _spread(ratio: Ratio) -> str:
    low, high = ratio.quartiles
    return f"{ratio.median:.2f} (quartiles {low:.2f} to {high:.2f})"
