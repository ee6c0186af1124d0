"""The models that are served: each with its Translator, Writer or Reader and its scheduler."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cached_property
from threading import Thread
from typing import Any, TypeVar

from regard.errors import nearest
from regard.inference.chat import Chat
from regard.inference.loading import chat_of, commands_for, holds
from regard.inference.reader import Reader
from regard.inference.search.beam import Beam
from regard.inference.search.requests import Search
from regard.inference.search.sampling import Sampling
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.service.api.errors import Loading, UnknownModel, WrongModel
from regard.service.api.limits import Limits
from regard.service.api.metrics import Metrics
from regard.service.api.scheduler import Scheduler
from regard.service.http_errors import NotReady
from regard.service.models import Entry, Models

log = logging.getLogger("regard.service")

Kind = TypeVar("Kind", Translator, Writer, Reader)


class ServedModel:
    """A model under its name; it can be used as soon as it is loaded."""

    def __init__(self, entry: Entry, limits: Limits, metrics: Metrics):
        self.name, self._entry = entry.name, entry
        self.created = int(time.time())
        self.fingerprint = f"regard-{(entry.key() or '')[:12]}"
        self._subject: Any = None
        self.error: str | None = None  # why it cannot be used
        self.scheduler = Scheduler(entry.name, self._new_search, limits, metrics.of_model(entry.name))

    @property
    def config(self) -> Any:
        """The configuration of the model."""
        return self._entry.folder.config

    @property
    def is_ready(self) -> bool:
        """Whether the model is loaded."""
        return self._subject is not None

    def load(self) -> None:
        """Load the model."""
        try:
            self._subject = self._entry.loaded().subject
        except Exception as error:  # the other models are loaded all the same
            is_known = isinstance(error, NotReady)
            log.error("%s cannot be served: %s", self.name, error, exc_info=None if is_known else error)
            self.error = f"{self.name} cannot be loaded; see the terminal"

    def card(self) -> dict[str, Any]:
        """The model as /v1/models lists it."""
        return {
            "id": self.name, "object": "model", "created": self.created, "owned_by": "regard",
            "tasks": [*commands_for(self.config), *(["chat"] if self._has_chat else [])],
            "context": self.config.context, "is_ready": self.is_ready,
        }  # fmt: skip

    @cached_property
    def chat(self) -> Chat:
        """The model with its chat template; raise if it has none."""
        writer = self.as_kind(Writer, "complete")
        if not self._has_chat:
            raise WrongModel(f"{self.name} has no chat template and cannot chat; use /v1/completions")
        return chat_of(self._entry.folder, writer)

    @property
    def _has_chat(self) -> bool:
        return "chat" in self._entry.folder.extra

    def as_kind(self, kind: type[Kind], task: str) -> Kind:
        """The model if it is of this kind; raise if it is not, or not loaded yet."""
        if task not in commands_for(self.config):
            raise WrongModel(f"{self.name} is {holds(self.config)} and cannot {task}; use another model")
        subject = self.subject
        assert isinstance(subject, kind)
        return subject

    @property
    def subject(self) -> Any:
        """The Translator, Writer or Reader; raise if it is not loaded yet."""
        if self.error is not None:
            raise NotReady(self.error)
        if self._subject is None:
            raise Loading(f"{self.name} is being loaded; try again in a second")
        return self._subject

    def _new_search(self, is_beam: bool) -> Search:
        subject = self._subject
        stepper = subject.stepper() if isinstance(subject, Translator) else subject.prepare(None).stepper()
        return Beam(stepper) if is_beam else Sampling(stepper)


class ServedModels:
    """All models by name."""

    def __init__(self, models: Models, limits: Limits, metrics: Metrics):
        self.by_name = {name: ServedModel(entry, limits, metrics) for name, entry in models.entries.items()}

    def __getitem__(self, name: str) -> ServedModel:
        if name not in self.by_name:
            raise UnknownModel(f"unknown model {name[:80]!r}; {nearest(name[:80], self.by_name)}")
        return self.by_name[name]

    @property
    def is_ready(self) -> bool:
        """Whether every model can be used."""
        return all(model.is_ready and model.scheduler.is_alive for model in self.by_name.values())

    @property
    def has_failed(self) -> bool:
        """Whether a model will not be ready."""
        return any(model.error or not model.scheduler.is_alive for model in self.by_name.values())

    def start(self, loaded: Callable[[], None] = lambda: None) -> None:
        """Load the models in a thread."""
        Thread(target=self._load, args=(loaded,), name="loading", daemon=True).start()

    def stop(self) -> None:
        """End the schedulers."""
        for model in self.by_name.values():
            model.scheduler.stop()

    def _load(self, loaded: Callable[[], None]) -> None:
        for model in self.by_name.values():
            model.load()
        loaded()
