"""Models of the page: the location of each, the facts of demo models, and unique names. Imports no torch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from regard.checkpoints.hub import download, is_hub_name
from regard.checkpoints.locations import ModelLocation, locate_model
from regard.checkpoints.untrusted_files import read_json
from regard.demo.story.model_store import FACTS, RECIPES
from regard.errors import CheckpointError, UsageError


def find_location(path: Path) -> ModelLocation:
    """The location of a model; raise if the path means none."""
    location = locate_model(path)
    if location is not None:
        return location
    if is_hub_name(path):
        return ModelLocation(download(path))
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder; pass that of a model or a run, or none for the demo")
    raise UsageError(f"{path} contains no model of regard or Hugging Face; pass the folder of one")


def demo_facts(location: ModelLocation) -> dict[str, Any] | None:
    """The facts of a demo model; None for any other."""
    if location.run is None or not (location.run / FACTS).is_file():
        return None
    try:
        facts = read_json(location.run / FACTS)
    except CheckpointError:
        return None
    words = facts.get("words")
    is_valid = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return facts if facts.get("name") in RECIPES and is_valid else None


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
