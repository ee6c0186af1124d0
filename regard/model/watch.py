"""Looking inside: every intermediate of a pass by name, and parts switched off or replaced.

    with watch(model) as seen:
        model(source, target)
    seen["encoder.2.attention.weights"]                     # B H Q K

A layer asks `see = watching(self)` and passes what it computes through `see(name, value)`. What is
being watched lives in a context variable, never on a module, so two threads watching one model do
not meet. A name is the module's path, without the word "blocks", and the observation point.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from difflib import get_close_matches
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import SettingError, UnknownName, UsageError, nearest

Part = str | tuple[str, int, int]
Replacement = Tensor | Callable[[Tensor], Tensor]
WRITTEN_OUT = ("scores", "scaled", "mask", "weights")  # what the fused kernel never shows


class Unwatched:
    """What a layer gets while nobody looks: values pass through, nothing is off."""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return value

    def give(self, name: str, value: Tensor) -> None:
        """Show a value that nobody else holds, so that it need not be copied."""

    def is_ablated(self, part: str) -> bool:
        """Whether this part of the module is switched off."""
        return False

    def wants(self, *names: str) -> bool:
        """Whether any of these values would be recorded."""
        return False

    def changes(self, *names: str) -> bool:
        """Whether any of these values is replaced, or its gradient asked for."""
        return False


UNWATCHED = Unwatched()
_watching: ContextVar[Seen | None] = ContextVar("regard_watching", default=None)


def watching(module: nn.Module) -> Unwatched:
    """The observer of this module in this thread; compiled code, whose tracer cannot ask, has none."""
    if torch.compiler.is_compiling():
        return UNWATCHED
    seen = _watching.get()
    return UNWATCHED if seen is None else seen._observer(module)


@contextmanager
def watch(
    model: nn.Module,
    only: str | Iterable[str] | None = None,
    ablate: Part | Iterable[Part] = (),
    patch: Mapping[str, Replacement] | None = None,
    gradients: str | Iterable[str] = (),
) -> Iterator[Seen]:
    """Record, by name, what the model computes in this block and this thread.

    only       which names to record: whole names, either end of one ("weights", "encoder.2"), or
               patterns ("encoder.*.weights"); nothing given records everything, () nothing
    ablate     what to ablate, one part or many: heads as ("encoder", layer, head), likewise "decoder"
               and "cross"; parts by name: "scaling" (the division by sqrt(d_k)), "positions", "residual",
               "norm", everywhere or at one place ("encoder.2.around_attention.norm")
    patch      values to put in place of the model's own: a tensor, or a function of the model's value
    gradients  names whose gradients `seen.gradients(output)` will give

    The fused kernel's result flows on while scores and weights are written out beside it; only where
    they are patched, or their gradient is asked for, is that attention computed written out. A second
    pass inside the block replaces what the first one left. A compiled model runs its eager original.
    """
    seen = Seen(model, only, ablate, patch or {}, gradients)
    with seen.active():
        yield seen


def watchable(model: nn.Module) -> list[str]:
    """Every name that can be watched or patched in this model."""
    return [f"{name}{point}" for module, name in _paths(model) for point in getattr(module, "points", ())]


def switchable(model: nn.Module) -> list[str]:
    """Every part, heads apart, that can be switched off in this model."""
    return [f"{name}{part}" for module, name in _paths(model) for part in getattr(module, "switches", ())]


def attention_path(kind: str, layer: int) -> str:
    """Where an attention of that kind ("encoder", "decoder", "cross") stands: "decoder.2.cross"."""
    places = {
        "encoder": f"encoder.{layer}.attention",
        "decoder": f"decoder.{layer}.attention",
        "cross": f"decoder.{layer}.cross",
    }
    if kind not in places:
        raise UnknownName(f"unknown kind of attention {kind!r}; {nearest(kind, places)}")
    return places[kind]


class Seen(Mapping[str, Tensor]):
    """What was seen, by name: a mapping to tensors of the reader's own."""

    def __init__(
        self,
        model: nn.Module,
        only: str | Iterable[str] | None = None,
        ablate: Part | Iterable[Part] = (),
        patch: Mapping[str, Replacement] = MappingProxyType({}),
        gradients: str | Iterable[str] = (),
    ):
        known = watchable(model)
        self._wanted = set(known) if only is None else _select(only, known)
        self._differentiated = _select(gradients, known)
        self._patches = dict(patch)
        for name in patch:
            if name not in known:
                raise UnknownName(f"nothing in this model is called {name!r}; {_nearest_few(name, known)}")
        self._heads_off, self._parts_off = _split_off(model, ablate)
        self._modules = dict(_paths(model))
        self._values: dict[str, Tensor] = {}
        self._live: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._values:
            raise UnknownName(f"nothing was seen under {name!r}; {_nearest_few(name, self._values)}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Watch in this block and this thread; the same block can be entered again and again."""
        token = _watching.set(self)
        try:
            with _eagerly():
                yield
        finally:
            _watching.reset(token)

    def gradients(self, output: Tensor) -> dict[str, Tensor]:
        """How a chosen number (one logit, one log-probability) changes with each value asked for."""
        if not self._live:
            raise UsageError("no gradient was asked for; name the values with watch(model, gradients=...)")
        found = torch.autograd.grad(output, list(self._live.values()), retain_graph=True, allow_unused=True)
        pairs = zip(self._live.items(), found, strict=True)
        return {name: torch.zeros_like(value) if g is None else g for (name, value), g in pairs}

    def _observer(self, module: nn.Module) -> Unwatched:
        name = self._modules.get(module)
        return UNWATCHED if name is None else Observer(self, name)


class Observer(Unwatched):
    """The observer of one module of a watched model."""

    def __init__(self, seen: Seen, path: str):
        self._seen, self._path = seen, path

    def __call__(self, name: str, value: Tensor) -> Tensor:
        seen, name = self._seen, self._path + name
        if name in seen._patches:
            value = _replaced(name, value, seen._patches[name])
        if name.endswith(".heads") and self._path in seen._heads_off:
            value = _without_heads(value, seen._heads_off[self._path])
        if name in seen._differentiated:
            value = seen._live[name] = _differentiable(name, value)
        if name in seen._wanted:
            seen._values[name] = value.detach().clone()
        return value

    def give(self, name: str, value: Tensor) -> None:
        self._seen._values[self._path + name] = value.detach()

    def is_ablated(self, part: str) -> bool:
        return self._path + part in self._seen._parts_off

    def wants(self, *names: str) -> bool:
        return any(self._path + name in self._seen._wanted for name in names)

    def changes(self, *names: str) -> bool:
        seen = self._seen
        return any(p in seen._patches or p in seen._differentiated for p in (self._path + n for n in names))


def replace_row(query: int, row: Iterable[float], head: int | None = None, batch: int = 0) -> Replacement:
    """A patch that gives one query's row (of scores or weights) these numbers, in one head or in all."""
    numbers = list(row)

    def patch(value: Tensor) -> Tensor:
        if len(numbers) != value.shape[-1]:
            raise SettingError(f"a row of {len(numbers)} numbers; this one has {value.shape[-1]} keys")
        value = value.clone()
        heads = slice(None) if head is None else head
        value[batch, heads, query] = torch.tensor(numbers, dtype=value.dtype, device=value.device)
        return value

    return patch


def _paths(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    for path, module in model.named_modules():
        steps = [step for step in path.split(".") if step not in ("", "blocks", "_orig_mod")]
        yield module, "".join(f"{step}." for step in steps)


def _eagerly() -> AbstractContextManager[object]:
    """Compiled code cannot be watched, so what was compiled runs as it was written."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled, and loading the compiler takes seconds
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def _matches(name: str, pattern: str) -> bool:
    return any(fnmatchcase(name, form) for form in (pattern, f"*.{pattern}", f"{pattern}.*"))


def _select(patterns: str | Iterable[str], known: list[str]) -> set[str]:
    """The known names that any pattern selects; a pattern that selects none is a mistake."""
    chosen: set[str] = set()
    wholes = set(known)
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        found = {pattern} if pattern in wholes else {name for name in known if _matches(name, pattern)}
        if not found:
            raise UnknownName(f"nothing in this model is called {pattern!r}; {_nearest_few(pattern, known)}")
        chosen |= found
    return chosen


def _nearest_few(name: str, known: Iterable[str]) -> str:
    """The nearest of many names."""
    names = list(known)
    close = get_close_matches(name, names, n=3, cutoff=0.3) or names[:3]
    return f"near it: {', '.join(close) or 'nothing'}"


def _split_off(model: nn.Module, ablate: Part | Iterable[Part]) -> tuple[dict[str, list[int]], set[str]]:
    """Switched-off heads by the path of their attention, and the names of other switched-off parts."""
    heads: dict[str, list[int]] = {}
    parts: set[str] = set()
    sizes = {path: int(module.heads) for module, path in _paths(model) if hasattr(module, "heads")}  # type: ignore[arg-type]
    for part in parts_of(ablate):
        if isinstance(part, str):
            parts |= _select(part, switchable(model))
        else:
            path = _check_head(sizes, *part)
            heads.setdefault(path, []).append(part[2])
    return heads, parts


def parts_of(ablate: Part | Iterable[Part]) -> tuple[Part, ...]:
    """Parts to switch off, each checked for its form; one may be given alone."""
    if isinstance(ablate, str) or _is_head(ablate):
        return (ablate,)  # type: ignore[return-value]
    if not isinstance(ablate, Iterable):
        raise SettingError(f"ablate ({ablate!r}) must be a list of parts; {_FORM}")
    parts = tuple(ablate)
    for part in parts:
        if not isinstance(part, str) and not _is_head(part):
            raise SettingError(f"off holds {part!r}; {_FORM}")
    return parts  # type: ignore[return-value]


_FORM = 'a part is a name such as "scaling", or a head such as ("encoder", layer, head)'


def _is_head(part: Any) -> bool:
    if not isinstance(part, tuple | list) or len(part) != 3:
        return False
    kind, *numbers = part
    return isinstance(kind, str) and all(isinstance(one, int | np.integer) for one in numbers)


def _check_head(sizes: dict[str, int], kind: str, layer: int, head: int) -> str:
    """The path of the attention that has this head."""
    path = attention_path(kind, layer) + "."
    if path not in sizes:
        layers = sum(attention_path(kind, n) + "." in sizes for n in range(len(sizes)))
        raise SettingError(f"no {kind} attention in layer {layer}; there are {layers}, counted from 0")
    if not 0 <= head < sizes[path]:
        raise SettingError(f"no head {head} in {path[:-1]}; it has {sizes[path]}, counted from 0")
    return path


def _replaced(name: str, value: Tensor, replacement: Replacement) -> Tensor:
    new: Any = replacement(value) if callable(replacement) else replacement
    new = torch.as_tensor(new, dtype=value.dtype, device=value.device)
    try:
        return new.expand_as(value)
    except RuntimeError:
        shapes = f"a patch of {tuple(new.shape)} does not fit {tuple(value.shape)}"
        raise SettingError(f"{shapes}, the shape of {name}; give one that broadcasts") from None


def _without_heads(value: Tensor, heads: list[int]) -> Tensor:
    on = torch.ones(value.shape[1], dtype=value.dtype, device=value.device)
    on[heads] = 0
    return value * on[:, None, None]  # B H Q E


def _differentiable(name: str, value: Tensor) -> Tensor:
    if not torch.is_grad_enabled() or value.is_inference():
        raise UsageError(f"the gradient of {name} needs gradients; call the model outside no_grad")
    return value if value.requires_grad else value.detach().requires_grad_()
