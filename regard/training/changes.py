"""What a resumed run has otherwise than its checkpoint: what may change is logged, the rest is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import CheckpointError, SettingError
from regard.training.settings import MAY_CHANGE, TrainingSettings


@dataclass(frozen=True)
class Changes:
    """Changes that a resumed run may have."""

    permitted: Sequence[str] = ()  # a line each: "training.steps 200, now 400"
    best_is_void: str = ""  # why the best validation so far cannot be compared with later ones


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """What two tables of values say differently, by name: {"model.width": "model.width 128, now 256"}.

    Both have every setting with its value: whoever reads a table that an earlier version wrote gives the
    settings that it lacks their defaults.
    """
    old, new = _flat(saved), _flat(now)
    return {
        name: f"{name} {_shown(old.get(name))}, now {_shown(new.get(name))}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    }


def refused(changes: Mapping[str, str], may_change: Collection[str]) -> str:
    """The changes that make another run, as one line; empty where there is none."""
    return "; ".join(line for name, line in changes.items() if name not in may_change)


def changed_settings(folder: Path, saved: Any, now: TrainingSettings) -> Changes:
    """What may change and did since the settings of a checkpoint; anything else is refused with a diff."""
    try:
        before = TrainingSettings.read(saved)
    except SettingError as error:
        raise CheckpointError(f"the settings in {folder} cannot be read: {error}") from None
    changes = differences(before.model_dump(), now.model_dump())
    if found := refused(changes, MAY_CHANGE):
        raise CheckpointError(
            f"{folder} was trained with other settings: {found}; a resumed run may change "
            f"{', '.join(MAY_CHANGE)}; for anything else start a new run"
        )
    return Changes(list(changes.values()))


def _flat(values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{path}{key}.") if isinstance(value, Mapping) else {f"{path}{key}": value}
    return found


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value)
