"""Outcomes as text that a person reads."""

from __future__ import annotations

import platform

from regard.bench.turns import OURS, Contender, Outcome, Ratio


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
