"""What this machine can do, and where our own time goes on it."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

import torch

from regard.bench.turns import OURS, Case


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
