"""The folders of the demo's models, and whether a stored model is up to date. Imports no torch.

A model depends on the grammar, the settings and the format of its folder. If one of them has changed, the
model counts as missing, and the next `regard demo` trains and replaces it. Until then the model that comes
with the package is used; `regard.demo.story.shipping` makes it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.checkpoints.locations import BUILT_IN, cache_folder
from regard.errors import UsageError

FORMAT = 2  # of the folder and of demo.json; a new number invalidates older folders
FACTS = "demo.json"
GRAMMAR = Path(__file__).parents[1]
SHIPPED = GRAMMAR / "trained"  # the models that come with the package, in folders of their names
# The built-in models: the recipe of each, and the command that trains it.
RECIPES = {"demo": "demo", "demo-language-model": "demo-language-model", "demo-reverse": "demo"}
COMMANDS = {
    "demo": "regard demo",
    "demo-language-model": "regard demo language-model",
    "demo-reverse": "regard demo --reverse",
}


@dataclass(frozen=True)
class DemoFolder:
    """The folder of one model, and the settings that the model in it must have.

    `settings` changes the recipe; `pairs` is the size of the corpus, or 0 for the default.
    """

    name: str
    path: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    pairs: int = 0

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the grammar, the recipe, its changes and the format of the folder."""
        from regard.runs.recipe_files import find_recipe  # not needed for a path on the command line

        settings = [FORMAT, self.name, dict(self.settings), self.pairs]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for file in [find_recipe(RECIPES[self.name]), *sorted(GRAMMAR.glob("*.py"))]:
            digest.update(file.read_bytes())
        return digest.hexdigest()[:16]

    def facts(self) -> dict[str, Any] | None:
        """The facts of the model; None if it is missing or out of date."""
        return self._facts_in(self.path)

    def ready(self) -> Path | None:
        """The folder of the up-to-date model: this one, or that of the package; None without either."""
        return next(filter(self._facts_in, (self.path, SHIPPED / self.name)), None)

    def _facts_in(self, folder: Path) -> dict[str, Any] | None:
        facts = read_facts(folder)
        return facts if facts and facts.get("fingerprint") == self.fingerprint else None

    @contextmanager
    def created(self) -> Iterator[Path]:
        """A temporary working folder; its subfolder `run` replaces this folder if the block succeeds."""
        if self.path.exists() and read_facts(self.path) is None:
            raise UsageError(f"{self.path} exists and is not a demo folder; choose another with --out")
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
    """The folder of a built-in model: `out`, or the default in the user's cache."""
    if settings and out is None:
        raise UsageError("--set needs a separate folder; add --out DIR")
    return DemoFolder(name, out or cache_folder() / name, settings or {})


def trained_folder(name: str) -> Path:
    """The folder of a built-in model: trained on this machine, or shipped; raise if there is none."""
    folder = find_demo_folder(name).ready()
    if folder is None:  # only in a checkout whose grammar or recipe has changed
        raise UsageError(f"the shipped {name} is out of date; {COMMANDS[name]} trains a new one")
    return folder


BUILT_IN.update((name, lambda name=name: trained_folder(name)) for name in RECIPES)


def read_facts(folder: Path) -> dict[str, Any] | None:
    """The facts of the model in a folder, or None."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None


def write_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the facts of a model into its folder."""
    (folder / FACTS).write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def forget(folder: Path, *names: str) -> None:
    """Remove subfolders of a run that a finished demo does not need."""
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
