"""Where a run computes: threads, device, and what else a reader of its results wants to know."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from typing import Any

import torch

from regard.errors import SettingError
from regard.runs.tables import TrainingTable


def settle(training: TrainingTable) -> TrainingTable:
    """Set threads as the run wants them and give the settings with what was decided for it."""
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


def find_device(wanted: str) -> str:
    """A device that can be used; "auto" is the best that is here."""
    if wanted == "auto":
        found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        return next((name for name, there in found.items() if there), "cpu")
    try:
        device = torch.device(wanted)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0].split(". ")[0]
        raise SettingError(f"device ({wanted}) cannot be used: {reason}; try cpu") from None
    return wanted
