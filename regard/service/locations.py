"""Where a model's files are: its folder, the run's around it, the snapshots that were kept on the way.

Loads no torch.
"""

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
class Home:
    """A model's folder, and the folder of the run that made it, where that is known."""

    model: Path
    run: Path | None = None

    @property
    def is_underway(self) -> bool:
        """Whether a snapshot stands for the model, which the run has not saved yet."""
        return self.run is not None and self.model.parent == self.run / "weights"

    def snapshots(self) -> dict[int, Path]:
        """The models that were kept on the way, by their step, in order; looked for anew each time."""
        folders = (self.run / "weights").glob("step-*") if self.run else ()
        found = {int(path.name[5:]): path for path in folders if path.name[5:].isdecimal()}
        return {step: found[step] for step in sorted(found) if (found[step] / MANIFEST).is_file()}

    def facts(self) -> dict[str, Any] | None:
        """What is known of a model of the demo; None for any other."""
        if self.run is None or not (self.run / FACTS).is_file():
            return None
        try:
            facts = read_json(self.run / FACTS)
        except CheckpointError:
            return None
        words = facts.get("words")
        whole = isinstance(words, list) and all(isinstance(word, str) for word in words)
        return facts if facts.get("name") in RECIPES and whole else None


def find_home(path: Path) -> Home:
    """The home of a model folder, of a run, or of a run that goes on and has kept a snapshot by now."""
    if (path / MANIFEST).is_file():
        around = path.absolute().parent
        is_run = path.absolute().name == "model" and (around / METRICS).is_file()
        return Home(path, around if is_run else None)
    if (readable_folder(path / "model") / MANIFEST).is_file():
        return Home(path / "model", path)
    kept = list(Home(path, path).snapshots().values())
    if kept:
        return Home(kept[-1], path)
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder; pass that of a model or a run, or none for the demo")
    raise UsageError(f"{path} holds no model that regard has saved; give the folder of one")


def name_of(path: Path, taken: set[str]) -> str:
    """A short name for a folder that none has yet: its last part, or the run's that it belongs to."""
    whole = path.absolute()
    said = whole.parent.name if whole.name == "model" and whole.parent.name else whole.name
    plain = re.sub(r"[^\w.-]+", "-", said).strip("-.") or "model"
    number, name = 1, plain
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    return name
