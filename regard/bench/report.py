"""The outcome of a benchmark as text, the peak of the machine, and profiles."""

from __future__ import annotations

import platform
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from regard.bench.interleaved import OURS, Case, Implementation, Outcome, Ratio


def gemm_speed(size: int = 1536, rounds: int = 7) -> float:
    """Operations per second of one large float32 matrix product, best of several."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def read_bandwidth(megabytes: int = 512, rounds: int = 7) -> float:
    """Bytes per second at which all threads read memory, best of several."""
    numbers = torch.ones(megabytes * 2**18)
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        numbers.sum()
        best = min(best, time.perf_counter() - started)
    return numbers.nbytes / best


def processor() -> str:
    """The name of the processor and the level of the native engine's kernels on it."""
    from regard.engine.native_stepper import NotNative, processor_level

    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    try:
        level = processor_level()
    except NotNative:
        level = "no native engine"
    return f"{names[0] if names else platform.processor() or platform.machine()} ({level})"


def bandwidth_shares(outcome: Outcome, bandwidth: float) -> dict[str, float]:
    """The share of the read bandwidth that each of our settings reaches; empty where reads do not limit."""
    sizes = {"float32": 4, "int8": 1}
    ours = [c for c in outcome.implementations if c.name == OURS and c.setting in sizes]
    return {
        c.title: outcome.case.reads * sizes[c.setting] * outcome.speeds[c.title] / bandwidth
        for c in ours
        if outcome.case.reads
    }


def has_compiler() -> bool:
    """Whether torch.compile has a C++ compiler; print a note if not."""
    if any(shutil.which(name) for name in ("c++", "g++", "clang++", "cl")):
        return True
    print("skipped: compiled models need a C++ compiler", file=sys.stderr)
    return False


def our_work(case: Case) -> Callable[[], object]:
    """Our implementation of a case."""
    return next(
        implementation.work for implementation in case.implementations() if implementation.name == OURS
    )


def profile(work: Callable[[], object], rows: int = 12) -> str:
    """The time of torch operations in one call, as a table."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    work()
    with record(activities=[ProfilerActivity.CPU]) as seen:
        work()
    return seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=rows, max_name_column_width=50)


def heading(threads: int, peak: float) -> str:
    """The machine in one line."""
    return f"{platform.machine()}, {threads} threads, float32 product {peak / 1e9:.0f} GFLOP/s at best"


def format_outcome(outcome: Outcome, peak: float) -> str:
    """One case: the speed of each implementation, our ratio to it, and our ratio to the best peer."""
    rows = [f"{outcome.case.name}, {outcome.case.unit}"]
    rows += [_format_speed(outcome, implementation) for implementation in outcome.implementations]
    best, eager = outcome.ratio, outcome.eager_ratio
    if best is None:
        rows.append("  no peer is installed")
    elif eager is None or eager.theirs == best.theirs:
        rows.append(f"  {best.ours} to the best peer: {_format_ratio(best)}")
    else:
        rows.append(f"  {best.ours} to the best peer, {best.theirs}: {_format_ratio(best)}")
        rows.append(f"  {eager.ours} to the best eager peer, {eager.theirs}: {_format_ratio(eager)}")
    if outcome.case.operations:
        share = outcome.case.operations / outcome.case.amount * outcome.speeds[OURS] / peak
        rows.append(f"  regard reaches {share:.0%} of the peak of a matrix product")
    return "\n".join(rows)


def _format_speed(outcome: Outcome, implementation: Implementation) -> str:
    ratio = outcome.ratios.get(implementation.title)
    row = f"  {implementation.title:36}{outcome.speeds[implementation.title]:>12,.0f}"
    row += "" if ratio is None else f"   {ratio.median:6.2f} x"
    row += "" if implementation.memory is None else f"   {implementation.memory / 1e6:6.0f} MB"
    row += "" if implementation.start is None else f"   starts in {implementation.start:5.2f} s"
    return row + (
        "" if implementation.agreement is None else f"   same output {implementation.agreement:.0%}"
    )


def _format_ratio(ratio: Ratio) -> str:
    low, high = ratio.quartiles
    return f"{ratio.median:.2f} (quartiles {low:.2f} to {high:.2f})"
