"""Results of lessons: run one, store it, read the stored ones. Reading loads no torch."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from regard.errors import UsageError, nearest
from regard.lessons.lesson import Experiment, Lesson, Result, Say

# In the order in which they are taught.
NAMES = (
    "six-steps", "scaling", "masking", "order", "positions", "similarity", "projections", "heads",
    "feed-forward", "residuals", "norms", "recurrence", "families", "temperature", "pretraining",
    "overfitting", "growth", "context", "cost", "meaning", "patches", "captions",
)  # fmt: skip
STORED = files("regard.lessons").joinpath("results")
DIGITS = 6  # of stored numbers


def run_experiment(lesson: Lesson, say: Say) -> tuple[Experiment, float]:
    """Run a lesson's settings, and the seconds of a core that it took.

    It computes with one thread, so that the numbers do not depend on the cores.
    """
    from regard.lessons.experiment import one_thread

    begun = time.process_time()
    with one_thread():
        measured = _rounded(lesson.measure(say))
    experiment = Experiment(lesson.model_dump(mode="json"), measured, lesson.verdict(measured))
    return experiment, time.process_time() - begun


def result_of(lesson: Lesson, experiment: Experiment, control: Experiment, seconds: float) -> Result:
    """The result of an experiment and its control, measured today on this machine."""
    return Result(
        name=lesson.name,
        claim=lesson.claim,
        experiment=experiment,
        control=control,
        seconds=round(seconds, 1),
        date=datetime.now(UTC).date().isoformat(),
        machine=_machine(),
        version=version("regard"),
        text=lesson.text(),
        places=list(lesson.places),
        tables=lesson.tables(experiment.measured),
    )


def refreshed(stored: Result, lesson: Lesson) -> Result:
    """A result with the words, tables and verdicts of the present code; raises if the settings differ."""
    experiment, control = (
        _judged_again(part, of, lesson.name)
        for part, of in ((stored.experiment, lesson), (stored.control, lesson.control()))
    )
    return replace(
        stored,
        claim=lesson.claim,
        experiment=experiment,
        control=control,
        text=lesson.text(),
        places=list(lesson.places),
        tables=lesson.tables(experiment.measured),
    )


def _judged_again(experiment: Experiment, lesson: Lesson, name: str) -> Experiment:
    if experiment.settings != lesson.model_dump(mode="json"):
        raise UsageError(f"{name} was stored with other settings; run docs/lessons.py {name}")
    return replace(experiment, verdict=lesson.verdict(experiment.measured))


def stored_result(name: str) -> Result | None:
    """The result that the package stores, or None if the lesson has not been run for it."""
    check_name(name)
    file = STORED.joinpath(f"{name}.json")
    return Result.from_dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


def stored_figure(name: str) -> str:
    """The stored figure as SVG."""
    return STORED.joinpath(f"{name}.svg").read_text(encoding="utf-8")


def write_result(result: Result, figure: str, folder: Path) -> None:
    """Write NAME.json and NAME.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result.as_dict(), ensure_ascii=False, indent=1)
    (folder / f"{result.name}.json").write_text(text + "\n", encoding="utf-8")
    (folder / f"{result.name}.svg").write_text(figure, encoding="utf-8")


def check_name(name: str) -> None:
    """Raise if there is no lesson of that name."""
    if name not in NAMES:
        raise UsageError(f"unknown lesson {name!r}; {nearest(name, NAMES)}")


def _rounded(value: Any) -> Any:
    """JSON values with DIGITS significant digits; verdicts are computed from these."""
    if isinstance(value, dict):
        return {str(name): _rounded(one) for name, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _machine() -> str:
    """The processor and its number of cores."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores"
