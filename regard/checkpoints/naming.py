"""Two-column tables of weight names, ours and theirs, applied both ways.

    Row("decoder.blocks.{layer}.attention.output.{part}", "h.{layer}.attn.c_proj.{part}", TRANSPOSED)

A word in braces stands for one step of a name, the same on both sides. A tuple on the right names
several weights of theirs that are stacked in one of ours. Several rows for one name of ours, or for
names that we tie, are other names of the same weight: any of them is enough, and where several are
given they must agree. Every name on either side is accounted for, or a CheckpointError names it.

Weights may be arrays of numpy or tensors of torch; this file loads no torch until names are carried.
What it hands out are views where they can be, so whoever writes them to a file copies them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from regard.checkpoints.shapes import weight_shapes
from regard.errors import CheckpointError
from regard.model.config import ModelConfig

Weights = Mapping[str, Any]


@dataclass(frozen=True)
class Reshape:
    """How weights of theirs become one of ours, and back."""

    join: Callable[[list[Any]], Any]
    split: Callable[[Any, ModelConfig], list[Any]]


def stacked(sizes: Callable[[ModelConfig], list[int]]) -> Reshape:
    """Matrices (or biases) of theirs one above the other, each with so many rows."""

    def split(whole: Any, config: ModelConfig) -> list[Any]:
        return [whole[a:b] for a, b in pairwise(accumulate(sizes(config), initial=0))]

    return Reshape(lambda parts: _library(parts[0]).concatenate(parts), split)


def _turned(x: Any) -> Any:
    return x if x.ndim == 1 else x.T


SAME = Reshape(lambda parts: parts[0], lambda whole, config: [whole])
TRANSPOSED = Reshape(lambda parts: _turned(parts[0]), lambda whole, config: [_turned(whole)])
ONE_ROW = Reshape(lambda parts: parts[0][0], lambda whole, config: [whole[None]])
QUERY_KEY_VALUE = stacked(lambda c: [c.heads * c.key_size, c.groups * c.key_size, c.groups * c.value_size])
GATE_AND_INNER = stacked(lambda c: [c.feed_forward_width] * 2)


@dataclass(frozen=True)
class Row:
    """A name of ours, theirs beside it, and how the one becomes the other."""

    ours: str
    theirs: str | tuple[str, ...]
    reshape: Reshape = SAME
    when: Callable[[ModelConfig], bool] = lambda config: True
    zero_if_absent: bool = False

    def form(self, name: str, shape: tuple[int, ...], config: ModelConfig) -> Form | None:
        """Theirs for this name of ours, if the row speaks of it."""
        found = self._pattern.fullmatch(name)
        if not found or not self.when(config):
            return None
        names = (self.theirs,) if isinstance(self.theirs, str) else self.theirs
        theirs = [one.format(**found.groupdict()) for one in names]
        parts = self.reshape.split(np.broadcast_to(0, shape), config)  # a shape without numbers
        shapes = {one: part.shape for one, part in zip(theirs, parts, strict=True)}
        return Form(shapes, self.reshape, self.zero_if_absent)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^.]+)", re.escape(self.ours)))


@dataclass(frozen=True)
class Form:
    """One way to hold a weight: under these names, in these shapes."""

    shapes: dict[str, tuple[int, ...]]
    reshape: Reshape = SAME
    zero_if_absent: bool = False

    @property
    def title(self) -> str:
        """The first of its names."""
        return next(iter(self.shapes))


@dataclass(frozen=True)
class Place:
    """One weight, and every form in which each side may hold it; the first is the one it is written in."""

    shape: tuple[int, ...]
    ours: list[Form]
    theirs: list[Form]


@dataclass(frozen=True)
class Format:
    """Another project's way to write a model down: its config, the names of its weights.

    ignored   patterns of their names that hold nothing to learn, or that the chosen output has no use for
    base      their name for the model without its head; names are read with or without it
    older     what their older files call things, and what they are called now
    """

    title: str
    to_config: Callable[[Any], ModelConfig]
    from_config: Callable[[ModelConfig], dict[str, Any]]
    table: tuple[Row, ...]
    ignored: tuple[str, ...] = ()
    base: str = ""
    older: tuple[tuple[str, str], ...] = ()

    def ours(self, theirs: Weights, config: ModelConfig) -> dict[str, Any]:
        """Their weights by our names, for `load_state_dict`; tied names hold the same tensor."""
        places = self.places(config)
        ledger = _Ledger(self._spelled_today(theirs, places))
        carried: dict[str, Any] = {}
        for place in places:
            whole = ledger.take(place.theirs, place.shape)
            carried.update((name, whole) for form in place.ours for name in form.shapes)
        ledger.close(f"these weights are not those of this {self.title} config")
        return carried

    def theirs(self, ours: Weights, config: ModelConfig, repeat_tied: bool = False) -> dict[str, Any]:
        """Our weights by their names: a tied weight once, as files have it, or under each of its names."""
        ledger = _Ledger(ours)
        carried: dict[str, Any] = {}
        for place in self.places(config):
            whole = ledger.take(place.ours, place.shape)
            for form in place.theirs if repeat_tied else place.theirs[:1]:
                if whole is not None:
                    carried.update(zip(form.shapes, form.reshape.split(whole, config), strict=True))
        ledger.close("these weights are not those of this config")
        headless = config.output in ("pooled", "vectors")
        return {name.removeprefix(self.base) if headless else name: w for name, w in carried.items()}

    def places(self, config: ModelConfig) -> list[Place]:
        """Every weight of the model that config describes, with its names on both sides."""
        places = []
        for tied in weight_shapes(config):
            forms = [row.form(name, shape, config) for name, shape in tied.items() for row in self.table]
            theirs = [form for form in forms if form]
            if not theirs:
                raise CheckpointError(
                    f"{self.title} has no place for {next(iter(tied))}; export it otherwise"
                )
            ours = [Form({name: shape}) for name, shape in tied.items()]
            places.append(Place(next(iter(tied.values())), ours, theirs))
        return places

    def _spelled_today(self, weights: Weights, places: list[Place]) -> dict[str, Any]:
        """Their weights under the names that the table knows, without those that are ignored."""
        known = {name for place in places for form in place.theirs for name in form.shapes}
        spelled: dict[str, Any] = {}
        for name, weight in weights.items():
            for old, new in self.older:
                name = name.replace(old, new)
            if name not in known and self.base + name in known:
                name = self.base + name
            if name in spelled:
                raise CheckpointError(f"{name} is there twice, under an older name too; keep one of them")
            if name in known or not self._ignores(name):
                spelled[name] = weight
        return spelled

    def _ignores(self, name: str) -> bool:
        return any(
            fnmatchcase(form, pattern) for form in (name, self.base + name) for pattern in self.ignored
        )


class _Ledger:
    """The weights of one side, taken away one after the other; what does not fit is kept for the end."""

    def __init__(self, weights: Weights):
        self.weights = weights
        self.left = dict.fromkeys(weights)
        self.missing: list[str] = []
        self.wrong: list[str] = []

    def take(self, forms: list[Form], shape: tuple[int, ...]) -> Any:
        """The one weight that these forms hold, or None where something about it is wrong."""
        present = [form for form in forms if any(name in self.weights for name in form.shapes)]
        if not present and forms[0].zero_if_absent and self.weights:
            like = next(iter(self.weights.values()))
            return _library(like).zeros(shape, dtype=like.dtype)
        found = [self._take_form(form) for form in present or forms[:1]]
        if any(whole is None for whole in found):
            return None
        for form, whole in zip(present, found, strict=True):
            if whole is not found[0] and not bool((whole == found[0]).all()):
                self.wrong.append(f"{form.title} differs from {present[0].title}, to which it is tied")
        return found[0]

    def _take_form(self, form: Form) -> Any:
        parts = [self._take_part(name, shape) for name, shape in form.shapes.items()]
        return None if any(part is None for part in parts) else form.reshape.join(parts)

    def _take_part(self, name: str, shape: tuple[int, ...]) -> Any:
        self.left.pop(name, None)
        weight = self.weights.get(name)
        if weight is None:
            self.missing.append(name)
        elif tuple(weight.shape) != shape:
            self.wrong.append(f"{name} is {_sized(weight.shape)}, not {_sized(shape)}")
            return None
        return weight

    def close(self, headline: str) -> None:
        """Say what was missing, what did not fit, and what nobody took."""
        found = (("missing", self.missing), ("wrong", self.wrong), ("extra", list(self.left)))
        parts = [f"{what}: {_a_few(names)}" for what, names in found if names]
        if parts:
            raise CheckpointError(f"{headline}; {'; '.join(parts)}")


def _library(x: Any) -> Any:
    """numpy or torch, whichever the array is of."""
    return sys.modules[type(x).__module__.partition(".")[0]]


def _sized(shape: Iterable[int]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def _a_few(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
