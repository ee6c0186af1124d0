"""Threads and device of a run, and the versions that it used."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from typing import Any

import torch

from regard.engine.device import find_device
from regard.runs.tables import TrainingTable


def settle(training: TrainingTable) -> TrainingTable:
    """Set the number of threads and return the settings with the values that were chosen."""
    if training.threads:
        torch.set_num_threads(training.threads)
    return training.changed(threads=torch.get_num_threads(), device=find_device(training.device))


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
