"""Small trained models for lessons: batches drawn from a seed, and a Trainer that saves nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from regard.text.collate import Batch, LabelledBatch, ParallelBatch, TextBatch
from regard.training.events import Event, StepDone
from regard.training.settings import TrainingSettings
from regard.training.trainer import Trainer

Drawn = TypeVar("Drawn", bound=Batch)


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
