"""The course of a run as the page draws it, read anew each time, so that a run that goes on is seen live.

Loads no torch.
"""

from __future__ import annotations

import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from regard.runs.metrics import read_metrics
from regard.service.locations import METRICS, RECIPE, Home

MOST = 1000  # points of a curve
SILENCE = 120.0  # seconds without a word after which a run counts as over


def course(home: Home) -> dict[str, Any]:
    """Loss, validations and snapshots of the run in a folder; nothing where there is none."""
    events = read_metrics(home.run / METRICS) if home.run else []
    steps = [event for event in events if event["event"] == "step"]
    validations = [event for event in events if event["event"] == "validation"]
    last, quantity = steps[-1]["step"] if steps else 0, _quantity(steps)
    return {
        "steps": thinned([(event["step"], event.get(quantity)) for event in steps]),
        "validations": [{"step": each["step"], **(each.get("scores") or {})} for each in validations],
        "snapshots": list(home.snapshots()),
        "live": home.run is not None and is_live(home.run, events),
        "total": total_steps(home.run) or last,
    }


def _quantity(steps: list[dict[str, Any]]) -> str:
    """What can be drawn beside the validation loss: the plain loss, which earlier versions did not write."""
    return "cross_entropy" if any("cross_entropy" in step for step in steps) else "loss"


def thinned(points: list[tuple[int, Any]], most: int = MOST) -> list[dict[str, Any]]:
    """At most so many points, each the mean of equally many and placed at the last of them."""
    if not points:
        return []
    steps = np.array([step for step, _ in points])
    values = np.array([np.nan if value is None else value for _, value in points], float)
    parts = np.array_split(np.arange(len(points)), min(len(points), most))
    return [{"step": int(steps[part[-1]]), "loss": float(values[part].mean())} for part in parts]


def is_live(run: Path, events: list[dict[str, Any]]) -> bool:
    """Whether a run seems to go on: it has not said that it finished, and has said something lately."""
    if not events or events[-1]["event"] == "finished":
        return False
    return time.time() - (run / METRICS).stat().st_mtime < SILENCE


def total_steps(run: Path | None) -> int | None:
    """How many steps a run is to have, from its settings."""
    try:
        told = tomllib.loads((run / RECIPE).read_text(encoding="utf-8")) if run else {}
        steps = told.get("training", {}).get("steps")
    except (OSError, ValueError, AttributeError):
        return None
    return steps if isinstance(steps, int) else None
