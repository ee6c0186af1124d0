"""The models that a page may ask for: loaded once and in the background, one lock each, snapshots too.

Nothing here loads torch before a model is used.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from math import prod
from pathlib import Path
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Any

from regard.checkpoints.atomic_folders import MANIFEST, readable_folder
from regard.checkpoints.folder import ModelFolder, read_folder
from regard.demo.story.model_store import COMMANDS, Place, find_place
from regard.errors import RegardError, UsageError, nearest
from regard.service.demo_training import Learning
from regard.service.http_errors import NotReady, NotThere
from regard.service.locations import Home, find_home, name_of
from regard.service.notes import DemoNotes
from regard.service.summaries import card, untrained_card
from regard.service.training_progress import course
from regard.text.tokenizer import Tokenizer, Tokenizers

if TYPE_CHECKING:
    from regard.inspection.record.inputs import TextModel
    from regard.inspection.render.payload import Notes

log = logging.getLogger("regard.service")

HELD = 1 << 30  # bytes of weights that the snapshots of one model may take
BUILT_IN = ("demo", "demo-writing", "demo-reverse")
# The page's first look shall not wait for torch, whose loading holds up everything else for a moment.
PATIENCE = 2.0


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model in memory: what uses it, what tells it from others, and the lock around its work."""

    subject: TextModel
    key: str
    lock: Any = field(default_factory=RLock)


class Entry:
    """One model of the studio; a built-in one may still have to be trained."""

    def __init__(self, name: str, home: Home | None, place: Place | None = None):
        self.name, self.place = name, place
        self._home = home
        self._loading = RLock()
        self._loaded: OrderedDict[Path, Loaded] = OrderedDict()
        self.learning = Learning(place) if place is not None else None
        if home is not None:
            _ = self.folder  # what cannot be used is refused at once

    @property
    def home(self) -> Home | None:
        """Where its files are; a built-in model has a home as soon as it is trained, whoever trained it.

        While a run has saved no model yet, the newest of its snapshots stands for it.
        """
        if self._home is None and self.place is not None and self.place.facts() is not None:
            self._home = find_home(self.place.path)
        if self._home is not None and self._home.run is not None and self._home.is_underway:
            with suppress(UsageError):  # a folder that was taken away; what is in memory still answers
                self._home = find_home(self._home.run)
        return self._home

    @property
    def trained_home(self) -> Home:
        """The same, where it must be there."""
        home = self.home
        if home is None:
            command = COMMANDS[self.name]
            raise NotReady(f"{self.name} is not trained yet; let the page train it, or call {command}")
        return home

    @cached_property
    def folder(self) -> ModelFolder:
        """What its folder says."""
        return read_folder(self.trained_home.model)

    @cached_property
    def tokenizers(self) -> Tokenizers:
        """Its tokenizers."""
        return self.folder.tokenizers()

    @cached_property
    def vocabulary(self) -> list[str]:
        """Every id that it can say, as a person reads it."""
        from regard.inspection.render.payload import vocabulary

        config = self.folder.config
        return vocabulary(self.writes, config.target_vocabulary or config.vocabulary)

    @property
    def writes(self) -> Tokenizer:
        """The tokenizer of what it says."""
        return (
            self.tokenizers.target if self.folder.config.family != "encoder-only" else self.tokenizers.source
        )

    @cached_property
    def facts(self) -> dict[str, Any] | None:
        """What is known of a model of the demo."""
        return self.trained_home.facts()

    @cached_property
    def notes(self) -> Notes:
        """What may be said about its words."""
        from regard.inspection.render.payload import NOTHING

        return DemoNotes(self.facts) if self.facts else NOTHING

    def card(self) -> dict[str, Any]:
        """The model as the page knows it."""
        home = self.home
        if home is None:
            is_learning = self.learning is not None and self.learning.is_running
            return untrained_card(self.name, "learning" if is_learning else "untrained")
        return card(self.name, self.folder, self.writes, self.facts, list(home.snapshots()))

    def course(self) -> dict[str, Any]:
        """How its training went, or goes."""
        run = self.learning.run if self.learning and self.home is None else None
        return course(self.trained_home if run is None else Home(run, run))

    def loaded(self, snapshot: int | None = None) -> Loaded:
        """The model, or as it was at a step; loaded when first asked for, and again where it was replaced."""
        with self._loading:
            path = self._path(snapshot)
            held = self._loaded.get(path)
            if held is not None and _key(path) in (None, held.key):
                self._loaded.move_to_end(path)
                return held
            self._loaded[path] = loaded = self._load(path)
            self._let_go(self.trained_home.model)
            return loaded

    def _path(self, snapshot: int | None) -> Path:
        home = self.trained_home
        if snapshot is None:
            return home.model
        kept = home.snapshots()
        if snapshot not in kept:
            steps = ", ".join(map(str, kept)) or "none"
            raise NotThere(f"{self.name} has no snapshot of step {snapshot}; it has {steps}")
        return kept[snapshot]

    def _load(self, path: Path) -> Loaded:
        from regard.inference.loading import load

        try:
            key = _key(path) or ""
            return Loaded(load(path), key)
        except (RegardError, OSError) as error:
            log.warning("cannot load %s: %s", path, error)
            raise NotReady(f"{self.name} cannot be loaded; the terminal says why") from None

    def _let_go(self, model: Path) -> None:
        """Keep as many snapshots as there is room for, the last used ones, and always the model itself."""
        stored = 4 * sum(map(prod, self.folder.weights.shapes.values()))
        most = min(32, max(2, HELD // max(stored, 1)))
        while len(self._loaded) > most:
            del self._loaded[next(path for path in self._loaded if path != model)]


def _key(path: Path) -> str | None:
    """What tells a model from another; None where its folder is gone."""
    try:
        return sha256((readable_folder(path) / MANIFEST).read_bytes()).hexdigest()
    except OSError:
        return None


class Models:
    """The models of one studio, by name."""

    def __init__(self, entries: Iterable[Entry]):
        self.entries = {entry.name: entry for entry in entries}
        self._wanted = Event()

    def __getitem__(self, name: str) -> Entry:
        if name not in self.entries:
            raise NotThere(f"no model {name[:80]!r} here; {nearest(name[:80], self.entries)}")
        return self.entries[name]

    def cards(self) -> list[dict[str, Any]]:
        """All of them as the page knows them."""
        return [entry.card() for entry in self.entries.values()]

    def of_demo(self, name: str | None = None) -> tuple[Entry, Learning]:
        """A built-in model and its training: the named one, or the first here."""
        entries = [self[name]] if name is not None else list(self.entries.values())
        for entry in entries:
            if entry.learning is not None:
                return entry, entry.learning
        raise NotThere("no model of the demo is here; start regard studio without a MODEL")

    def stop(self) -> None:
        """End what is being trained."""
        for entry in self.entries.values():
            if entry.learning is not None:
                entry.learning.stop()

    def want(self) -> None:
        """Somebody is looking: load what they will ask for."""
        self._wanted.set()

    def warm_up(self, prepare: Callable[[Entry], None]) -> None:
        """Prepare the trained models in a thread, as soon as a page asks or PATIENCE has passed."""
        Thread(target=self._warm_up, args=(prepare,), name="models", daemon=True).start()

    def _warm_up(self, prepare: Callable[[Entry], None]) -> None:
        self._wanted.wait(PATIENCE)
        for entry in self.entries.values():
            try:
                if entry.home is not None:
                    prepare(entry)
            except RegardError as error:  # whoever asks for it is told
                log.warning("%s", error)


def open_models(names: Iterable[str] = ()) -> Models:
    """The models named, built-in or by folder; without any, the demo and what else is trained of it."""
    entries: list[Entry] = []
    for name in names or _usual():
        place = find_place(name) if name in BUILT_IN else None
        taken = {entry.name for entry in entries}
        if place is not None and name not in taken:
            entries.append(Entry(name, find_home(place.path) if place.facts() else None, place))
        elif place is None:
            entries.append(Entry(name_of(Path(name), taken), find_home(Path(name))))
    return Models(entries)


def _usual() -> list[str]:
    return [name for name in BUILT_IN if name == "demo" or find_place(name).facts() is not None]
