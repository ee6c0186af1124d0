"""The devices on which torch can compute."""

from __future__ import annotations

import torch

from regard.errors import SettingError


def available_devices() -> list[str]:
    """The devices of this machine, the fastest first."""
    accelerators = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return [*(name for name, is_available in accelerators.items() if is_available), "cpu"]


def find_device(name: str) -> str:
    """The name of a usable device; "auto" is the fastest. Raise if the device cannot be used."""
    if name == "auto":
        return available_devices()[0]
    try:
        torch.empty(0, device=torch.device(name))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).split("\n")[0].split(". ")[0]
        raise SettingError(f"device ({name}) cannot be used: {reason}; see regard doctor") from None
    return name
