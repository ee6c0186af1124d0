"""Which folder a path means: a model folder, the model of a run, or its newest snapshot. Imports no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from regard.checkpoints.atomic_folders import MANIFEST, readable_folder

METRICS, RECIPE = "metrics.jsonl", "recipe.toml"  # files of a run; the recipe is there from its start


@dataclass(frozen=True)
class ModelLocation:
    """The folder of a model, and that of its run if known."""

    model: Path
    run: Path | None = None

    @property
    def is_underway(self) -> bool:
        """Whether the run has not saved its model yet and a snapshot is used instead."""
        return self.run is not None and self.model.parent == self.run / "weights"

    def snapshots(self) -> dict[int, Path]:
        """The snapshots of the run by step, in order; read from disk at each call."""
        folders = (self.run / "weights").glob("step-*") if self.run else ()
        by_step = {int(path.name[5:]): path for path in folders if path.name[5:].isdecimal()}
        return {step: by_step[step] for step in sorted(by_step) if (by_step[step] / MANIFEST).is_file()}


def locate_model(path: str | Path) -> ModelLocation | None:
    """The model that a path means; None if there is none.

    A run means its model, or its newest snapshot until it has saved one.
    """
    path = Path(path)
    if has_file(readable_folder(path), MANIFEST):
        around = path.absolute().parent
        is_run = path.absolute().name == "model" and has_file(around, METRICS)
        return ModelLocation(path, around if is_run else None)
    if has_file(readable_folder(path / "model"), MANIFEST):
        return ModelLocation(path / "model", path)
    snapshots = list(ModelLocation(path, path).snapshots().values())
    return ModelLocation(snapshots[-1], path) if snapshots else None


def has_file(folder: Path, name: str) -> bool:
    """Whether a folder has an entry of that name, also if it is a broken link."""
    try:
        return os.path.lexists(folder / name)
    except (OSError, ValueError):
        return False
