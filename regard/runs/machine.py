"""Threads and device of a run, and the versions that it used."""

from __future__ import annotations

import platform
import sys
import time
from importlib.metadata import version
from typing import Any

import torch

from regard import ranks
from regard.engine.device import find_device
from regard.runs.tables import TrainingTable

WORTH_TRYING = 1.2  # speed of a bfloat16 product, in times of float32; a whole step gains less


def settle(training: TrainingTable) -> TrainingTable:
    """Set the number of threads and return the settings with the values that were chosen."""
    if training.threads:
        torch.set_num_threads(training.threads)
    return training.changed(threads=torch.get_num_threads(), device=find_device(training.device))


def with_precision(training: TrainingTable, is_given: bool = True) -> tuple[TrainingTable, list[str]]:
    """`auto` replaced by float32 where bfloat16 is slow, and a line about bfloat16 where it was asked for.

    Where its products are fast, `auto` stays until steps of the run have been measured (timing.py). With
    `minutes`, a precision that is not given is `auto`.
    """
    if training.minutes is not None and not is_given:
        training = training.changed(precision="auto")
    if training.precision == "float32":
        return training, []
    ratio = ranks.share(half_speed(training.device))
    speed = f"bfloat16 computes {ratio:.2g} times as fast as float32 here"
    if training.precision == "auto":
        if ratio >= WORTH_TRYING:
            return training, []
        return training.changed(precision="float32"), [f"precision float32: {speed}"]
    is_slow = ratio < 1
    return training, [f"{speed}; set training.precision to float32"] if is_slow else []


def half_speed(device: str, side: int = 512) -> float:
    """The speed of a matrix product in bfloat16, in times of that in float32."""
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        matrix = torch.ones(side, side, device=device, dtype=dtype)
        times = []
        for _ in range(4):
            start = time.perf_counter()
            (matrix @ matrix)[0, 0].item()
            times.append(time.perf_counter() - start)
        seconds[dtype] = min(times)
    return seconds[torch.float32] / seconds[torch.bfloat16]


def facts(training: TrainingTable) -> dict[str, Any]:
    """The machine and the versions that a run used."""
    return {
        "regard": version("regard"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": training.threads,
        "device": training.device,
        "seed": training.seed,
        "command": " ".join(sys.argv),
    }
