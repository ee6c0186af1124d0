"""Taking turns: contenders do the same work in one run, one after the other, again and again.

Machines are shared and noisy, so a speed means little and a ratio of neighbours in time a lot.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

OURS = "regard"
COMPILED = "compiled"


@dataclass(frozen=True)
class Contender:
    """Something that can do one piece of the work, and say how long it took where it keeps its own time.

    `setting` tells ways of running the same contender apart: it counts at its best. `agreement` is the
    share of its output that equals ours, where the work has an output that should.
    """

    name: str
    work: Callable[[], float | None]
    setting: str = ""
    agreement: float | None = None
    leave: Callable[[], object] = lambda: None

    @property
    def title(self) -> str:
        """Who it is and how it runs."""
        return f"{self.name} ({self.setting})" if self.setting else self.name

    @property
    def compiled(self) -> bool:
        """Whether torch.compile had a hand in it."""
        return self.setting == COMPILED


@dataclass(frozen=True)
class Case:
    """One shape of work: how much of what a piece of it is, who can do it, how many operations it takes."""

    name: str
    unit: str
    amount: float
    contenders: Callable[[], list[Contender]]
    operations: float = 0.0


@dataclass(frozen=True)
class Ratio:
    """One of ours over one of the peers, turn by turn."""

    ours: str
    theirs: str
    turns: list[float]

    @property
    def median(self) -> float:
        """The median over all turns of our speed over theirs in the same turn."""
        return statistics.median(self.turns)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Between them lies the middle half of the turns."""
        low, _, high = statistics.quantiles(self.turns, n=4)
        return low, high


@dataclass(frozen=True)
class Outcome:
    """What came of a case: how long every contender took at each of its turns."""

    case: Case
    contenders: list[Contender]
    seconds: dict[str, list[float]]

    @property
    def speeds(self) -> dict[str, float]:
        """Everybody's median speed, by title."""
        return {title: self.case.amount / statistics.median(taken) for title, taken in self.seconds.items()}

    @property
    def ratio(self) -> Ratio | None:
        """Our best over the best of the peers; None where no peer is there."""
        return self._to_the_best(self.contenders)

    @property
    def eager_ratio(self) -> Ratio | None:
        """The same among those that are not compiled."""
        return self._to_the_best([contender for contender in self.contenders if not contender.compiled])

    @property
    def ratios(self) -> dict[str, Ratio]:
        """Our best over every peer in each of its settings, by title."""
        ours = self._best([contender for contender in self.contenders if contender.name == OURS])
        return {c.title: self._ratio(ours, c.title) for c in self.contenders if c.name != OURS}

    def as_dict(self) -> dict[str, object]:
        """For programs: our figure, the peers' each at its best, and the ratio to the best of them."""
        found: dict[str, object] = {"case": self.case.name, "unit": self.case.unit}
        best = self._best_by_name()
        found |= {OURS: best.pop(OURS), "peers": best}
        for name, ratio in (("ratio", self.ratio), ("eager_ratio", self.eager_ratio)):
            found[name] = None if ratio is None else round(ratio.median, 3)
        if (ratio := self.ratio) is not None:
            found["spread"] = [round(edge, 3) for edge in ratio.quartiles]
        found["all"] = {title: round(speed, 1) for title, speed in self.speeds.items()}
        found["ratios"] = {title: round(ratio.median, 3) for title, ratio in self.ratios.items()}
        agreement = {c.title: round(c.agreement, 4) for c in self.contenders if c.agreement is not None}
        return found | ({"agreement": agreement} if agreement else {})

    def _best_by_name(self) -> dict[str, float]:
        best: dict[str, float] = {}
        for contender in self.contenders:
            speed = round(self.speeds[contender.title], 1)
            best[contender.name] = max(best.get(contender.name, 0.0), speed)
        return best

    def _to_the_best(self, some: list[Contender]) -> Ratio | None:
        ours = [contender for contender in some if contender.name == OURS]
        theirs = [contender for contender in some if contender.name != OURS]
        return self._ratio(self._best(ours), self._best(theirs)) if theirs else None

    def _best(self, some: list[Contender]) -> str:
        return max((contender.title for contender in some), key=self.speeds.__getitem__)

    def _ratio(self, ours: str, theirs: str) -> Ratio:
        pairs = zip(self.seconds[ours], self.seconds[theirs], strict=True)
        return Ratio(ours, theirs, [slow / fast for fast, slow in pairs])


def take_turns(case: Case, turns: int = 9, clock: Callable[[], float] = time.perf_counter) -> Outcome:
    """Let all contenders of a case do the work in turns, after two pieces each to get warm."""
    contenders = case.contenders()
    seconds: dict[str, list[float]] = {contender.title: [] for contender in contenders}
    try:
        for contender in contenders:
            contender.work()
            contender.work()
        for turn in range(turns):
            for contender in _rotated(contenders, turn):  # nobody always follows the same neighbour
                seconds[contender.title].append(_timed(contender, clock))
    finally:
        for contender in contenders:
            contender.leave()
    return Outcome(case, contenders, seconds)


def _timed(contender: Contender, clock: Callable[[], float]) -> float:
    started = clock()
    own = contender.work()
    return clock() - started if own is None else own


def _rotated(contenders: list[Contender], turn: int) -> Iterator[Contender]:
    start = turn % len(contenders)
    yield from contenders[start:]
    yield from contenders[:start]
