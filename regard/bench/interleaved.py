"""Interleaved measurement: all implementations do the same work in alternation, within one run.

On a shared machine speeds vary, but the ratio of two measurements taken one after the other is stable.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

OURS = "regard"
COMPILED = "compiled"


@dataclass(frozen=True)
class Implementation:
    """One library or setting that does the work of a case.

    `work` does one unit of work and returns its seconds, or None to be timed by the caller. `setting`
    distinguishes settings of the same library; the best one is reported. `agreement` is the share of the
    output that equals ours, if outputs are comparable. Of a process of its own, `memory` is the resident
    memory in bytes beyond a bare interpreter, and `start` the seconds from its start to its first output.
    """

    name: str
    work: Callable[[], float | None]
    setting: str = ""
    agreement: float | None = None
    close: Callable[[], object] = lambda: None
    memory: int | None = None
    start: float | None = None

    @property
    def title(self) -> str:
        """The name with the setting."""
        return f"{self.name} ({self.setting})" if self.setting else self.name

    @property
    def compiled(self) -> bool:
        """Whether it runs under torch.compile."""
        return self.setting == COMPILED


@dataclass(frozen=True)
class Case:
    """One shape of work: the amount and unit of one piece, its implementations and arithmetic operations.

    `reads` are the weights that a unit of work reads once each, where reading them limits the speed.
    """

    name: str
    unit: str
    amount: float
    implementations: Callable[[], list[Implementation]]
    operations: float = 0.0
    reads: float = 0.0


@dataclass(frozen=True)
class Ratio:
    """Our speed divided by a peer's, in each round."""

    ours: str
    theirs: str
    rounds: list[float]

    @property
    def median(self) -> float:
        """The median of the ratios of all rounds."""
        return statistics.median(self.rounds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and third quartile of the ratios."""
        low, _, high = statistics.quantiles(self.rounds, n=4)
        return low, high


@dataclass(frozen=True)
class Outcome:
    """The measurements of a case: seconds of each implementation in each round."""

    case: Case
    implementations: list[Implementation]
    seconds: dict[str, list[float]]

    @property
    def speeds(self) -> dict[str, float]:
        """The median speed of each implementation, by title."""
        return {title: self.case.amount / statistics.median(taken) for title, taken in self.seconds.items()}

    @property
    def ratio(self) -> Ratio | None:
        """Our best implementation relative to the best peer; None without peers."""
        return self._best_ratio(self.implementations)

    @property
    def eager_ratio(self) -> Ratio | None:
        """The same without compiled implementations."""
        return self._best_ratio(
            [implementation for implementation in self.implementations if not implementation.compiled]
        )

    @property
    def ratios(self) -> dict[str, Ratio]:
        """Our best implementation relative to each peer in each setting, by title."""
        ours = self._best(
            [implementation for implementation in self.implementations if implementation.name == OURS]
        )
        return {c.title: self._ratio(ours, c.title) for c in self.implementations if c.name != OURS}

    def as_dict(self) -> dict[str, object]:
        """Our speed, the best speed of each peer, and the ratio to the best peer."""
        values: dict[str, object] = {"case": self.case.name, "unit": self.case.unit}
        best = self._best_by_name()
        values |= {OURS: best.pop(OURS), "peers": best}
        for name, ratio in (("ratio", self.ratio), ("eager_ratio", self.eager_ratio)):
            values[name] = None if ratio is None else round(ratio.median, 3)
        if (ratio := self.ratio) is not None:
            values["spread"] = [round(edge, 3) for edge in ratio.quartiles]
        values["all"] = {title: round(speed, 1) for title, speed in self.speeds.items()}
        values["ratios"] = {title: round(ratio.median, 3) for title, ratio in self.ratios.items()}
        agreement = {c.title: round(c.agreement, 4) for c in self.implementations if c.agreement is not None}
        memory = {c.title: c.memory for c in self.implementations if c.memory is not None}
        start = {c.title: round(c.start, 3) for c in self.implementations if c.start is not None}
        optional = {"agreement": agreement, "memory": memory, "start": start}
        return values | {name: figures for name, figures in optional.items() if figures}

    def _best_by_name(self) -> dict[str, float]:
        best: dict[str, float] = {}
        for implementation in self.implementations:
            speed = round(self.speeds[implementation.title], 1)
            best[implementation.name] = max(best.get(implementation.name, 0.0), speed)
        return best

    def _best_ratio(self, candidates: list[Implementation]) -> Ratio | None:
        ours = [implementation for implementation in candidates if implementation.name == OURS]
        theirs = [implementation for implementation in candidates if implementation.name != OURS]
        return self._ratio(self._best(ours), self._best(theirs)) if theirs else None

    def _best(self, candidates: list[Implementation]) -> str:
        return max((implementation.title for implementation in candidates), key=self.speeds.__getitem__)

    def _ratio(self, ours: str, theirs: str) -> Ratio:
        pairs = zip(self.seconds[ours], self.seconds[theirs], strict=True)
        return Ratio(ours, theirs, [slow / fast for fast, slow in pairs])


def run_interleaved(case: Case, rounds: int = 9, clock: Callable[[], float] = time.perf_counter) -> Outcome:
    """Measure all implementations of a case in alternation, after two warm-up calls each."""
    implementations = case.implementations()
    seconds: dict[str, list[float]] = {implementation.title: [] for implementation in implementations}
    try:
        for implementation in implementations:
            implementation.work()
            implementation.work()
        for number in range(rounds):
            for implementation in _rotate(implementations, number):  # so that the order varies
                seconds[implementation.title].append(_time(implementation, clock))
    finally:
        for implementation in implementations:
            implementation.close()
    return Outcome(case, implementations, seconds)


def _time(implementation: Implementation, clock: Callable[[], float]) -> float:
    started = clock()
    seconds = implementation.work()
    return clock() - started if seconds is None else seconds


def _rotate(implementations: list[Implementation], number: int) -> Iterator[Implementation]:
    start = number % len(implementations)
    yield from implementations[start:]
    yield from implementations[:start]
