"""The folder of a run: its files, and how a new folder is locked.

recipe.toml      every setting of the run, as it was resolved
run.json         versions, threads, device and seed, what was read and skipped
text/            tokenizers, labels, and the token files that were made once
checkpoints/     states to resume from; weights/ those kept to be looked at
metrics.jsonl    a line for each step, validation and checkpoint, with its time
model/           the model of the best validation so far, or of the newest checkpoint before there is one
report.html      the report of the run; curves/ has its charts as pictures
datastore/       the kNN-MT datastore that `regard datastore` has built
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.checkpoints.untrusted_files import read_json
from regard.errors import CheckpointError, RegardError, TrainingError, UsageError
from regard.runs.recipe import Recipe
from regard.runs.tables import DataTable
from regard.training.checkpoint_manager import LOCK, STEP, Lock, disk_full, is_disk_full

# How tables are read, which a run knows.
READING = {"format", "columns", "text_column", "label_column", "header", "lines"}

# What a preparation writes before recipe.toml.
PREPARED = ("text", "run.json", ".run.json.new", ".recipe.toml.new")


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run."""

    path: Path

    @property
    def recipe_file(self) -> Path:
        """The resolved recipe."""
        return self.path / "recipe.toml"

    @property
    def text(self) -> Path:
        """Tokenizers and token files."""
        return self.path / "text"

    @property
    def metrics(self) -> Path:
        """One line per event."""
        return self.path / "metrics.jsonl"

    @property
    def model(self) -> Path:
        """The model folder."""
        return self.path / "model"

    @property
    def datastore(self) -> Path:
        """The kNN-MT datastore of the run."""
        return self.path / "datastore"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"

    def recipe(self) -> Recipe:
        """The settings of the run."""
        if not self.recipe_file.is_file():
            if is_unprepared(self.path):
                raise UsageError(f"{self.path} holds no run yet; start one with --out {self.path}")
            raise UsageError(f"{self.path} is no run: it has no recipe.toml; give the folder of one")
        return Recipe.stored(self.recipe_file)

    def write_recipe(self, recipe: Recipe) -> None:
        """Write the settings."""
        _replace(self.recipe_file, recipe.to_toml())

    def write_facts(self, facts: dict[str, Any]) -> None:
        """Write the facts about the run."""
        _replace(self.path / "run.json", json.dumps(facts, indent=1, ensure_ascii=False) + "\n")

    def facts(self) -> dict[str, Any]:
        """The facts about the run; empty if the file is lost."""
        try:
            return read_json(self.path / "run.json")
        except CheckpointError:
            return {}


def find_run(path: Path) -> tuple[RunFolder, Path | None]:
    """The run of this folder or checkpoint, and the checkpoint if one is given."""
    whole = path.absolute()
    if whole.parent.name != "checkpoints" or not (whole.parents[1] / "recipe.toml").is_file():
        return RunFolder(path), None
    if not whole.name.removeprefix(STEP).isdecimal():
        raise UsageError(f"{path} is not a checkpoint; name one that is called step-N")
    return RunFolder(whole.parents[1]), whole


def run_of(model: Path) -> RunFolder | None:
    """The run that contains a model folder or a checkpoint."""
    for folder in (model, *model.absolute().parents[:2]):
        if (folder / "recipe.toml").is_file():
            return RunFolder(folder)
    return None


def data_as_read_by(run: RunFolder | None, files: dict[str, Any]) -> DataTable:
    """A [data] table for other files, with the run's settings for reading tables as defaults."""
    known = run.recipe().data.model_dump(include=READING) if run else {}
    return DataTable(**{**known, **files})


@contextmanager
def claimed(path: Path) -> Iterator[RunFolder]:
    """Lock a folder for a new run: a new or empty one, or the remains of a killed preparation.

    Where the preparation fails or is interrupted, everything it wrote is removed again. recipe.toml must be
    written last: with it the folder holds a run.
    """
    is_new = not path.exists()
    lock = _locked(path)
    try:
        if not is_unprepared(path):  # another process was quicker
            raise _taken(path)
        _clear(path)
        yield RunFolder(path)
    except BaseException:
        if is_unprepared(path):
            _clear(path)
            lock.path.unlink(missing_ok=True)
            if is_new:
                path.rmdir()
        raise
    finally:
        lock.release()


@contextmanager
def disk_full_message(path: Path, needed: Callable[[], str]) -> Iterator[None]:
    """Turn a full disk into an error that names the folder and the space needed."""
    try:
        yield
    except (RegardError, OSError) as error:
        if not is_disk_full(error):
            raise
        raise TrainingError(disk_full(path, needed())) from None


def _locked(path: Path) -> Lock:
    """The lock of a folder that is free for a run; the folder is created if needed."""
    if path.exists() and not is_unprepared(path):
        raise _taken(path)
    lock = Lock(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise TrainingError(
            f"cannot write to {path}: {error.strerror or error}; choose another folder"
        ) from None
    return lock


def _taken(path: Path) -> UsageError:
    return UsageError(f"{path} exists already; resume the run in it, or choose another folder with --out")


def is_unprepared(path: Path) -> bool:
    """Whether a folder is empty or holds only the remains of a killed preparation."""
    if not path.is_dir():
        return False
    names = {entry.name for entry in path.iterdir()}
    return not names or (LOCK in names and names <= {LOCK, *PREPARED})


def _clear(path: Path) -> None:
    """Remove the files that a preparation writes, and no others."""
    for name in PREPARED:
        if (path / name).is_dir():
            shutil.rmtree(path / name, ignore_errors=True)
        else:
            (path / name).unlink(missing_ok=True)


def free_name(parent: Path, name: str) -> Path:
    """The first of name, name-2, name-3, ... that does not exist in a folder."""
    number, path = 1, parent / name
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise TrainingError(
            f"cannot write {path}: {error.strerror or error}; free the disk, or choose another folder"
        ) from None
