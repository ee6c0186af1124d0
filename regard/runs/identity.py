"""What a checkpoint records about its run, and the comparison when the run is resumed.

A checkpoint holds the resolved recipe, the keys of the run's token files, and the sha256 of every text file.
The checkpoint's recipe is what the run was trained with; recipe.toml is what is wanted of it now, so that a
setting edited there is compared like one given with --set. Settings that a checkpoint of an earlier version
lacks have their defaults.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.errors import CheckpointError, DataError, SettingError
from regard.runs.recipe import TABLES, Recipe
from regard.runs.run_folder import RunFolder
from regard.runs.tables import RESUMABLE, DataTable
from regard.runs.text_folder import TextFolder, key_of
from regard.text.lines import find_files
from regard.training.state import Changes, differences, read_values, refused

TRAINING_FILES = ("source", "target", "tsv", "text", "labelled")
VALIDATION_FILES = ("valid_source", "valid_target", "valid")
# What decides how a translation is searched for and which sentences are translated.
_SEARCHED = ("sentences", "beams", "length_penalty", "channel_weight")


Digests = dict[str, dict[str, str | None]]


@dataclass(frozen=True)
class TextIdentity:
    """Which text a run is trained and validated on: the keys of its token files, its files by their sha256.

    `files` has for each setting of [data] the sha256 of its files, by path. A file that is not found has
    none, and a run of an earlier version has no files here.
    """

    train: str
    valid: str | None
    files: Digests = field(default_factory=dict)

    def with_files(self, digests: Digests) -> TextIdentity:
        """The identity with the present files; files that are missing keep their old digests."""
        known = {
            name: files if _all_found(files) else self.files.get(name, files)
            for name, files in digests.items()
        }
        return replace(self, files=known)

    def changed(self, now: TextIdentity, names: tuple[str, ...]) -> list[str]:
        """The paths of the files whose content changed, for these settings."""
        changed: list[str] = []
        for name in names if self.files else ():
            before, after = self.files.get(name, {}), now.files.get(name, {})
            if [*after.values()] != [*before.values()]:
                known = set(before.values())
                changed += [path for path, digest in after.items() if digest not in known] or [*after]
        return changed


@dataclass(frozen=True)
class Comparison:
    """The result of comparing a run with its checkpoint."""

    changes: Changes
    valid: str | None  # the key of the validation part; None where it has to be read anew


@dataclass(frozen=True)
class Identity:
    """What a checkpoint records about a run."""

    recipe: Recipe
    text: TextIdentity

    def as_dict(self) -> dict[str, Any]:
        """The values of the checkpoint's run entry."""
        return {"recipe": self.recipe.values(), "text": vars(self.text)}

    @classmethod
    def read(cls, checkpoint: Path, folder: RunFolder) -> Identity:
        """The identity in a checkpoint; what earlier versions did not write is read from the run's folder."""
        stored = read_values(checkpoint)
        run = stored.get("run") or {}
        try:
            if not run:
                return _of_an_earlier_version(stored, folder)
            return cls(Recipe.read(run["recipe"]), TextIdentity(**run["text"]))
        except (SettingError, LookupError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{checkpoint} does not say which run it is of: {error}") from None

    def compare(self, recipe: Recipe, files: Digests) -> Comparison:
        """Changes that a resumed run may have; a change that makes it another run is refused with a diff."""
        now = Identity(recipe, self.text.with_files(files))
        changes = recipe_changes(self.recipe, recipe)
        if changed := self.text.changed(now.text, TRAINING_FILES):
            raise DataError(
                f"{', '.join(changed)}: the training data has changed since this run began; "
                "bring the files back as they were, or start a new run with --out"
            )
        others = self._other_validation(now, changes)
        lost = [path for paths in files.values() for path, digest in paths.items() if digest is None]
        lines = [
            *changes.values(),
            *(f"{path} has other text for validation" for path in others),
            *(f"{path} is not found; the text in the run's folder is used" for path in lost),
        ]
        valid = None if others else self.text.valid
        return Comparison(Changes(lines, _why_best_is_void(recipe, changes, others, valid)), valid)

    def _other_validation(self, now: Identity, changes: dict[str, str]) -> list[str]:
        """Files of validation text that is another; of an earlier version's run those that have moved."""
        if self.text.files:
            return self.text.changed(now.text, VALIDATION_FILES)
        moved = [name for name in VALIDATION_FILES if f"data.{name}" in changes]
        return [path for name in moved for path in now.text.files.get(name, {})]


def recipe_changes(before: Recipe, now: Recipe) -> dict[str, str]:
    """The differences of two recipes by setting; raise if one of them makes another run."""
    allowed = {f"{table}.{key}" for table, keys in RESUMABLE.items() for key in keys}
    changes = differences(_canonical(before), _canonical(now))
    if refusals := refused(changes, allowed):
        raise SettingError(f"this would be another run: {refusals}; start one with --out")
    return changes


def file_digests(data: DataTable) -> Digests:
    """The sha256 of each file that a run is trained or validated on, by setting and path."""
    named = {name: getattr(data, name) for name in (*TRAINING_FILES, *VALIDATION_FILES)}
    return {name: _digests(files) for name, files in named.items() if files is not None}


def _digests(files: str | list[str]) -> dict[str, str | None]:
    try:
        return {str(path): _sha256(path) for path in find_files(files)}
    except (DataError, OSError):
        return dict.fromkeys([files] if isinstance(files, str) else files)


def _all_found(files: dict[str, str | None]) -> bool:
    return None not in files.values()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _canonical(recipe: Recipe) -> dict[str, Any]:
    """Every setting with its value; a single file equals a list of one."""
    values = recipe.values()
    data = {
        key: value[0] if isinstance(value, list) and len(value) == 1 else value
        for key, value in values["data"].items()
    }
    return {**values, "data": data}


def _why_best_is_void(recipe: Recipe, changes: dict[str, str], others: list[str], valid: str | None) -> str:
    deciding = ["validation.monitor"]
    if recipe.validation.monitor in ("bleu", "chrf"):
        deciding += [f"validation.{name}" for name in _SEARCHED]
    metric = [changes[name] for name in deciding if name in changes]
    if metric:
        return "; ".join(metric)
    return "" if valid else f"{', '.join(others) or 'the validation text'} is another text"


def _of_an_earlier_version(stored: dict[str, Any], folder: RunFolder) -> Identity:
    """recipe.toml with the settings of training that the checkpoint holds, and the token files there are."""
    settings = dict(stored["settings"])
    tables = {name: settings.pop(name) for name in TABLES if name in settings}
    recipe = folder.recipe().changed({**tables, "training": settings})
    train = key_of(stored["source"]["data"])
    valid = TextFolder(folder.text).other_key(train, folder.facts().get("valid"))
    return Identity(recipe, TextIdentity(train, valid))
