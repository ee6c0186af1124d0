"""Small trained models for lessons: batches drawn from a seed, and a Trainer that saves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import nn

from regard.model.config import ModelConfig
from regard.model.transformer import EncoderOnly, build_model
from regard.registry import Registry
from regard.text.collate import Batch, LabelledBatch, ParallelBatch, TextBatch
from regard.training.events import Event, StepDone
from regard.training.objectives import Classification
from regard.training.settings import TrainingSettings
from regard.training.trainer import Trainer

Drawn = TypeVar("Drawn", bound=Batch)


class ClassificationTask(Protocol):
    """Texts with labels, drawn from a random generator."""

    @property
    def vocabulary(self) -> int: ...

    @property
    def classes(self) -> int: ...

    def draw(self, random: np.random.Generator) -> LabelledBatch:
        """A batch."""
        ...


@dataclass
class RandomBatches(Generic[Drawn]):
    """An endless source of batches; batch i depends only on the seed and on i."""

    draw: Callable[[np.random.Generator], Drawn]
    seed: int = 1
    count: int = 0

    @property
    def epoch(self) -> int:
        """Always 0: no example is repeated on purpose."""
        return 0

    def next(self) -> Drawn:
        """The next batch."""
        self.count += 1
        return self.draw(np.random.default_rng((self.seed, self.count)))

    def state(self) -> dict[str, Any]:
        """The number of batches drawn."""
        return {"count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue after this number of batches."""
        self.count = state["count"]


def fit(
    module: nn.Module,
    draw: Callable[[np.random.Generator], Batch],
    steps: int,
    seed: int,
    learning_rate: float = 3e-3,
    **settings: Any,
) -> list[float]:
    """Train for `steps` with AdamW and a linear schedule; the loss of every step."""
    losses: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, StepDone):
            losses.append(event.loss)

    values: dict[str, Any] = {
        "steps": steps,
        "seed": seed,
        "optimizer": {"learning_rate": learning_rate},
        "schedule": {"name": "linear", "warmup_steps": max(1, steps // 10)},
        **settings,
    }
    Trainer(module, RandomBatches(draw, seed), TrainingSettings(**values), observers=[note]).train()
    module.eval()
    return losses


def seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A module whose initial weights depend on the seed alone."""
    torch.manual_seed(seed)
    return build()


def classifier(
    task: ClassificationTask, seed: int, steps: int, **config: Any
) -> tuple[EncoderOnly, list[float]]:
    """A small encoder trained to classify, and the loss of every step; `config` replaces its settings."""
    settings = {
        "family": "encoder-only", "output": "classes", "classes": task.classes,
        "vocabulary": task.vocabulary, "context": 64, "width": 64, "layers": 1, "heads": 2,
        "feed_forward_width": 128, "positions": "none",
    }  # fmt: skip
    model = seeded(lambda: build_model(ModelConfig(**settings | config)), seed)
    assert isinstance(model, EncoderOnly)
    return model, fit(Classification(model), task.draw, steps, seed)


@torch.no_grad()
def accuracy(model: EncoderOnly, task: ClassificationTask, seed: int, batches: int = 16) -> float:
    """The share of right labels in batches that training did not draw."""
    right = []
    for number in range(batches):
        batch = task.draw(np.random.default_rng((seed, 1 << 20, number)))
        right.append((model(torch.as_tensor(batch.input)).argmax(-1).numpy() == batch.labels).mean())
    return float(np.mean(right))


@contextmanager
def registered(registry: Registry[Any], **variants: Any) -> Iterator[None]:
    """Variants that exist in a registry only while a lesson runs."""
    registry.update(variants)
    try:
        yield
    finally:
        for name in variants:
            del registry[name]


def language_batch(ids: np.ndarray) -> TextBatch:
    """Rows of ids of equal length: each is predicted from those before it."""
    return TextBatch(ids[:, :-1], ids[:, 1:], np.ones_like(ids[:, 1:], bool))


def labelled_batch(ids: np.ndarray, labels: np.ndarray) -> LabelledBatch:
    """Rows of ids of equal length, with a label each."""
    return LabelledBatch(ids, np.ones_like(ids, bool), labels)


def parallel_batch(source: np.ndarray, target: np.ndarray, start: int) -> ParallelBatch:
    """Rows of source and target ids of equal lengths; the target starts with `start`."""
    first = np.full((len(target), 1), start, target.dtype)
    target_in = np.concatenate([first, target[:, :-1]], 1)
    return ParallelBatch(source, np.ones_like(source, bool), target_in, target, np.ones_like(target, bool))
