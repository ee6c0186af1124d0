"""The devices on which torch can compute."""

from __future__ import annotations

import torch

from regard.errors import SettingError
from regard.ranks import world


def available_devices() -> list[str]:
    """The devices of this machine, the fastest first."""
    accelerators = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return [*(name for name, is_available in accelerators.items() if is_available), "cpu"]


def find_device(name: str) -> str:
    """The name of a usable device; "auto" is the fastest. Raise if the device cannot be used.

    With torchrun, "cuda" is another device in each process of a machine.
    """
    here = world()
    if name == "auto":
        name = available_devices()[0]
    if here.size > 1 and name not in ("cpu", "cuda"):
        raise SettingError(f"device ({name}) cannot be shared by {here.size} processes; give cpu or cuda")
    try:
        if here.size > 1 and name == "cuda":
            torch.cuda.set_device(here.local_rank)
        torch.empty(0, device=torch.device(name))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).split("\n")[0].split(". ")[0]
        raise SettingError(f"device ({name}) cannot be used: {reason}; see regard doctor") from None
    return name
