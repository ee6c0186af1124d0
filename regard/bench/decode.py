"""`regard bench decode`: search and encoding compared with transformers' generate and CTranslate2.

All libraries have the same weights and decode the same number of ids, each in its own process, which is
stopped while others run. CTranslate2 runs in several settings, and the best one is compared.
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

from regard.bench.engines import ENGINES, DecodingTask
from regard.bench.folders import END, Shape, write_all
from regard.bench.interleaved import OURS, Case, Implementation
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
# Rows, beams, input length, output length.
WORK = {
    "tiny": [(1, 1, 20, 24), (32, 1, 20, 24), (1, 4, 20, 24), (64, 4, 20, 24)],
    "marian": [(1, 1, 20, 24), (32, 1, 20, 24), (1, 4, 20, 24), (32, 4, 20, 24)],
    "gpt-2": [(1, 1, 32, 128), (8, 1, 32, 128)],
    "minilm": [(8, 1, 16, 0), (8, 1, 64, 0), (8, 1, 256, 0)],
}
# The engines that our search can run on.
BACKENDS: Registry[str] = Registry("engine", {"torch": "regard"})
TOLERANCE = 1e-3  # of the vectors of two encoders


@dataclass(frozen=True)
class Bench:
    """A benchmark run: the folder of the models, threads, our engine, and the divisor of output lengths."""

    folder: Path
    threads: int
    engine: str = "torch"
    shorten: int = 1

    def cases(self) -> list[Case]:
        """All shapes with all their tasks."""
        return [self._case(name, shape, task) for name, (shape, task) in self._tasks().items()]

    def work(self, name: str) -> Callable[[], Any]:
        """Our implementation of a case in this process, for profiling."""
        shape, task = self._tasks()[name]
        return ENGINES[BACKENDS.find(self.engine)](_in_folder(self._folders(shape)["regard"], task))

    def _tasks(self) -> dict[str, tuple[Shape, DecodingTask]]:
        return {
            _name(shape, rows, beams, input_length): (
                shape,
                _task(shape, rows, beams, input_length, -(-length // self.shorten)),
            )
            for shape in SHAPES
            for rows, beams, input_length, length in WORK[shape.name]
        }

    def _case(self, name: str, shape: Shape, task: DecodingTask) -> Case:
        rows = len(task.rows)
        unit, amount = ("sentences/s", rows) if task.kind == "encoding" else ("tokens/s", rows * task.length)
        return Case(name, unit, amount, lambda: self._implementations(shape, task))

    def _folders(self, shape: Shape) -> dict[str, Path]:
        """The model folders of a shape, written for its first case."""
        existing = {path.name.rpartition("-")[2]: path for path in self.folder.glob(f"{shape.name}-*")}
        return existing or write_all(shape, self.folder, "ctranslate2" in installed_peers())

    def _implementations(self, shape: Shape, task: DecodingTask) -> list[Implementation]:
        folders = self._folders(shape)
        ours = Worker(BACKENDS.find(self.engine), _in_folder(folders["regard"], task), self.threads)
        implementations = [Implementation(OURS, ours.measure, close=ours.close)]
        try:
            for name in installed_peers():
                implementations += self._peers(name, _in_folder(folders[name], task), ours.output)
        except BaseException:
            for implementation in implementations:
                implementation.close()
            raise
        return implementations

    def _peers(self, name: str, task: DecodingTask, ours: Any) -> Iterator[Implementation]:
        """One library in each of its settings; a setting that fails is reported and skipped."""
        for setting, changed in _settings(name, task, self.threads):
            try:
                worker = Worker(name, changed, self.threads)
            except RegardError as error:
                print(f"skipped: {error}", file=sys.stderr)
                continue
            agreement = output_agreement(ours, worker.output) if _is_comparable(changed) else None
            yield Implementation(name, worker.measure, setting, agreement, worker.close)


@contextmanager
def temporary_bench(threads: int, engine: str = "torch", shorten: int = 1) -> Iterator[Bench]:
    """A benchmark in a temporary folder; reports which peers are not installed."""
    BACKENDS.find(engine)
    for name in ("transformers", "ctranslate2"):
        if name not in installed_peers():
            print(f"skipped: {name} is not installed; pip install 'regard[bench]'", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        yield Bench(Path(folder), threads, engine, shorten)


def installed_peers() -> list[str]:
    """The installed peers; CTranslate2's weights are converted with transformers."""
    if find_spec("transformers") is None:
        return []
    return ["transformers"] + ["ctranslate2"] * (find_spec("ctranslate2") is not None)


def output_agreement(ours: Any, theirs: Any) -> float:
    """The share of rows with equal ids, or with vectors within the tolerance."""
    if len(ours) != len(theirs):
        return 0.0
    same = [
        len(a) == len(b) and bool(np.allclose(a, b, rtol=0, atol=TOLERANCE))
        for a, b in zip(ours, theirs, strict=True)
    ]
    return sum(same) / len(same)


def _in_folder(folder: Path, task: DecodingTask) -> DecodingTask:
    return replace(task, folder=str(folder))


def _is_comparable(task: DecodingTask) -> bool:
    """Whether outputs must be equal: length penalties of beams differ between libraries, and int8 rounds."""
    return task.beams == 1 and task.compute == "float32"


def _settings(name: str, task: DecodingTask, threads: int) -> Iterator[tuple[str, DecodingTask]]:
    """The settings of a library."""
    if name != "ctranslate2":
        yield "", task
        return
    yield f"fp32, {threads} thread{'s' * (threads > 1)}", replace(task, threads=threads)
    yield "int8, 1 thread", replace(task, compute="int8", threads=1)
    yield f"int8, {threads} x 1", replace(task, compute="int8", workers=threads, threads=1)


def _name(shape: Shape, rows: int, beams: int, input_length: int) -> str:
    if shape.kind == "encoding":
        return f"{shape.name}-{input_length}"
    return f"{shape.name}-{rows}" + (f"-beam-{beams}" if beams > 1 else "")


def _task(shape: Shape, rows: int, beams: int, input_length: int, length: int) -> DecodingTask:
    """A task with random rows; a source ends with the end id."""
    random = np.random.default_rng(0)
    ids = random.integers(4, shape.last, (rows, input_length))
    if shape.kind == "translation":
        ids[:, -1] = END
    return DecodingTask(shape.kind, "", ids.tolist(), shape.last, shape.end, length, beams)
