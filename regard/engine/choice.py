"""Which engine computes with a model: the native one where it can be used, otherwise torch.

`engine` is "native", "torch" or None. None stands for the environment variable REGARD_ENGINE, and without it
for native. Where native cannot be used, torch is, and the reason is logged once: as a warning if the engine
was asked for or not built, otherwise as information. Loads no torch for a stored model that the native engine
can compute.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regard.engine.native_stepper import (
    NativeModel,
    NativeStepper,
    NotBuilt,
    check_threads,
    library,
    processor_level,
)
from regard.engine.native_weights import NotNative, Weights, check_supported
from regard.engine.stepper import Stepper
from regard.errors import ShapeError, UnknownName, nearest

if TYPE_CHECKING:
    from regard.engine.torch_stepper import Blend
    from regard.model.config import ModelConfig
    from regard.model.parts import Part

log = logging.getLogger("regard.engine")

ENGINES = ("native", "torch")
VARIABLE = "REGARD_ENGINE"
MAX_THREADS = 8  # without a setting; more threads meet more often than they help in a step

_logged: set[str] = set()


@dataclass(frozen=True)
class StoredModel:
    """A model on disk: its weights for the native engine, and a function that builds the torch model.

    `obstacle` says why the native engine cannot use the weights.
    """

    config: ModelConfig
    weights: Weights
    build: Callable[[], Any]
    obstacle: str | None = None


@dataclass(frozen=True)
class _Packed:
    """The weights on the native engine, the checksum of the torch model that has the same, the process."""

    model: NativeModel
    checksum: Any
    process: int


class Engine:
    """A model, and what computes with it. Threads may share it.

    model      a torch model, or one on disk, whose torch model is built when something needs it
    engine     see above
    threads    of the native engine; OMP_NUM_THREADS, torch's number or the number of cores if not set
    dtype      of the native engine's weights: float32, float16 or int8
    """

    def __init__(
        self, model: Any, engine: str | None = None, threads: int | None = None, dtype: str = "float32"
    ):
        check_threads(threads)
        self.name, self.threads, self.dtype = chosen_engine(engine), threads, dtype
        self._is_requested = engine == "native" or os.environ.get(VARIABLE) == "native"
        self._stored = model if isinstance(model, StoredModel) else None
        self._module: Any = None if self._stored else model
        self._settings: Any = None
        self._packed: _Packed | None = None
        self._lock = threading.RLock()

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return (self._stored or self._module).config  # type: ignore[union-attr]

    @property
    def module(self) -> Any:
        """The torch model."""
        with self._lock:
            if self._module is None:
                assert self._stored is not None
                self._module = self._stored.build()
                if self._packed is not None:  # from now on the weights can be changed
                    self._packed = replace(self._packed, checksum=self._checksum())
            return self._module

    def native(self, ablate: Sequence[Part] = ()) -> NativeModel | None:
        """The model on the native engine with its present weights, or None if torch must be used."""
        try:
            with self._lock:
                self.check(ablate)
                return self._up_to_date()
        except NotNative as reason:
            self._log(reason)
            return None

    def stepper(self, ablate: Sequence[Part] = (), blend: Blend | None = None) -> Stepper:
        """What search steps; `blend` changes the distribution of every step."""
        native = self.native(ablate)
        if native is None:
            from regard.engine.torch_stepper import TorchStepper

            return TorchStepper(self.module, ablate=ablate, blend=blend)
        if blend is None:
            return NativeStepper(native)
        from regard.engine.blended_stepper import BlendedStepper

        return BlendedStepper(native, blend)

    def check(self, ablate: Sequence[Part] = ()) -> None:
        """Raise NotNative, with the reason, unless the native engine can compute this model now."""
        if self.name == "torch":
            raise NotNative("torch was chosen")
        library()
        check_supported(self.config)
        if self._stored is not None and self._stored.obstacle:
            raise NotNative(self._stored.obstacle)
        if ablate:
            raise NotNative("parts are ablated")
        if self._module is not None:
            from regard.engine.torch_module import configured_settings, obstacle

            self._settings = self._settings or configured_settings(self._module)
            if reason := obstacle(self._module, self._settings):
                raise NotNative(reason)

    def _up_to_date(self) -> NativeModel:
        """The packed weights, packed again if they have changed or this process is a fork."""
        checksum, packed = self._checksum(), self._packed
        if packed is None or packed.process != os.getpid() or not _is_same(packed.checksum, checksum):
            try:
                model = NativeModel(self.config, self._weights(), self.threads or threads(), self.dtype)
            except ShapeError as error:
                raise NotNative(str(error)) from None
            packed = self._packed = _Packed(model, checksum, os.getpid())
        return packed.model

    def _weights(self) -> Weights:
        if self._module is None:
            assert self._stored is not None
            return self._stored.weights
        from regard.engine.torch_module import weights_of

        return weights_of(self._module)

    def _checksum(self) -> Any:
        if self._module is None:
            return None
        from regard.engine.torch_module import checksum

        return checksum(self._module)

    def _log(self, reason: NotNative) -> None:
        message = str(reason)
        if message not in _logged and self.name != "torch":
            _logged.add(message)
            is_unexpected = self._is_requested or isinstance(reason, NotBuilt)
            level = logging.WARNING if is_unexpected else logging.INFO
            log.log(level, "torch is used in place of the native engine: %s", message)


def engine_of(model: Any, engine: str | None = None) -> Engine:
    """The engine of a torch model, or an Engine as it is."""
    return model if isinstance(model, Engine) else Engine(model, engine)


def chosen_engine(engine: str | None = None) -> str:
    """The engine that an argument or REGARD_ENGINE names; native without either."""
    name = engine or os.environ.get(VARIABLE) or ENGINES[0]
    if name not in ENGINES:
        raise UnknownName(f"unknown engine {name!r}; {nearest(name, ENGINES)}")
    return name


def active_engine() -> tuple[str, str]:
    """The engine for models that both can compute, and why it is that one."""
    try:
        name = chosen_engine()
        level = processor_level()
    except NotNative as reason:
        return "torch", str(reason)
    if name == "torch":
        return "torch", f"{VARIABLE}=torch"
    return "native", f"kernels for {level}"


def threads() -> int:
    """The number of threads of the native engine without a setting."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    is_given = given.isdecimal() and int(given) > 0
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        count = torch.get_num_threads()
    else:
        count = int(given) if is_given else cores()
    return min(count, 1024 if is_given else MAX_THREADS)


def cores() -> int:
    """The number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        return os.cpu_count() or 1


def _is_same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool((one == other).all())
