"""Taking turns: contenders do the same work in one process, one after the other, again and again.

Machines are shared and noisy, so a speed means little and a ratio of neighbours in time a lot.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

OURS = "regard"


@dataclass(frozen=True)
class Contender:
    """Something that can do one piece of the work."""

    name: str
    work: Callable[[], object]
    compiled: bool = False


@dataclass(frozen=True)
class Case:
    """One shape of work: how much of what a piece of it is, who can do it, how many operations it takes."""

    name: str
    unit: str
    amount: float
    contenders: Callable[[], list[Contender]]
    operations: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What came of a case: speeds by median, and the ratio to the best eager peer, turn by turn."""

    case: Case
    speeds: dict[str, float]
    compiled: dict[str, float]
    ratios: list[float]
    best: str

    @property
    def ratio(self) -> float:
        """The median over all turns of our speed over the best peer's in the same turn."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles of that ratio."""
        low, _, high = statistics.quantiles(self.ratios, n=4)
        return low, high

    def as_dict(self) -> dict[str, object]:
        """For programs: regard's figure, its peers', and the ratio of ours to the best of them."""
        peers = {name: round(speed, 1) for name, speed in self.speeds.items() if name != OURS}
        return {
            "case": self.case.name,
            "unit": self.case.unit,
            "regard": round(self.speeds[OURS], 1),
            "peers": peers,
            "ratio": round(self.ratio, 3),
            "spread": [round(edge, 3) for edge in self.spread],
            "compiled": {name: round(speed, 1) for name, speed in self.compiled.items()},
        }


def take_turns(case: Case, turns: int = 9, clock: Callable[[], float] = time.perf_counter) -> Outcome:
    """Let all contenders of a case do the work in turns, after two pieces each to get warm."""
    contenders = case.contenders()
    for contender in contenders:
        contender.work()
        contender.work()
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for turn in range(turns):
        for contender in _rotated(contenders, turn):  # nobody always follows the same neighbour
            started = clock()
            contender.work()
            seconds[contender.name].append(clock() - started)
    return _outcome(case, contenders, seconds)


def _rotated(contenders: list[Contender], turn: int) -> Iterator[Contender]:
    start = turn % len(contenders)
    yield from contenders[start:]
    yield from contenders[:start]


def _outcome(case: Case, contenders: list[Contender], seconds: dict[str, list[float]]) -> Outcome:
    speeds = {name: case.amount / statistics.median(taken) for name, taken in seconds.items()}
    eager = {c.name: speeds[c.name] for c in contenders if not c.compiled}
    compiled = {c.name: speeds[c.name] for c in contenders if c.compiled}
    best = max((name for name in eager if name != OURS), key=eager.__getitem__)
    ratios = [theirs / ours for theirs, ours in zip(seconds[best], seconds[OURS], strict=True)]
    return Outcome(case, eager, compiled, ratios, best)
