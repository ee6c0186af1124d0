"""The models and snapshots of the studio: loaded once, in the background, with one lock each.

Torch is imported only when a model is used.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from math import prod
from pathlib import Path
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Any

from regard.checkpoints.atomic_folders import MANIFEST, readable_folder
from regard.checkpoints.folder import ModelFolder
from regard.checkpoints.locations import ModelLocation, is_huggingface
from regard.checkpoints.reading import read_model
from regard.demo.story.model_store import COMMANDS, RECIPES, DemoFolder, find_demo_folder
from regard.errors import RegardError, UsageError, nearest
from regard.inference.loading import LoadOptions
from regard.service.demo_training import DemoTraining
from regard.service.http_errors import NotFound, NotReady, too_long
from regard.service.locations import demo_facts, find_location, name_of
from regard.service.notes import DemoNotes
from regard.service.summaries import card, untrained_card
from regard.service.training_progress import training_curves
from regard.text.tokenizer import Tokenizer, Tokenizers

if TYPE_CHECKING:
    from regard.inspection.record.inputs import TextModel
    from regard.inspection.render.payload import Notes

log = logging.getLogger("regard.service")

NAME = re.compile(r"[\w.-]{1,100}")
SNAPSHOT_BYTES = 1 << 30  # memory for the loaded snapshots of one model
# Seconds; importing torch blocks other threads, so the page loads first.
WARM_UP_DELAY = 2.0


@dataclass(frozen=True, eq=False)
class Loaded:
    """A loaded model: the object that uses it, the hash of its manifest, and its lock."""

    subject: TextModel
    key: str
    lock: Any = field(default_factory=RLock)


class Entry:
    """One model of the studio; a built-in one may not be trained yet."""

    def __init__(
        self,
        name: str,
        location: ModelLocation | None,
        demo_folder: DemoFolder | None = None,
        options: LoadOptions | None = None,
    ):
        self.name, self.demo_folder, self._options = name, demo_folder, options or LoadOptions()
        self._location = location
        self._loading = RLock()
        self._loaded: OrderedDict[Path, Loaded] = OrderedDict()
        self.training = DemoTraining(demo_folder) if demo_folder is not None else None
        if location is not None:
            _ = self.folder  # raises at once if the folder cannot be used

    @property
    def location(self) -> ModelLocation | None:
        """Where its files are, or None for a built-in model that is not trained.

        Until a run has saved its model, the newest snapshot is used.
        """
        if self._location is None and self.demo_folder is not None and (ready := self.demo_folder.ready()):
            self._location = find_location(ready)
        if self._location is not None and self._location.run is not None and self._location.is_underway:
            with suppress(UsageError):  # the folder was removed; the loaded model is still used
                self._location = find_location(self._location.run)
        return self._location

    @property
    def trained_location(self) -> ModelLocation:
        """The location; raise if the model is not trained."""
        location = self.location
        if location is None:
            command = COMMANDS[self.name]
            raise NotReady(f"{self.name} is not trained yet; train it on the page, or run {command}")
        return location

    @cached_property
    def folder(self) -> ModelFolder:
        """The contents of its folder."""
        return read_model(self.trained_location.model)

    @cached_property
    def tokenizers(self) -> Tokenizers:
        """Its tokenizers."""
        return self.folder.tokenizers()

    @cached_property
    def vocabulary(self) -> list[str]:
        """The text of every output id."""
        from regard.inspection.render.payload import vocabulary

        config = self.folder.config
        return vocabulary(self.writes, config.output_vocabulary)

    @property
    def writes(self) -> Tokenizer:
        """The tokenizer of its output."""
        return (
            self.tokenizers.target if self.folder.config.family != "encoder-only" else self.tokenizers.source
        )

    @cached_property
    def facts(self) -> dict[str, Any] | None:
        """The facts of a demo model."""
        return demo_facts(self.trained_location)

    @cached_property
    def notes(self) -> Notes:
        """Notes about the words of a demo model."""
        from regard.inspection.render.payload import NOTHING

        return DemoNotes(self.facts) if self.facts else NOTHING

    def card(self) -> dict[str, Any]:
        """The description of the model for the page."""
        location = self.location
        if location is None:
            is_learning = self.training is not None and self.training.is_running
            return untrained_card(self.name, "learning" if is_learning else "untrained")
        return card(self.name, self.folder, self.writes, self.facts, list(location.snapshots()))

    def training_curves(self) -> dict[str, Any]:
        """The curves of its training, also while it runs."""
        run = self.training.run if self.training and self.location is None else None
        return training_curves(self.trained_location if run is None else ModelLocation(run, run))

    def loaded(self, snapshot: int | None = None) -> Loaded:
        """The model, or its snapshot of a step; loaded at the first use, and again if it was replaced."""
        with self._loading:
            path = self._path(snapshot)
            held = self._loaded.get(path)
            if held is not None and _key(path) in (None, held.key):
                self._loaded.move_to_end(path)
                return held
            if held is not None and path == self.trained_location.model:
                self._forget_folder()
            self._loaded[path] = loaded = self._load(path)
            self._evict_snapshots(self.trained_location.model)
            return loaded

    def _forget_folder(self) -> None:
        """Read the folder again when it is next asked for, because it was replaced."""
        for name in ("folder", "tokenizers", "vocabulary", "facts", "notes"):
            self.__dict__.pop(name, None)

    def key(self, snapshot: int | None = None) -> str | None:
        """The hash of the manifest of the model or of a snapshot, without loading it; None if it is gone."""
        return _key(self._path(snapshot))

    def check_ids(self, ids: Sequence[int] | None) -> None:
        """Raise if output ids cannot fit the context, before they are looked at."""
        limit = self.folder.config.context
        if ids is not None and len(ids) > limit:
            is_output = self.folder.config.family == "encoder-decoder"
            raise too_long("the output" if is_output else "the text", len(ids) + is_output, limit)

    def _path(self, snapshot: int | None) -> Path:
        location = self.trained_location
        if snapshot is None:
            return location.model
        kept = location.snapshots()
        if snapshot not in kept:
            steps = ", ".join(map(str, kept)) or "none"
            raise NotFound(f"{self.name} has no snapshot of step {snapshot}; it has {steps}")
        return kept[snapshot]

    def _load(self, path: Path) -> Loaded:
        from regard.inference.loading import load

        try:
            key = _key(path) or ""
            return Loaded(load(path, threads=self._options.threads, engine=self._options.engine), key)
        except (RegardError, OSError) as error:
            log.warning("cannot load %s: %s", path, error)
            raise NotReady(f"{self.name} cannot be loaded; see the terminal") from None

    def _evict_snapshots(self, model: Path) -> None:
        """Keep the model and the most recently used snapshots within the memory limit."""
        stored = 4 * sum(map(prod, self.folder.weights.shapes.values()))
        most = min(32, max(2, SNAPSHOT_BYTES // max(stored, 1)))
        while len(self._loaded) > most:
            del self._loaded[next(path for path in self._loaded if path != model)]


def _key(path: Path) -> str | None:
    """The hash of a model's manifest, or of names, sizes and times of its files; None if it is gone."""
    folder = readable_folder(path)
    try:
        if is_huggingface(folder) and not (folder / MANIFEST).exists():
            statuses = {file.name: file.stat() for file in sorted(folder.iterdir())}
            states = [(name, status.st_size, status.st_mtime_ns) for name, status in statuses.items()]
            return sha256(repr(states).encode()).hexdigest()
        return sha256((folder / MANIFEST).read_bytes()).hexdigest()
    except OSError:
        return None


class Models:
    """The models of one studio, by name."""

    def __init__(self, entries: Iterable[Entry]):
        self.entries = {entry.name: entry for entry in entries}
        self._load_requested = Event()

    def __getitem__(self, name: str) -> Entry:
        if name not in self.entries:
            raise NotFound(f"unknown model {name[:80]!r}; {nearest(name[:80], self.entries)}")
        return self.entries[name]

    def cards(self) -> list[dict[str, Any]]:
        """The descriptions of all models."""
        return [entry.card() for entry in self.entries.values()]

    def find_demo(self, name: str) -> tuple[Entry, DemoTraining]:
        """A built-in model and its training."""
        entry = self[name]
        if entry.training is None:
            raise NotFound(f"{name} is not a demo model and is not trained here; train it with regard train")
        return entry, entry.training

    def stop(self) -> None:
        """Stop all training."""
        for entry in self.entries.values():
            if entry.training is not None:
                entry.training.stop()

    def request_loading(self) -> None:
        """Start to load the models, because a page is open."""
        self._load_requested.set()

    def warm_up(self, prepare: Callable[[Entry], None]) -> None:
        """Prepare the trained models in a thread, when a page opens or after WARM_UP_DELAY."""
        Thread(target=self._warm_up, args=(prepare,), name="models", daemon=True).start()

    def _warm_up(self, prepare: Callable[[Entry], None]) -> None:
        self._load_requested.wait(WARM_UP_DELAY)
        for entry in self.entries.values():
            try:
                if entry.location is not None:
                    prepare(entry)
            except RegardError as error:  # a request for this model will report it
                log.warning("%s", error)


def open_models(names: Iterable[str] = (), options: LoadOptions | None = None) -> Models:
    """The named models, built-in or by folder; by default the demo and its other trained models.

    NAME=FOLDER serves the model of a folder under a name.
    """
    entries: list[Entry] = []
    for name in names or _default_names():
        given, separator, path = name.partition("=")
        if separator and not Path(name).exists():
            entries.append(_named_entry(given, path, {entry.name for entry in entries}, options))
            continue
        demo_folder = find_demo_folder(name) if name in RECIPES else None
        taken = {entry.name for entry in entries}
        if demo_folder is not None and name not in taken:
            ready = demo_folder.ready()
            entries.append(Entry(name, find_location(ready) if ready else None, demo_folder, options))
        elif demo_folder is None:
            entries.append(Entry(name_of(Path(name), taken), find_location(Path(name)), options=options))
    return Models(entries)


def _named_entry(name: str, path: str, taken: set[str], options: LoadOptions | None) -> Entry:
    if not NAME.fullmatch(name):
        raise UsageError(f"model name ({name[:80]!r}) must have letters, digits, . _ - only; choose another")
    if name in taken:
        raise UsageError(f"model name ({name!r}) is given twice; choose another")
    folder = find_demo_folder(path).ready() if path in RECIPES else Path(path)
    if folder is None:
        raise UsageError(f"{path} is not trained yet; run {COMMANDS[path]}")
    return Entry(name, find_location(folder), options=options)


def _default_names() -> list[str]:
    return [name for name in RECIPES if name == "demo" or find_demo_folder(name).ready() is not None]
