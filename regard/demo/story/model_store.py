"""Where the demo's models are kept, and whether one is there that still fits. Loads no torch.

A model belongs to what it was made of: the grammar, the settings and the layout of its folder. If one of
them has changed, it counts as not there, and the next `regard demo` trains anew in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.errors import UsageError
from regard.runs.recipe import find_recipe

FORMAT = 1  # of the folder and of demo.json; another number makes older folders unfit
FACTS = "demo.json"
GRAMMAR = Path(__file__).parents[1]
# The built-in models: the recipe of each, and the command that makes it.
RECIPES = {"demo": "demo", "demo-language-model": "demo-language-model", "demo-reverse": "demo"}
COMMANDS = {
    "demo": "regard demo",
    "demo-language-model": "regard demo language-model",
    "demo-reverse": "regard demo --reverse",
}


@dataclass(frozen=True)
class DemoFolder:
    """The folder of one model, and what the model in it must have been made of.

    `settings` replaces what the recipe says; `pairs` 0 stands for the usual many.
    """

    name: str
    path: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    pairs: int = 0

    @cached_property
    def fingerprint(self) -> str:
        """Grammar, recipe, changes to it and the layout of the folder, as one short word."""
        said = [FORMAT, self.name, dict(self.settings), self.pairs]
        made_of = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
        for file in [find_recipe(RECIPES[self.name]), *sorted(GRAMMAR.glob("*.py"))]:
            made_of.update(file.read_bytes())
        return made_of.hexdigest()[:16]

    def facts(self) -> dict[str, Any] | None:
        """What is known of the model; None where there is none, or one made of something else."""
        found = read_facts(self.path)
        return found if found and found.get("fingerprint") == self.fingerprint else None

    @contextmanager
    def created(self) -> Iterator[Path]:
        """A folder to work in; what then stands under `run` in it takes this place at once, or never."""
        if self.path.exists() and read_facts(self.path) is None:
            raise UsageError(f"{self.path} exists and is no demo's folder; choose another with --out")
        parent = self.path.absolute().parent
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{self.path.name}-", dir=parent) as work:
            yield Path(work)
            if self.path.exists():
                self.path.rename(Path(work, "old"))
            Path(work, "run").rename(self.path)


def find_demo_folder(
    name: str, out: Path | None = None, settings: Mapping[str, Any] | None = None
) -> DemoFolder:
    """The place of a built-in model: the user's cache, or the folder given."""
    if settings and out is None:
        raise UsageError("--set makes a model of its own, which needs a folder of its own; add --out DIR")
    return DemoFolder(name, out or cache_folder() / name, settings or {})


def trained_folder(name: str) -> Path:
    """The folder of a built-in model that has been trained; nothing is trained by surprise."""
    demo_folder = find_demo_folder(name)
    if demo_folder.facts() is None:
        raise UsageError(f"{name} is not trained on this machine yet; {COMMANDS[name]} makes it")
    return demo_folder.path


def cache_folder() -> Path:
    """Where this system keeps what programs can make again; REGARD_CACHE names another folder."""
    if chosen := os.environ.get("REGARD_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "regard" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "regard"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def read_facts(folder: Path) -> dict[str, Any] | None:
    """What is known of the model in a folder; None where nothing is."""
    try:
        found = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    """Keep what is known of a model beside it."""
    (folder / FACTS).write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def forget(folder: Path, *names: str) -> None:
    """Take out of a run's folder what a finished demo does not need."""
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
