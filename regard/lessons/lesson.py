"""What a lesson is: a claim, an experiment with fixed settings, and a verdict computed from a threshold.

A lesson is a subclass of Lesson. Its class variables state the claim and the experiment in words. Its fields
are the settings of the experiment, thresholds included, so that they are fixed before a run. `control` gives
the settings of an experiment in which the verdict must be the opposite. Loads no torch.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import model_validator

from regard.errors import UsageError
from regard.inspection.render.page_state import PageState
from regard.settings import Settings

TEXTS = ("question", "variable", "measurement", "rule", "control_words")
EQUAL = ", which is no difference"  # after two numbers whose difference is smaller than the spread
Say = Callable[[str], None]  # reports the progress of a run, one line at a time


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, the words for it ("holds", "does not hold", "holds if ...") and the reason."""

    holds: bool
    reason: str
    condition: str = ""
    depends_on_seed: bool = False

    @property
    def words(self) -> str:
        """The verdict in words."""
        words = "holds" if self.holds else "does not hold"
        if self.holds and self.condition:
            words += f" if {self.condition}"
        return f"{words} (depends on the seed)" if self.depends_on_seed else words


@dataclass(frozen=True)
class Table:
    """Numbers of a lesson as rows; a cell is a text or a number."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Series:
    """One line or group of bars; low and high are the spread, over seeds or over rounds of timing."""

    name: str
    x: tuple[Any, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A chart as data: lines, bars, a heat map or an image.

    kind         "lines", "bars", "heat" or "image"
    cell         what the colours of a heat map are
    series       the lines, the groups of bars, or the rows of the heat map or image
    reference    a horizontal line with its label: chance, or the threshold
    """

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    kind: str = "lines"
    log_x: bool = False
    log_y: bool = False
    reference: tuple[float, str] | None = None
    cell: str = ""


@dataclass(frozen=True)
class See:
    """What else shows the idea of a lesson: a sentence with a command, a state of the studio's page, or both.

    view         the address of a PageState; one that the page does not have raises an error
    """

    text: str
    command: str = ""
    view: str = ""

    def __post_init__(self) -> None:
        if not (self.command or self.view):
            raise UsageError(f"{self.text!r} names no command and no view; name one")
        if self.view:
            PageState.of(self.view)

    @property
    def ways(self) -> tuple[str, ...]:
        """The command, and the address on the studio's server."""
        return tuple(filter(None, (self.command, self.view and f"/studio#{self.view}")))


class Spread(NamedTuple):
    """Mean, lowest and highest value over seeds; median and quartiles of times."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of one value per seed."""
        low, high = float(np.min(values)), float(np.max(values))
        return cls(float(np.clip(np.mean(values), low, high)), low, high)  # the mean of equals is rounded

    @classmethod
    def of_times(cls, values: Sequence[float]) -> Spread:
        """The spread of times, or of ratios of times, of which single ones are far off."""
        low, middle, high = np.percentile(values, (25, 50, 75))
        return cls(float(middle), float(low), float(high))

    @classmethod
    def compare(cls, first: Sequence[float], second: Sequence[float]) -> str:
        """Two means with their ranges over seeds, and whether they differ, for the end of a sentence."""
        words = " and ".join(cls.of(values).write() for values in (first, second))
        return words if difference(first, second) else f"{words}{EQUAL}"

    def write(self, form: str = ".2f") -> str:
        """The middle with its range: 0.91 (0.89 to 0.94); without it where all digits are equal."""
        middle, low, high = (f"{value:{form}}" for value in self)
        return middle if middle == low == high else f"{middle} ({low} to {high})"


def difference(first: Sequence[float], second: Sequence[float]) -> float:
    """The difference of two means; 0 if it is smaller than the larger of the two ranges over seeds."""
    gap = float(np.mean(first) - np.mean(second))
    return gap if abs(gap) > max(np.ptp(first), np.ptp(second)) else 0.0


def series(
    name: str, x: Sequence[Any], runs: Sequence[Sequence[float]], spread: Callable[..., Spread] = Spread.of
) -> Series:
    """A line or bars with their spread, from the values of all seeds, or the times of all rounds, by x."""
    middle, low, high = (tuple(column) for column in zip(*map(spread, runs), strict=True))
    return Series(name, tuple(x), middle, low, high)


def heat(
    title: str,
    x: str,
    y: str,
    values: Sequence[Sequence[float]],
    cell: str,
    rows: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
) -> Chart:
    """A heat map of a matrix of `cell`; rows and columns are numbered if they have no names."""
    across = tuple(range(len(values[0]))) if columns is None else tuple(columns)
    names = range(len(values)) if rows is None else rows
    lines = tuple(Series(str(name), across, tuple(row)) for name, row in zip(names, values, strict=True))
    return Chart(title, x, y, lines, kind="heat", cell=cell)


def image(title: str, pixels: Sequence[Sequence[Sequence[float]]]) -> Chart:
    """An image of rows of pixels, each red, green and blue from 0 to 1."""
    across = tuple(range(len(pixels[0])))
    rows = tuple(
        Series(str(number), across, tuple(part for pixel in row for part in pixel))
        for number, row in enumerate(pixels)
    )
    return Chart(title, "pixel", "pixel", rows, kind="image")


class Lesson(Settings):
    """One claim of the lectures as an experiment; the fields are its settings."""

    name: ClassVar[str]
    lecture_rows: ClassVar[tuple[str, ...]]  # rows of docs/lectures.md
    claim: ClassVar[str]
    question: ClassVar[str]
    variable: ClassVar[str]  # what is changed
    measurement: ClassVar[str]
    rule: ClassVar[str]  # when the claim holds, with the threshold
    control_words: ClassVar[str]  # how the control differs
    places: ClassVar[tuple[See, ...]] = ()
    cases: ClassVar[tuple[str, ...]] = ()  # numbers by case, with a list of all seeds in each case
    is_timed: ClassVar[bool] = False  # whether it measures time, so that nothing may run beside it

    def text(self) -> dict[str, str]:
        """The experiment in words, by the names of the class variables; a `setting` has its value."""
        values = self.model_dump()

        def with_value(name: re.Match[str]) -> str:
            return f"{name[0]} ({values[name[1]]})" if name[1] in values else name[0]

        return {name: re.sub(r"`(\w+)`", with_value, getattr(self, name)) for name in TEXTS}

    @model_validator(mode="before")
    @classmethod
    def _as_tuples(cls, values: Any) -> Any:
        """Lists as tuples: TOML and JSON have only lists."""
        return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        """Refuse a list without entries, and a whole number below 1 that is not a seed."""
        for name, value in self:
            if value == ():
                raise ValueError(f"{name} is empty; give it at least one value")
            numbers = value if isinstance(value, tuple) else (value,)
            low = min((one for one in numbers if type(one) is int), default=1)
            if low < (name != "seeds"):
                raise ValueError(f"{name} ({low}) must be at least {int(name != 'seeds')}")
        return self

    @abstractmethod
    def measure(self, say: Say) -> dict[str, Any]:
        """Run the experiment; the numbers, as JSON values."""

    @abstractmethod
    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Compare the numbers with the threshold."""

    def verdict(self, measured: dict[str, Any]) -> Verdict:
        """Judge the numbers; the verdict says so if single seeds are judged differently."""
        verdict, seeds = self.judge(measured), getattr(self, "seeds", ())
        alone = [
            self.changed(seeds=(seed,)).judge(self.of_seed(measured, number)).holds
            for number, seed in enumerate(seeds)
        ]
        if len(set(alone)) < 2:
            return verdict
        share = f"Judged by one seed alone, the claim holds for {sum(alone)} of {len(alone)} seeds."
        return replace(verdict, depends_on_seed=True, reason=f"{verdict.reason} {share}")

    def of_seed(self, measured: Any, number: int, has_cases: bool = False) -> Any:
        """The numbers of one seed: every list with an entry for each seed has one entry.

        The entries of a list of `cases` are no seeds, even if there are as many.
        """
        if isinstance(measured, dict):
            return {
                name: self.of_seed(value, number, has_cases or name in self.cases)
                for name, value in measured.items()
            }
        if not isinstance(measured, list):
            return measured
        if not has_cases and len(measured) == len(getattr(self, "seeds", ())):
            return [measured[number]]
        return [self.of_seed(value, number) for value in measured]

    @abstractmethod
    def control(self) -> Self:
        """The same experiment with settings for which the verdict must be the opposite."""

    @abstractmethod
    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """The numbers that decide, and those that explain."""

    @abstractmethod
    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """The figure of the lesson: one chart or several side by side."""


@dataclass(frozen=True)
class Experiment:
    """One run of a lesson's settings: the numbers and the verdict."""

    settings: dict[str, Any]
    measured: dict[str, Any]
    verdict: Verdict

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Experiment:
        """The experiment of `asdict`."""
        return cls(values["settings"], values["measured"], Verdict(**values["verdict"]))


@dataclass(frozen=True)
class Result:
    """The stored result of a lesson and of its control, with the machine that measured it."""

    name: str
    claim: str
    experiment: Experiment
    control: Experiment
    seconds: float  # of one core; unlike the time on a clock, it does not depend on other processes
    date: str
    machine: str
    version: str
    text: dict[str, str] = field(default_factory=dict)  # the experiment in words
    places: list[See] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    @property
    def is_controlled(self) -> bool:
        """Whether the control has the opposite verdict."""
        return self.experiment.verdict.holds != self.control.verdict.holds

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        values = {**asdict(self), "places": [astuple(place) for place in self.places]}
        values["verdict"] = self.experiment.verdict.words
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Result:
        """The result of `as_dict`."""
        tables = [
            Table(one["title"], tuple(one["columns"]), tuple(map(tuple, one["rows"])))
            for one in values["tables"]
        ]
        plain = ("name", "claim", "seconds", "date", "machine", "version", "text")
        return cls(
            **{name: values[name] for name in plain},
            experiment=Experiment.from_dict(values["experiment"]),
            control=Experiment.from_dict(values["control"]),
            places=[See(*place) for place in values["places"]],
            tables=tables,
        )
