"""Experiments of lessons: small models trained from drawn batches; time and memory, measured."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from regard.model.config import ModelConfig
from regard.model.masks import EVERYTHING, Mask
from regard.model.transformer import EncoderDecoder, EncoderOnly, build_model
from regard.registry import Registry
from regard.text.collate import Batch, LabelledBatch, TextBatch
from regard.training.events import Event, StepDone
from regard.training.objectives import Classification
from regard.training.settings import TrainingSettings
from regard.training.trainer import Trainer, Validate

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
    validate: Validate | None = None,
    **settings: Any,
) -> list[float]:
    """Train for `steps` with AdamW and a linear schedule; the loss of every step.

    `settings` replaces settings of the Trainer, and `validate` is its function of that name.
    """
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
    source = RandomBatches(draw, seed)
    Trainer(module, source, TrainingSettings(**values), validate=validate, observers=[note]).train()
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


@torch.no_grad()
def greedy(
    model: EncoderDecoder, source: Tensor, start: int, steps: int, mask: Mask = EVERYTHING
) -> np.ndarray:
    """The likeliest next id, `steps` times for each source: B steps."""
    memory = model.encode(source, mask)
    ids = torch.full((len(source), 1), start)
    for _ in range(steps):
        hidden = model.decode(ids, memory, mask)[:, -1:]
        ids = torch.cat((ids, model.head(hidden).argmax(-1)), dim=1)
    return ids[:, 1:].numpy()


@contextmanager
def registered(registry: Registry[Any], **variants: Any) -> Iterator[None]:
    """Variants that exist in a registry only while a lesson runs."""
    registry.update(variants)
    try:
        yield
    finally:
        for name in variants:
            del registry[name]


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, which is also the most efficient number for small models."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def language_batch(ids: np.ndarray) -> TextBatch:
    """Rows of ids of equal length: each is predicted from those before it."""
    return TextBatch(ids[:, :-1], ids[:, 1:], np.ones_like(ids[:, 1:], bool))


def labelled_batch(ids: np.ndarray, labels: np.ndarray) -> LabelledBatch:
    """Rows of ids of equal length, with a label each."""
    return LabelledBatch(ids, np.ones_like(ids, bool), labels)


def alternate(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each piece of work in each round; they take turns, after one round that is not counted.

    On a shared machine speeds vary, but the ratio of two times of one round is stable.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            if number:
                seconds[name].append(time.perf_counter() - begun)
    return seconds


def ratios(first: list[float], second: list[float]) -> list[float]:
    """The first time divided by the second, in every round."""
    return [a / b for a, b in zip(first, second, strict=True)]


def peak_memory(work: Callable[[], object]) -> int:
    """The most bytes of tensors that `work` has at one time on a CPU, counted by torch's allocator."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # the profiler writes to stderr otherwise
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        profiled.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    changes = [event["args"]["Bytes"] for event in events if event.get("name") == "[memory]"]
    return int(np.cumsum([0, *changes]).max())
