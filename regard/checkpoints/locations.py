"""Which folder a path means: a model folder, the model of a run, or its newest snapshot; the cache folder.

Imports no torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regard.checkpoints.atomic_folders import MANIFEST, readable_folder
from regard.checkpoints.untrusted_files import FolderFiles
from regard.errors import CheckpointError

CONFIG = "config.json"
# The folders of the models that come with regard, by name; regard.demo adds its own when it is imported.
BUILT_IN: dict[str, Callable[[], Path]] = {}
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


def built_in_folder(path: str | Path) -> str | Path:
    """The folder of a built-in model for its name, otherwise the path as it is; ./demo is a path."""
    return BUILT_IN[path]() if isinstance(path, str) and path in BUILT_IN else path


def locate_model(path: str | Path) -> ModelLocation | None:
    """The model that a path means; None if there is none.

    A run means its model, or its newest snapshot until it has saved one.
    """
    path = Path(path)
    if is_gguf(path):
        return ModelLocation(path)
    if has_file(readable_folder(path), MANIFEST):
        around = path.absolute().parent
        is_run = path.absolute().name == "model" and has_file(around, METRICS)
        return ModelLocation(path, around if is_run else None)
    if has_file(readable_folder(path / "model"), MANIFEST):
        return ModelLocation(path / "model", path)
    if is_huggingface(path):
        return ModelLocation(path)
    is_run = has_file(path, "weights")
    snapshots = list(ModelLocation(path, path).snapshots().values()) if is_run else []
    return ModelLocation(snapshots[-1], path) if snapshots else None


def is_huggingface(folder: Path) -> bool:
    """Whether a folder has the config.json of Hugging Face, which names a model type, or a damaged one."""
    if not has_file(folder, CONFIG):
        return False
    try:
        return "model_type" in FolderFiles(folder).json(CONFIG)
    except CheckpointError:
        return True


def is_gguf(path: Path) -> bool:
    """Whether a path is a GGUF file by its name; a folder is none."""
    return path.suffix == ".gguf" and has_file(path.parent, path.name) and not path.is_dir()


def cache_folder() -> Path:
    """The system's cache folder for regard, or the one in REGARD_CACHE."""
    if chosen := os.environ.get("REGARD_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "regard" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "regard"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def has_file(folder: Path, name: str) -> bool:
    """Whether a folder has an entry of that name, also if it is a broken link."""
    try:
        return os.path.lexists(folder / name)
    except (OSError, ValueError):
        return False
