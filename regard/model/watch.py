"""watch: record the intermediate values of a forward pass by name, and ablate or patch them.

    with watch(model) as seen:
        model(source, target)
    seen["encoder.2.attention.weights"]                     # B H Q K

A layer calls `see = watching(self)` and passes its values through `see(name, value)`. The open watch is
held in a context variable, not on a module, so two threads can watch one model independently. A name is
the module's path without "blocks", followed by the observation point.
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

import torch
from torch import Tensor, nn

from regard.errors import SettingError, UnknownName, UsageError, nearest
from regard.model.parts import Part, parts_of

Replacement = Tensor | Callable[[Tensor], Tensor]
EXPLICIT_POINTS = ("scores", "scaled", "mask", "weights")  # values that the fused kernel does not return


class Unwatched:
    """The observer outside a watch: it returns values unchanged."""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return value

    def record(self, name: str, value: Tensor) -> None:
        """Record a value without a copy; the caller must not change it afterwards."""

    def is_ablated(self, part: str) -> bool:
        """Whether this part of the module is ablated."""
        return False

    def wants(self, *names: str) -> bool:
        """Whether any of these values is recorded."""
        return False

    def changes(self, *names: str) -> bool:
        """Whether any of these values is patched or needs its gradient."""
        return False


UNWATCHED = Unwatched()
_watching: ContextVar[Seen | None] = ContextVar("regard_watching", default=None)


def watching(module: nn.Module) -> Unwatched:
    """The observer of this module in this thread; compiled code is not observed."""
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
    """Record by name what the model computes in this block and this thread.

    only       names to record: whole names, either end of a name ("weights", "encoder.2"), or patterns
               ("encoder.*.weights"); None records everything, () nothing
    ablate     one part or several: heads as ("encoder", layer, head), likewise "decoder" and "cross";
               parts by name: "scaling" (the division by sqrt(d_k)), "positions", "residual", "norm",
               everywhere or at one path ("encoder.2.around_attention.norm")
    patch      replacements by name: a tensor, or a function of the model's value
    gradients  names whose gradients `seen.gradients(output)` returns

    The model uses the result of the fused kernel, and scores and weights are computed in addition. An
    attention whose scores or weights are patched or differentiated is computed explicitly instead. A second
    pass in the block overwrites the values of the first. A compiled model runs in eager mode.
    """
    seen = Seen(model, only, ablate, patch or {}, gradients)
    with seen.active():
        yield seen


def watchable(model: nn.Module) -> list[str]:
    """All names that can be recorded or patched in this model."""
    return [f"{name}{point}" for module, name in _paths(model) for point in getattr(module, "points", ())]


def ablatable_parts(model: nn.Module) -> list[str]:
    """All parts, except heads, that can be ablated in this model."""
    return [f"{name}{part}" for module, name in _paths(model) for part in getattr(module, "ablatable", ())]


def attention_path(kind: str, layer: int) -> str:
    """The path of an attention of this kind ("encoder", "decoder", "cross"): "decoder.2.cross"."""
    paths = {
        "encoder": f"encoder.{layer}.attention",
        "decoder": f"decoder.{layer}.attention",
        "cross": f"decoder.{layer}.cross",
    }
    if kind not in paths:
        raise UnknownName(f"unknown kind of attention {kind!r}; {nearest(kind, paths)}")
    return paths[kind]


class Seen(Mapping[str, Tensor]):
    """The recorded values: a mapping from names to copies of tensors."""

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
                raise UnknownName(f"unknown name {name!r} in this model; {_nearest_few(name, known)}")
        self._ablated_heads, self._ablated_parts = _split_ablated(model, ablate)
        self._modules = dict(_paths(model))
        self._values: dict[str, Tensor] = {}
        self._live: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._values:
            raise UnknownName(f"no value was recorded as {name!r}; {_nearest_few(name, self._values)}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Watch in this block and this thread; it can be entered repeatedly."""
        token = _watching.set(self)
        try:
            with _force_eager():
                yield
        finally:
            _watching.reset(token)

    def gradients(self, output: Tensor) -> dict[str, Tensor]:
        """The gradient of a scalar (one logit, one log-probability) with respect to each requested value."""
        if not self._live:
            raise UsageError("no gradient was requested; name the values with watch(model, gradients=...)")
        values = list(self._live.values())
        gradients = torch.autograd.grad(output, values, retain_graph=True, allow_unused=True)
        pairs = zip(self._live.items(), gradients, strict=True)
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
        if name.endswith(".heads") and self._path in seen._ablated_heads:
            value = _ablate_heads(value, seen._ablated_heads[self._path])
        if name in seen._differentiated:
            value = seen._live[name] = _differentiable(name, value)
        if name in seen._wanted:
            seen._values[name] = value.detach().clone()
        return value

    def record(self, name: str, value: Tensor) -> None:
        self._seen._values[self._path + name] = value.detach()

    def is_ablated(self, part: str) -> bool:
        return self._path + part in self._seen._ablated_parts

    def wants(self, *names: str) -> bool:
        return any(self._path + name in self._seen._wanted for name in names)

    def changes(self, *names: str) -> bool:
        seen = self._seen
        return any(p in seen._patches or p in seen._differentiated for p in (self._path + n for n in names))


def replace_row(query: int, row: Iterable[float], head: int | None = None, batch: int = 0) -> Replacement:
    """A patch that replaces the row of one query (in scores or weights), in one head or in all."""
    numbers = list(row)

    def patch(value: Tensor) -> Tensor:
        if len(numbers) != value.shape[-1]:
            raise SettingError(
                f"a row of {len(numbers)} numbers must have one for each of {value.shape[-1]} keys"
            )
        value = value.clone()
        heads = slice(None) if head is None else head
        value[batch, heads, query] = torch.tensor(numbers, dtype=value.dtype, device=value.device)
        return value

    return patch


def _paths(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    for path, module in model.named_modules():
        steps = [step for step in path.split(".") if step not in ("", "blocks", "_orig_mod")]
        yield module, "".join(f"{step}." for step in steps)


def _force_eager() -> AbstractContextManager[object]:
    """Run compiled code in eager mode, because compiled code cannot be observed."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled; importing the compiler takes seconds
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def _matches(name: str, pattern: str) -> bool:
    return any(fnmatchcase(name, form) for form in (pattern, f"*.{pattern}", f"{pattern}.*"))


def _select(patterns: str | Iterable[str], known: list[str]) -> set[str]:
    """The names that any pattern selects; raise if a pattern selects none."""
    selected: set[str] = set()
    names = set(known)
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        matches = {pattern} if pattern in names else {name for name in known if _matches(name, pattern)}
        if not matches:
            raise UnknownName(f"unknown name {pattern!r} in this model; {_nearest_few(pattern, known)}")
        selected |= matches
    return selected


def _nearest_few(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(name, names, n=3, cutoff=0.3) or names[:3]
    return f"nearest: {', '.join(close) or 'none'}"


def _split_ablated(model: nn.Module, ablate: Part | Iterable[Part]) -> tuple[dict[str, list[int]], set[str]]:
    """Ablated heads by the path of their attention, and the names of other ablated parts."""
    heads: dict[str, list[int]] = {}
    parts: set[str] = set()
    sizes = {path: int(module.heads) for module, path in _paths(model) if hasattr(module, "heads")}  # type: ignore[arg-type]
    for part in parts_of(ablate):
        if isinstance(part, str):
            parts |= _select(part, ablatable_parts(model))
        else:
            path = _check_head(sizes, *part)
            heads.setdefault(path, []).append(part[2])
    return heads, parts


def _check_head(sizes: dict[str, int], kind: str, layer: int, head: int) -> str:
    """The path of the attention with this head; raise if there is none."""
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
        shapes = f"a patch of shape {tuple(new.shape)} must broadcast to {tuple(value.shape)}"
        raise SettingError(f"{shapes}, the shape of {name}") from None


def _ablate_heads(value: Tensor, heads: list[int]) -> Tensor:
    on = torch.ones(value.shape[1], dtype=value.dtype, device=value.device)
    on[heads] = 0
    return value * on[:, None, None]  # B H Q E


def _differentiable(name: str, value: Tensor) -> Tensor:
    if not torch.is_grad_enabled() or value.is_inference():
        raise UsageError(f"the gradient of {name} needs grad mode; call the model outside no_grad")
    return value if value.requires_grad else value.detach().requires_grad_()
