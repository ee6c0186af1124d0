"""A trained model with what it needs to read and write text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.checkpoints.folder import load_model, read_folder
from regard.engine.device import find_device
from regard.errors import CheckpointError
from regard.inference.loading import model_folder
from regard.model.transformer import Transformer
from regard.runs.recipe import SHAPES
from regard.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Vocabularies:
    """The names of things: tokens of both sides, and labels in the order of their numbers."""

    tokenizers: Tokenizers
    labels: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What the tokenizers' own files do not hold."""
        return {"labels": list(self.labels)} if self.labels else {}


@dataclass(frozen=True)
class Trained:
    """A model, its vocabularies and what it was trained for."""

    module: Transformer
    words: Vocabularies
    task: str

    @property
    def context(self) -> int:
        """The longest sequence it was trained on."""
        return self.module.config.context

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> Trained:
        """The model of a model folder, or of a run's, on a device."""
        read = read_folder(model_folder(folder))
        place = find_device(device)
        words = Vocabularies(read.tokenizers(), read.labels)
        return cls(load_model(read).eval().to(place), words, _task(read.task, read.config.model_dump()))


def _task(name: str, config: dict[str, Any]) -> str:
    if name in SHAPES:
        return name
    for task, shape in SHAPES.items():
        if all(config[key] == value for key, value in shape.items()):
            return task
    raise CheckpointError(f"a model of output {config['output']} fits no task, so it cannot be scored")
