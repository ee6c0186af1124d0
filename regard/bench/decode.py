"""`regard bench decode`: search and encoding compared with other libraries.

All libraries have the same weights and decode the same number of ids, each in its own process, which is
stopped while others run. CTranslate2, onnxruntime and llama.cpp run in several settings, and the best one is
compared. onnxruntime only encodes, and llama.cpp only decodes GPT-2.
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
from regard.engine.native_stepper import NotNative, library
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


@dataclass(frozen=True)
class Peer:
    """The packages that a peer and its weights need, and what `pip install` takes."""

    packages: tuple[str, ...]
    install: str


PEERS = {
    "transformers": Peer(("transformers",), "'regard[bench]'"),
    "ctranslate2": Peer(("transformers", "ctranslate2"), "'regard[bench]'"),
    "onnxruntime": Peer(("onnxruntime", "onnx", "onnxscript"), "'regard[exchange]'"),
    "llama.cpp": Peer(("llama_cpp", "gguf"), "llama-cpp-python gguf"),
}
# The engines that our search can run on, and the settings of each that are measured.
BACKENDS: Registry[dict[str, str]] = Registry(
    "engine",
    {
        "torch": {"": "regard"},
        "native": {"float32": "regard-native", "int8": "regard-native-int8"},
        "native-int8": {"int8": "regard-native-int8"},
    },
)
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
        own_task = replace(_in_folder(self._folders(shape)["regard"], task), threads=self.threads)
        return ENGINES[next(iter(BACKENDS.find(self.engine).values()))](own_task)

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
        reads = decoder_weights(shape.config) if (rows, task.beams) == (1, 1) and task.length else 0
        return Case(name, unit, amount, lambda: self._implementations(shape, task), reads=reads)

    def _folders(self, shape: Shape) -> dict[str, Path]:
        """The model folders of a shape, written for its first case."""
        existing = {path.name.rpartition("-")[2]: path for path in self.folder.glob(f"{shape.name}-*")}
        return existing or write_all(shape, self.folder, installed_peers())

    def _implementations(self, shape: Shape, task: DecodingTask) -> list[Implementation]:
        folders = self._folders(shape)
        own_task = replace(_in_folder(folders["regard"], task), threads=self.threads)
        implementations: list[Implementation] = []
        output = None
        try:
            for setting, engine in BACKENDS.find(self.engine).items():
                ours = Worker(engine, own_task, self.threads)
                output = output or ours.output
                implementations.append(_implementation(OURS, ours, setting))
            for name in [name for name in installed_peers() if name in folders]:
                implementations += self._peers(name, _in_folder(folders[name], task), output)
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
            yield _implementation(name, worker, setting, agreement)


def _implementation(
    name: str, worker: Worker, setting: str, agreement: float | None = None
) -> Implementation:
    return Implementation(name, worker.measure, setting, agreement, worker.close, worker.memory, worker.start)


@contextmanager
def temporary_bench(threads: int, engine: str = "torch", shorten: int = 1) -> Iterator[Bench]:
    """A benchmark in a temporary folder; reports which peers are not installed."""
    BACKENDS.find(engine)
    engine = _built(engine)
    for name in (name for name in PEERS if name not in installed_peers()):
        print(f"skipped: {name} is not installed; pip install {PEERS[name].install}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        yield Bench(Path(folder), threads, engine, shorten)


def _built(engine: str) -> str:
    """The engine, or torch with a note if the native one was not built."""
    try:
        if engine != "torch":
            library()
    except NotNative as reason:
        print(f"skipped: {reason}; measuring torch", file=sys.stderr)
        return "torch"
    return engine


def installed_peers() -> list[str]:
    """The installed peers, with the packages that write their weights."""
    return [name for name, peer in PEERS.items() if all(map(find_spec, peer.packages))]


def decoder_weights(config: ModelConfig) -> int:
    """The weights of the matrices that one step of the decoder reads."""
    queries, keys = config.heads * config.key_size, config.groups * config.key_size
    attention = config.width * (2 * queries + 2 * keys)
    cross = 2 * config.width * queries if config.family == "encoder-decoder" else 0
    block = attention + cross + 2 * config.width * config.feed_forward_width
    vocabulary = config.output_vocabulary
    return (config.decoder_layers or config.layers) * block + vocabulary * config.width


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
    if name == "transformers":
        yield "", task
        return
    several = f"{threads} thread{'s' * (threads > 1)}"
    yield f"fp32, {several}", replace(task, threads=threads)
    if name in ("onnxruntime", "llama.cpp"):
        yield f"int8, {several}", replace(task, compute="int8", threads=threads)
        return
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
