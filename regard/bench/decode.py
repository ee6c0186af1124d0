"""`regard bench decode`: search and encoding beside transformers' generate and CTranslate2.

Everybody has the same weights and decodes as many ids, in a process of its own that stands still while
others work. CTranslate2 runs in several ways and counts at its best.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from regard.bench.engines import ENGINES, Task
from regard.bench.folders import END, Shape, write_all
from regard.bench.interleaved import OURS, Case, Contender
from regard.bench.worker import Worker
from regard.errors import RegardError
from regard.model.config import ModelConfig
from regard.registry import Registry

_MARIAN: dict[str, Any] = dict(positions="sinusoidal-halves", context=512, head_bias=True, dropout=0.0)
SHAPES = [
    Shape("tiny", "marian", ModelConfig.named("tiny", **_MARIAN)),
    Shape("marian", "marian", ModelConfig(vocabulary=32_000, feed_forward="silu", **_MARIAN)),
    Shape("gpt-2", "gpt2", ModelConfig.named("gpt-2", dropout=0.0)),
    Shape(
        "minilm",
        "bert",
        ModelConfig.named(
            "bert-base", width=384, layers=6, heads=12, feed_forward_width=1536, output="pooled", dropout=0.0
        ),
    ),
]
# Rows, beams, ids in, ids out.
WORK = {
    "tiny": [(1, 1, 20, 24), (32, 1, 20, 24), (1, 4, 20, 24), (64, 4, 20, 24)],
    "marian": [(1, 1, 20, 24), (32, 1, 20, 24), (1, 4, 20, 24), (32, 4, 20, 24)],
    "gpt-2": [(1, 1, 32, 128), (8, 1, 32, 128)],
    "minilm": [(8, 1, 16, 0), (8, 1, 64, 0), (8, 1, 256, 0)],
}
# What search over a model of ours can run on; a native engine will be another entry.
BACKENDS: Registry[str] = Registry("engine", {"torch": "regard"})
CLOSE = 1e-3  # how far two encoders' vectors may lie apart


@dataclass(frozen=True)
class Bench:
    """A run: where folders are written, on how many threads everybody works, how long outputs are."""

    place: Path
    threads: int
    engine: str = "torch"
    shorten: int = 1

    def cases(self) -> list[Case]:
        """Every shape at every piece of work."""
        return [self._case(name, shape, task) for name, (shape, task) in self._tasks().items()]

    def work(self, name: str) -> Callable[[], Any]:
        """Our own piece of a case's work in this very process, to be profiled."""
        shape, task = self._tasks()[name]
        return ENGINES[BACKENDS.find(self.engine)](_in(self._folders(shape)["regard"], task))

    def _tasks(self) -> dict[str, tuple[Shape, Task]]:
        return {
            _name(shape, rows, beams, given): (
                shape,
                _task(shape, rows, beams, given, -(-length // self.shorten)),
            )
            for shape in SHAPES
            for rows, beams, given, length in WORK[shape.name]
        }

    def _case(self, name: str, shape: Shape, task: Task) -> Case:
        rows = len(task.rows)
        unit, amount = ("sentences/s", rows) if task.kind == "encoding" else ("tokens/s", rows * task.length)
        return Case(name, unit, amount, lambda: self._contenders(shape, task))

    def _folders(self, shape: Shape) -> dict[str, Path]:
        """Written for the first case of a shape, found by the others."""
        found = {path.name.rpartition("-")[2]: path for path in self.place.glob(f"{shape.name}-*")}
        return found or write_all(shape, self.place, "ctranslate2" in libraries())

    def _contenders(self, shape: Shape, task: Task) -> list[Contender]:
        folders = self._folders(shape)
        ours = Worker(BACKENDS.find(self.engine), _in(folders["regard"], task), self.threads)
        contenders = [Contender(OURS, ours.turn, leave=ours.close)]
        try:
            for name in libraries():
                contenders += self._peers(name, _in(folders[name], task), ours.output)
        except BaseException:
            for contender in contenders:
                contender.leave()
            raise
        return contenders

    def _peers(self, name: str, task: Task, ours: Any) -> Iterator[Contender]:
        """One library in each of its ways; one that fails is named and left out."""
        for setting, changed in _settings(name, task, self.threads):
            try:
                worker = Worker(name, changed, self.threads)
            except RegardError as error:
                print(f"left out: {error}", file=sys.stderr)
                continue
            agreement = agree(ours, worker.output) if _comparable(changed) else None
            yield Contender(name, worker.turn, setting, agreement, worker.close)


@contextmanager
def prepared(threads: int, engine: str = "torch", shorten: int = 1) -> Iterator[Bench]:
    """A bench with a folder that is gone afterwards; says which peers are missing."""
    BACKENDS.find(engine)
    for name in ("transformers", "ctranslate2"):
        if name not in libraries():
            print(f"{name} is left out; pip install 'regard[bench]' brings it", file=sys.stderr)
    with tempfile.TemporaryDirectory() as place:
        yield Bench(Path(place), threads, engine, shorten)


def libraries() -> list[str]:
    """The peers that are here; CTranslate2 is given its weights by way of transformers."""
    if find_spec("transformers") is None:
        return []
    return ["transformers"] + ["ctranslate2"] * (find_spec("ctranslate2") is not None)


def agree(ours: Any, theirs: Any) -> float:
    """The share of rows in which two outputs are the same: ids equal, vectors close."""
    if len(ours) != len(theirs):
        return 0.0
    same = [
        len(a) == len(b) and bool(np.allclose(a, b, rtol=0, atol=CLOSE))
        for a, b in zip(ours, theirs, strict=True)
    ]
    return sum(same) / len(same)


def _in(folder: Path, task: Task) -> Task:
    return replace(task, folder=str(folder))


def _comparable(task: Task) -> bool:
    """Greedy and in full precision: beams rank by penalties of their own, and int8 rounds."""
    return task.beams == 1 and task.compute == "float32"


def _settings(name: str, task: Task, threads: int) -> Iterator[tuple[str, Task]]:
    """A library's ways of running."""
    if name != "ctranslate2":
        yield "", task
        return
    yield f"fp32, {threads} thread{'s' * (threads > 1)}", replace(task, threads=threads)
    yield "int8, 1 thread", replace(task, compute="int8", threads=1)
    yield f"int8, {threads} x 1", replace(task, compute="int8", workers=threads, threads=1)


def _name(shape: Shape, rows: int, beams: int, given: int) -> str:
    if shape.kind == "encoding":
        return f"{shape.name}-{given}"
    return f"{shape.name}-{rows}" + (f"-beam-{beams}" if beams > 1 else "")


def _task(shape: Shape, rows: int, beams: int, given: int, length: int) -> Task:
    """Random rows; a source ends with the end."""
    random = np.random.default_rng(0)
    ids = random.integers(4, shape.last, (rows, given))
    if shape.kind == "translation":
        ids[:, -1] = END
    return Task(shape.kind, "", ids.tolist(), shape.last, shape.end, length, beams)
