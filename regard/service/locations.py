"""The files of a model: its folder, the folder of its run, and snapshots. Imports no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.checkpoints.atomic_folders import MANIFEST, readable_folder
from regard.checkpoints.untrusted_files import read_json
from regard.demo.story.model_store import FACTS, RECIPES
from regard.errors import CheckpointError, UsageError

METRICS, RECIPE = "metrics.jsonl", "recipe.toml"


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

    def facts(self) -> dict[str, Any] | None:
        """The facts of a demo model; None for any other."""
        if self.run is None or not (self.run / FACTS).is_file():
            return None
        try:
            facts = read_json(self.run / FACTS)
        except CheckpointError:
            return None
        words = facts.get("words")
        is_valid = isinstance(words, list) and all(isinstance(word, str) for word in words)
        return facts if facts.get("name") in RECIPES and is_valid else None


def find_location(path: Path) -> ModelLocation:
    """The location of a model folder, of a run, or of a running run with a snapshot."""
    if (path / MANIFEST).is_file():
        around = path.absolute().parent
        is_run = path.absolute().name == "model" and (around / METRICS).is_file()
        return ModelLocation(path, around if is_run else None)
    if (readable_folder(path / "model") / MANIFEST).is_file():
        return ModelLocation(path / "model", path)
    kept = list(ModelLocation(path, path).snapshots().values())
    if kept:
        return ModelLocation(kept[-1], path)
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder; pass that of a model or a run, or none for the demo")
    raise UsageError(f"{path} contains no model saved by regard; pass the folder of a model or a run")


def name_of(path: Path, taken: set[str]) -> str:
    """A unique short name of a folder: its last component, or that of its run."""
    whole = path.absolute()
    component = whole.parent.name if whole.name == "model" and whole.parent.name else whole.name
    plain = re.sub(r"[^\w.-]+", "-", component).strip("-.") or "model"
    number, name = 1, plain
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    return name
