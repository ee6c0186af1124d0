"""NativeStepper: a model on the native engine as a Stepper. Loads no torch.

The library in regard/engine/native is called through ctypes, which releases the interpreter lock. Weights are
numpy arrays under the names of the torch model. R rows, D width, V vocabulary.
"""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from regard.engine.native_weights import (
    ACTIVATIONS,
    FEED_FORWARDS,
    POSITIONS,
    NativeArrays,
    NotNative,
    Weights,
    check_supported,
)
from regard.engine.stepper import Banned, Choices
from regard.errors import SettingError, ShapeError, UnknownName, UsageError, nearest
from regard.model.config import ModelConfig

DTYPES = ("float32", "float16", "int8")
FAMILIES = ("encoder-decoder", "decoder-only", "encoder-only")


class NotBuilt(NotNative):
    """This installation has no library that can be loaded; the message is the reason."""


class _Shape(c.Structure):
    """The struct Shape of native/model.h."""

    _fields_ = [
        ("family", c.c_int32),
        ("vocabulary", c.c_int32),
        ("target_vocabulary", c.c_int32),
        ("width", c.c_int32),
        ("layers", c.c_int32),
        ("decoder_layers", c.c_int32),
        ("heads", c.c_int32),
        ("groups", c.c_int32),
        ("key_width", c.c_int32),
        ("feed_forward_width", c.c_int32),
        ("gated", c.c_int32),
        ("activation", c.c_int32),
        ("root_mean_square", c.c_int32),
        ("norm_first", c.c_int32),
        ("final_norm", c.c_int32),
        ("embedding_norm", c.c_int32),
        ("segments", c.c_int32),
        ("positions", c.c_int32),
        ("context", c.c_int32),
        ("is_int8", c.c_int32),
        ("is_half", c.c_int32),
        ("norm_epsilon", c.c_float),
        ("embedding_scale", c.c_float),
    ]


INTERFACE = 3000 + c.sizeof(_Shape)  # regard_interface of native/interface.cpp


class _Tensor(c.Structure):
    """The struct Tensor of native/model.h."""

    _fields_ = [("name", c.c_char_p), ("data", c.c_void_p), ("rows", c.c_int64), ("columns", c.c_int64)]


_INT, _TEXT, _AT = c.c_int, c.c_char_p, c.c_void_p
_IDS, _BANS = (_INT, _AT, _AT), (_AT, _AT, _INT)  # see _Sequences and _Bans
FUNCTIONS = {  # of native/interface.h, with the types of their arguments and of their result
    "regard_error": ((), _TEXT),
    "regard_level": ((_TEXT,), _TEXT),
    "regard_interface": ((), _INT),
    "regard_model_new": ((_AT, _AT, _INT, _AT, _INT, _TEXT, _AT), _INT),
    "regard_model_delete": ((_AT,), None),
    "regard_session_new": ((_AT, _AT), _INT),
    "regard_session_delete": ((_AT,), None),
    "regard_session_rows": ((_AT,), _INT),
    "regard_session_admit": ((_AT, *_IDS, *_IDS), _INT),
    "regard_session_step": ((_AT, _AT, _INT, _AT), _INT),
    "regard_session_choose": ((_AT, _INT, _INT, *_BANS, _AT, _AT), _INT),
    "regard_session_logits": ((_AT, _INT, *_BANS, _AT, _AT), _INT),
    "regard_session_reorder": ((_AT, _AT, _INT), _INT),
    "regard_session_encode": ((_AT, *_IDS, _AT), _INT),
}


_READ = c.CFUNCTYPE(c.c_void_p, c.c_char_p)  # the function type Read of native/model.h


class _Handle:
    """A pointer of the library, which is deleted with its last holder.

    A fork does not delete it: it has the memory, but not the threads that the library would wait for.
    """

    def __init__(self, delete: Any):
        self.pointer, self._delete, self._process = c.c_void_p(), delete, os.getpid()

    def __del__(self):
        if self.pointer and self._process == os.getpid():
            self._delete(self.pointer)


class _Reading:
    """The function Read: it holds the array that the library reads, and an error until the call has ended."""

    def __init__(self, arrays: NativeArrays):
        self._arrays, self._name, self._array = arrays, b"", np.zeros(0, np.float32)
        self.error: BaseException | None = None
        self.function = _READ(self._read)

    def _read(self, name: bytes) -> int | None:
        try:
            if name != self._name:
                self._array = self._array[:0].copy()  # free the last one before the next is read
                self._array, self._name = self._arrays.read(name.decode()), name
            return self._array.ctypes.data
        except BaseException as error:
            self.error = error
            return None


@cache
def library() -> c.CDLL:
    """The compiled library, or NotBuilt if the package was installed without a compiler."""
    built = _built_libraries(Path(__file__).parent)
    if not built:
        raise NotBuilt("the native engine was not built; install a C++ compiler and then regard again")
    try:
        loaded = c.CDLL(str(built[0]))
        for name, (arguments, result) in FUNCTIONS.items():
            function = getattr(loaded, name)
            function.argtypes, function.restype = arguments, result
    except (OSError, AttributeError) as error:
        raise NotBuilt(f"the native engine cannot be loaded: {error}; install regard again") from None
    if loaded.regard_interface() != INTERFACE:
        raise NotBuilt(f"the native engine in {built[0]} is of another version; install regard again")
    return loaded


def _built_libraries(folder: Path) -> list[Path]:
    """The libraries of a folder, first the one that was built for this interpreter."""
    own = f"_native{EXTENSION_SUFFIXES[0]}"
    return sorted(folder.glob("_native*.so"), key=lambda path: (path.name != own, path.name))


def processor_level(wanted: str = "") -> str | None:
    """The level of the kernels on this processor, or None if it does not have the wanted one."""
    level = library().regard_level(wanted.encode())
    return None if level is None else level.decode()


def check_threads(count: int | None) -> None:
    """Raise unless this is a number of threads, or None."""
    if count is not None and not 1 <= count <= 1024:
        raise SettingError(f"threads ({count}) must lie between 1 and 1024; leave it out for the default")


class NativeModel:
    """A model whose weights are packed for the native engine.

    weights  arrays under the names of the torch model, a tied one under its first name; read one at a time
    dtype    "float32"; "float16", which products widen to float32; or "int8" with one scale for each output,
             for which inputs of products are rounded too
    level    the processor level, if not the best one of this processor

    `head` has the weights of an encoder-only model's head, which the library does not compute.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        threads: int = 1,
        dtype: str = "float32",
        level: str = "",
    ):
        check_supported(config)
        check_threads(threads)
        if dtype not in DTYPES:
            raise UnknownName(f"unknown dtype {dtype!r}; {nearest(dtype, DTYPES)}")
        self.config, self._library = config, library()
        self._handle = _Handle(self._library.regard_model_delete)
        arrays = NativeArrays(config, weights, dtype)
        self.head, self._kept = arrays.head(config), arrays.kept
        tensors, reading = _tensors(arrays), _Reading(arrays)
        made = self._library.regard_model_new(
            c.byref(_shape(config, dtype)),
            tensors,
            len(tensors),
            reading.function,
            threads,
            level.encode(),
            c.byref(self._handle.pointer),
        )
        if reading.error is not None:
            raise reading.error
        self.check(made)

    def encode(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> list[np.ndarray]:
        """The vectors of the tokens of each sequence after the encoder, T x D each."""
        given, session = _Sequences(sequences), self.session()
        ends = np.cumsum(given.lengths)
        vectors = np.empty((int(ends[-1]) if len(ends) else 0, self.config.width), np.float32)
        self.check(self._library.regard_session_encode(session.pointer, *given.arguments, _at(vectors)))
        return np.split(vectors, ends[:-1]) if len(ends) else []

    def session(self) -> _Handle:
        """A session of the library: a batch of running rows, or the memory of an encoder's pass."""
        session = _Handle(self._library.regard_session_delete)
        self.check(self._library.regard_session_new(self._handle.pointer, c.byref(session.pointer)))
        return session

    def check(self, status: int) -> None:
        """Raise the error of a call that failed."""
        if status:
            raise ShapeError(self._library.regard_error().decode())


class NativeStepper:
    """A Stepper on the native engine. See `regard.engine.stepper.Stepper`."""

    def __init__(self, model: NativeModel):
        if model.config.family == "encoder-only":
            raise UsageError("an encoder-only model cannot generate text; use a model with a decoder")
        self._model, self._library, self._check = model, model._library, model.check
        self._session = model.session()
        self._pointer = self._session.pointer

    @property
    def rows(self) -> int:
        """Number of running rows."""
        return self._library.regard_session_rows(self._pointer)

    @property
    def vocabulary(self) -> int:
        """Number of ids."""
        return self._model.config.output_vocabulary

    @property
    def limit(self) -> int | None:
        """The maximum length of a sequence: the context, if positions are learned."""
        return self._model.config.longest_output

    def admit(self, prefixes: Sequence[np.ndarray], sources: Sequence[np.ndarray] | None = None) -> None:
        """Append one row per prefix and process all tokens of it except the last."""
        own, memory = _Sequences(prefixes), _Sequences(sources or ())
        self._check(self._library.regard_session_admit(self._pointer, *own.arguments, *memory.arguments))

    def step(self, ids: np.ndarray, best: int | None = None, banned: Banned | None = None) -> Choices:
        """Append one id per row and return the candidates for the next token."""
        self.advance(ids)
        return self.all(banned) if best is None else self.best(min(best, self.vocabulary), banned)

    def advance(self, ids: np.ndarray, hidden: np.ndarray | None = None) -> None:
        """Append one id per row, and write the vectors that the head reads to `hidden`, R D."""
        ids = _ids(ids)
        if hidden is not None:
            _check_output(hidden, (len(ids), self._model.config.width))
        place = None if hidden is None else _at(hidden)
        self._check(self._library.regard_session_step(self._pointer, _at(ids), len(ids), place))

    def all(self, banned: Banned | None = None) -> Choices:
        """All candidates after `advance`."""
        rows, bans = self.rows, _bans(banned)
        logits, values = (np.empty((rows, self.vocabulary), np.float32) for _ in range(2))
        self._check(
            self._library.regard_session_logits(
                self._pointer, rows, *bans.arguments, _at(logits), _at(values)
            )
        )
        return Choices(None, values, logits)

    def best(self, count: int, banned: Banned | None = None) -> Choices:
        """The `count` most likely candidates after `advance`."""
        rows, bans = self.rows, _bans(banned)
        values, chosen = np.empty((rows, count), np.float32), np.empty((rows, count), np.int64)
        self._check(
            self._library.regard_session_choose(
                self._pointer, rows, count, *bans.arguments, _at(chosen), _at(values)
            )
        )
        return Choices(chosen, values)

    def reorder(self, rows: np.ndarray) -> None:
        """Replace row i by the previous row rows[i]."""
        kept = _ids(rows)
        self._check(self._library.regard_session_reorder(self._pointer, _at(kept), len(kept)))

    def drop(self, rows: np.ndarray) -> None:
        """Remove these rows; the others keep their order."""
        self.reorder(np.delete(np.arange(self.rows), rows))


def _at(array: np.ndarray) -> int:
    return array.ctypes.data


class _Sequences:
    """Sequences as the library takes them: ids one after the other, and lengths."""

    def __init__(self, sequences: Sequence[Sequence[int] | np.ndarray]):
        rows = list(map(_row, sequences))
        self._ids = _numbers(np.concatenate(rows) if rows else _NONE)
        self.lengths = _numbers(np.array([len(row) for row in rows], np.int64))

    @property
    def arguments(self) -> tuple[Any, ...]:
        return len(self.lengths), _at(self._ids), _at(self.lengths)


class _Bans:
    """Banned ids as the library takes them. It holds the arrays while the library reads them."""

    def __init__(self, rows: np.ndarray, ids: np.ndarray):
        if len(rows) != len(ids):
            raise ShapeError(f"{len(rows)} rows of {len(ids)} banned ids; give one row per id")
        self._rows, self._ids = rows, ids
        self.arguments = (_at(rows), _at(ids), len(rows))


_NONE = np.zeros(0, np.int64)
_NO_BANS = _Bans(_NONE, _NONE)


def _bans(banned: Banned | None) -> _Bans:
    return _NO_BANS if banned is None else _Bans(_ids(banned.rows), _ids(banned.ids))


def _check_output(array: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise unless the library can write this many numbers into the array."""
    if array.shape != shape or array.dtype != np.float32 or not array.flags.carray:
        raise ShapeError(f"the array must hold {shape} float32 numbers in order, not {array.shape}")


def _ids(values: Any) -> np.ndarray:
    return _numbers(_row(values))


def _row(values: Any) -> np.ndarray:
    """A row of whole numbers; the library reads as many as it has."""
    array = np.asarray(values)
    if array.ndim == 1 and array.dtype.kind in "iu":
        return array
    if array.shape == (0,):
        return _NONE
    raise ShapeError(
        f"ids of type {array.dtype} and shape {array.shape} must be whole numbers in a row; ask the tokenizer"
    )


def _numbers(array: np.ndarray) -> np.ndarray:
    """A row of whole numbers as the library takes them; it checks them."""
    return np.ascontiguousarray(array, np.int64)


def _tensors(arrays: NativeArrays) -> c.Array[_Tensor]:
    """Names and sizes, with the data of those that are used in place."""
    tensors = (_Tensor * len(arrays.shapes))()
    for tensor, (name, shape) in zip(tensors, arrays.shapes.items(), strict=True):
        kept = arrays.kept.get(name)
        tensor.name, tensor.data = name.encode(), None if kept is None else kept.ctypes.data
        tensor.rows, tensor.columns = shape[0], prod(shape[1:])
    return tensors


def _shape(config: ModelConfig, dtype: str) -> _Shape:
    activation, gated = FEED_FORWARDS[config.feed_forward]
    return _Shape(
        family=FAMILIES.index(config.family),
        vocabulary=config.vocabulary,
        target_vocabulary=config.output_vocabulary,
        width=config.width,
        layers=config.layers,
        decoder_layers=config.decoder_layers or config.layers,
        heads=config.heads,
        groups=config.groups,
        key_width=config.key_size,
        feed_forward_width=config.feed_forward_width,
        gated=gated,
        activation=ACTIVATIONS.index(activation),
        root_mean_square=config.norm == "rms",
        norm_first=config.residual == "pre",
        final_norm=config.has_final_norm,
        embedding_norm=config.embedding_norm,
        segments=config.segments,
        positions=POSITIONS.index(config.positions),
        context=config.context,
        is_int8=dtype == "int8",
        is_half=dtype == "float16",
        norm_epsilon=config.norm_epsilon,
        embedding_scale=config.width**0.5 if config.scale_embeddings else 1.0,
    )
