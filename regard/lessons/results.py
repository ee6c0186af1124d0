"""Results of lessons: run one, store it, read the stored ones. Reading loads no torch."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from regard.errors import UsageError, nearest
from regard.lessons.lesson import Experiment, Lesson, Result, Say

# In the order in which they are taught.
NAMES = (
    "six-steps", "scaling", "masking", "order", "positions", "similarity", "projections",
    "residuals", "norms",
)  # fmt: skip
STORED = files("regard.lessons").joinpath("results")
DIGITS = 6  # of stored numbers


def run(lesson: Lesson, say: Say) -> Result:
    """Run a lesson and its control."""
    begun = time.perf_counter()
    experiment = _experiment(lesson, say)
    control = _experiment(lesson.control(), lambda line: say(f"control: {line}"))
    return Result(
        name=lesson.name,
        claim=lesson.claim,
        experiment=experiment,
        control=control,
        seconds=round(time.perf_counter() - begun, 1),
        date=datetime.now(UTC).date().isoformat(),
        machine=_machine(),
        version=version("regard"),
        text=lesson.text(),
        places=list(lesson.places),
        tables=lesson.tables(experiment.measured),
    )


def _experiment(lesson: Lesson, say: Say) -> Experiment:
    measured = _rounded(lesson.measure(say))
    return Experiment(lesson.model_dump(mode="json"), measured, lesson.judge(measured))


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
