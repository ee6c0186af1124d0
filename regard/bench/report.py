"""Outcomes as text that a person reads."""

from __future__ import annotations

import platform

from regard.bench.turns import OURS, Outcome


def heading(threads: int, peak: float) -> str:
    """The machine in a line."""
    return f"{platform.machine()}, {threads} threads, float32 product {peak / 1e9:.0f} GFLOP/s at its best"


def line(outcome: Outcome, peak: float) -> str:
    """One case: everybody's figure, then the ratio to the best eager peer with its quartiles."""
    figures = {**outcome.speeds, **outcome.compiled}
    rows = [f"{outcome.case.name}, {outcome.case.unit}"]
    rows += [f"  {name:34}{speed:>12,.0f}" for name, speed in figures.items()]
    low, high = outcome.spread
    rows.append(f"  ratio to {outcome.best}: {outcome.ratio:.2f} (quartiles {low:.2f} to {high:.2f})")
    if outcome.case.operations:
        share = outcome.case.operations / outcome.case.amount * outcome.speeds[OURS] / peak
        rows.append(f"  regard's share of the product's peak: {share:.0%}")
    return "\n".join(rows)
