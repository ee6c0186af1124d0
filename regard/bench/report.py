"""Outcomes as text that a person reads."""

from __future__ import annotations

import platform

from regard.bench.turns import OURS, Outcome, Ratio


def heading(threads: int, peak: float) -> str:
    """The machine in a line."""
    return f"{platform.machine()}, {threads} threads, float32 product {peak / 1e9:.0f} GFLOP/s at its best"


def line(outcome: Outcome, peak: float) -> str:
    """One case: everybody's figure, then our ratio to the best peer, and to the best eager one beside it."""
    rows = [f"{outcome.case.name}, {outcome.case.unit}"]
    agreement = {contender.title: contender.agreement for contender in outcome.contenders}
    for title, speed in outcome.speeds.items():
        share = agreement[title]
        rows.append(f"  {title:36}{speed:>12,.0f}" + ("" if share is None else f"   same output {share:.0%}"))
    best, eager = outcome.ratio, outcome.eager_ratio
    rows += [_ratio(best)] if best is not None else ["  no peer is here to compare with"]
    if eager is not None and best is not None and (eager.ours, eager.theirs) != (best.ours, best.theirs):
        rows.append(_ratio(eager))
    if outcome.case.operations:
        share = outcome.case.operations / outcome.case.amount * outcome.speeds[OURS] / peak
        rows.append(f"  regard's share of the product's peak: {share:.0%}")
    return "\n".join(rows)


def _ratio(ratio: Ratio) -> str:
    low, high = ratio.quartiles
    spread = f"{ratio.median:.2f} (quartiles {low:.2f} to {high:.2f})"
    return f"  {ratio.ours} to {ratio.theirs}: {spread}"
