"""The curves of a run for the page, read on at each request, so that a running run is live.

Imports no torch.
"""

from __future__ import annotations

import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from regard.checkpoints.locations import METRICS, RECIPE, ModelLocation
from regard.opener import read_regular
from regard.service.metrics_reader import metrics_of

LARGEST_RECIPE = 1 << 20  # bytes
MOST = 1000  # points of a curve
SILENCE = 120.0  # seconds without an event after which a run counts as ended


def training_curves(location: ModelLocation) -> dict[str, Any]:
    """Loss, validations and snapshots of a run; empty without one."""
    events = metrics_of(location.run).read() if location.run else []
    steps = [event for event in events if event["event"] == "step"]
    validations = [event for event in events if event["event"] == "validation"]
    last, quantity = steps[-1]["step"] if steps else 0, _quantity(steps)
    return {
        "steps": thin_out([(event["step"], event.get(quantity)) for event in steps]),
        "validations": [{"step": each["step"], **(each.get("scores") or {})} for each in validations],
        "snapshots": list(location.snapshots()),
        "live": location.run is not None and is_live(location.run, events),
        "total": total_steps(location.run) or last,
    }


def _quantity(steps: list[dict[str, Any]]) -> str:
    """The key of the loss without label smoothing, which is comparable with the validation loss.

    Earlier versions did not write it.
    """
    return "cross_entropy" if any("cross_entropy" in step for step in steps) else "loss"


def thin_out(points: list[tuple[int, Any]], most: int = MOST) -> list[dict[str, Any]]:
    """At most this many points; each is the mean of a group of steps and has the group's last step."""
    if not points:
        return []
    steps = np.array([step for step, _ in points])
    values = np.array([np.nan if value is None else value for _, value in points], float)
    parts = np.array_split(np.arange(len(points)), min(len(points), most))
    return [{"step": int(steps[part[-1]]), "loss": float(values[part].mean())} for part in parts]


def is_live(run: Path, events: list[dict[str, Any]]) -> bool:
    """Whether a run seems to be running: it has not finished and wrote an event recently."""
    if not events or events[-1]["event"] == "finished":
        return False
    return time.time() - (run / METRICS).stat().st_mtime < SILENCE


def total_steps(run: Path | None) -> int | None:
    """The number of steps in the recipe of a run."""
    try:
        recipe = tomllib.loads(read_regular(run / RECIPE, LARGEST_RECIPE).decode()) if run else {}
        steps = recipe.get("training", {}).get("steps")
    except (OSError, ValueError, AttributeError):
        return None
    return steps if isinstance(steps, int) else None
