"""The course of a run as curves, from its metrics: what report and pictures both draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OBJECTIVE = "What training minimises, with label smoothing and R-Drop"
MOST_POINTS = 400  # of a curve; more would not be seen


@dataclass(frozen=True)
class Series:
    """One curve: where, how high, and whether its points are few enough to be marked."""

    name: str
    x: np.ndarray
    y: np.ndarray
    marked: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves that share their axes; `file` names the picture."""

    file: str
    title: str
    series: list[Series]


@dataclass(frozen=True)
class Course:
    """What happened in a run, in order."""

    charts: list[Chart]
    validations: list[dict[str, Any]]
    resumed: list[dict[str, Any]] = field(default_factory=list)
    finished: dict[str, Any] | None = None
    tokens: int = 0
    seconds: float = 0.0
    padding: float | None = None

    @property
    def best(self) -> dict[str, Any] | None:
        """The validation that made a checkpoint the best."""
        return next((found for found in reversed(self.validations) if found.get("is_best")), None)


def course_of(events: Sequence[dict[str, Any]]) -> Course:
    """The course that these events tell."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_kind.setdefault(event["event"], []).append(event)
    steps, validations = by_kind.get("step", []), by_kind.get("validation", [])
    return Course(
        charts=_charts(steps, validations),
        validations=validations,
        resumed=by_kind.get("resumed", []),
        finished=(by_kind.get("finished") or [None])[-1],
        tokens=sum(step["tokens"] for step in steps),
        seconds=sum(step["seconds"] for step in steps),
        padding=steps[-1].get("padding") if steps else None,
    )


def _charts(steps: list[dict[str, Any]], validations: list[dict[str, Any]]) -> list[Chart]:
    plain = [step for step in steps if "cross_entropy" in step]  # earlier versions did not write it
    other = len(plain) < len(steps) or any(step["cross_entropy"] != step["loss"] for step in plain)
    losses = [_mean(plain, "cross_entropy", "training"), *_scores(validations, ["loss"], "validation")]
    made = [
        Chart("loss", "Loss: cross-entropy", losses),
        Chart("objective", OBJECTIVE, [_mean(steps, "loss", "training")] if other else []),
        Chart("scores", "Validation scores", _scores(validations, ["bleu", "chrf", "accuracy"])),
        Chart("perplexity", "Validation perplexity", _scores(validations, ["perplexity"])),
        Chart("bits", "Bits per character", _scores(validations, ["bits_per_character"])),
        Chart("rate", "Learning rate", [_mean(steps, "rate", "rate")]),
        Chart("gradient", "Gradient norm, before clipping", [_mean(steps, "gradient_norm", "norm")]),
        Chart("speed", "Tokens per second", [_speed(steps)]),
    ]
    drawn = [Chart(one.file, one.title, [s for s in one.series if len(s.x)]) for one in made]
    return [chart for chart in drawn if chart.series]


def _mean(steps: list[dict[str, Any]], key: str, name: str) -> Series:
    """A figure of the steps, each point the mean of equally many."""
    parts = _parts(len(steps))
    x = [steps[part[-1]]["step"] for part in parts]
    y = [np.mean([steps[place][key] for place in part]) for part in parts]
    return Series(name, np.array(x, float), np.array(y, float))


def _speed(steps: list[dict[str, Any]]) -> Series:
    parts = _parts(len(steps))
    tokens = [sum(steps[place]["tokens"] for place in part) for part in parts]
    seconds = [sum(steps[place]["seconds"] for place in part) for part in parts]
    x = np.array([steps[part[-1]]["step"] for part in parts], float)
    return Series("tokens/s", x, np.array(tokens, float) / np.maximum(np.array(seconds, float), 1e-9))


def _parts(count: int) -> list[np.ndarray]:
    """The numbers below count in at most MOST_POINTS runs."""
    return [part for part in np.array_split(np.arange(count), min(count, MOST_POINTS) or 1) if len(part)]


def _scores(validations: list[dict[str, Any]], keys: Sequence[str], name: str | None = None) -> list[Series]:
    """A curve for each of these figures that was ever found."""
    found: list[Series] = []
    for key in keys:
        points = [(one["step"], one["scores"].get(key)) for one in validations]
        points = [(step, value) for step, value in points if value is not None]
        x, y = (np.array([point[axis] for point in points], float) for axis in (0, 1))
        found.append(Series(name or key.replace("_", " "), x, y, marked=True))
    return found
