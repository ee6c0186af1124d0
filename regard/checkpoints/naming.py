"""Two-column tables of weight names, ours and those of another project, applied in both directions.

    Row("decoder.blocks.{layer}.attention.output.{part}", "h.{layer}.attn.c_proj.{part}", TRANSPOSED)

A placeholder in braces matches one component of a name and is the same in both columns. A tuple in the
second column names several weights that are concatenated in one of ours. Several rows for one weight, or for
tied weights, are alternative names: one of them suffices, and if several are present they must be equal.
A CheckpointError reports every name that is missing or left over on either side.

Weights are numpy arrays or torch tensors. Torch is imported only when names are converted. Converted weights
are views where possible.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from regard.checkpoints.shapes import report_names, weight_shapes, wrong_shape
from regard.errors import CheckpointError
from regard.model.config import ModelConfig

Weights = Mapping[str, Any]


@dataclass(frozen=True)
class Reshape:
    """The conversion of their weights to one of ours, and back."""

    join: Callable[[list[Any]], Any]
    split: Callable[[Any, ModelConfig], list[Any]]


def stacked(sizes: Callable[[ModelConfig], list[int]]) -> Reshape:
    """Concatenate their matrices (or biases); `sizes` gives the rows of each."""

    def split(whole: Any, config: ModelConfig) -> list[Any]:
        return [whole[a:b] for a, b in pairwise(accumulate(sizes(config), initial=0))]

    return Reshape(lambda parts: _library(parts[0]).concatenate(parts), split)


def _transpose(x: Any) -> Any:
    return x if x.ndim == 1 else x.T


SAME = Reshape(lambda parts: parts[0], lambda whole, config: [whole])
TRANSPOSED = Reshape(lambda parts: _transpose(parts[0]), lambda whole, config: [_transpose(whole)])
ONE_ROW = Reshape(lambda parts: parts[0][0], lambda whole, config: [whole[None]])
QUERY_KEY_VALUE = stacked(lambda c: [c.heads * c.key_size, c.groups * c.key_size, c.groups * c.value_size])
GATE_AND_INNER = stacked(lambda c: [c.feed_forward_width] * 2)


@dataclass(frozen=True)
class Row:
    """Our name of a weight, their name or names, and the conversion."""

    ours: str
    theirs: str | tuple[str, ...]
    reshape: Reshape = SAME
    when: Callable[[ModelConfig], bool] = lambda config: True
    zero_if_absent: bool = False

    def form(self, name: str, shape: tuple[int, ...], config: ModelConfig) -> Form | None:
        """Their names and shapes for our name, or None if the row does not match it."""
        match = self._pattern.fullmatch(name)
        if not match or not self.when(config):
            return None
        patterns = (self.theirs,) if isinstance(self.theirs, str) else self.theirs
        theirs = [pattern.format(**match.groupdict()) for pattern in patterns]
        parts = self.reshape.split(np.broadcast_to(0, shape), config)  # shapes only, without memory
        shapes = {their_name: part.shape for their_name, part in zip(theirs, parts, strict=True)}
        return Form(shapes, self.reshape, self.zero_if_absent)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^.]+)", re.escape(self.ours)))


@dataclass(frozen=True)
class Form:
    """One way to store a weight: the names and shapes of its parts."""

    shapes: dict[str, tuple[int, ...]]
    reshape: Reshape = SAME
    zero_if_absent: bool = False

    @property
    def title(self) -> str:
        """The first name."""
        return next(iter(self.shapes))


@dataclass(frozen=True)
class WeightNames:
    """One weight and all forms in which each side may store it; the first form is the one written."""

    shape: tuple[int, ...]
    ours: list[Form]
    theirs: list[Form]


@dataclass(frozen=True)
class Format:
    """The format of another project: its config and the names of its weights.

    ignored   patterns of their names that are not parameters, or that the chosen output does not use
    base      their prefix of the model without its head; names are read with or without it
    older     replacements of parts of names in their older files
    """

    title: str
    to_config: Callable[[Any], ModelConfig]
    from_config: Callable[[ModelConfig], dict[str, Any]]
    table: tuple[Row, ...]
    ignored: tuple[str, ...] = ()
    base: str = ""
    older: tuple[tuple[str, str], ...] = ()

    def ours(self, theirs: Weights, config: ModelConfig) -> dict[str, Any]:
        """Convert their weights to our names, for `load_state_dict`; tied names share one tensor."""
        weight_names = self.weight_names(config)
        account = _WeightAccount(self._current_names(theirs, weight_names))
        converted: dict[str, Any] = {}
        for names in weight_names:
            whole = account.take(names.theirs, names.shape)
            converted.update((name, whole) for form in names.ours for name in form.shapes)
        account.check(f"the weights do not match this {self.title} config")
        return converted

    def theirs(self, ours: Weights, config: ModelConfig, repeat_tied: bool = False) -> dict[str, Any]:
        """Convert our weights to their names; a tied weight is stored once, or under each of its names."""
        account = _WeightAccount(ours)
        converted: dict[str, Any] = {}
        for names in self.weight_names(config):
            whole = account.take(names.ours, names.shape)
            for form in names.theirs if repeat_tied else names.theirs[:1]:
                if whole is not None:
                    converted.update(zip(form.shapes, form.reshape.split(whole, config), strict=True))
        account.check("the weights do not match this config")
        headless = config.output in ("pooled", "vectors")
        return {name.removeprefix(self.base) if headless else name: w for name, w in converted.items()}

    def weight_names(self, config: ModelConfig) -> list[WeightNames]:
        """All weights of the config's model, with their names on both sides."""
        weight_names = []
        for tied in weight_shapes(config):
            forms = [row.form(name, shape, config) for name, shape in tied.items() for row in self.table]
            theirs = [form for form in forms if form]
            if not theirs:
                raise CheckpointError(
                    f"{next(iter(tied))} has no counterpart in {self.title}; choose another format"
                )
            ours = [Form({name: shape}) for name, shape in tied.items()]
            weight_names.append(WeightNames(next(iter(tied.values())), ours, theirs))
        return weight_names

    def _current_names(self, weights: Weights, weight_names: list[WeightNames]) -> dict[str, Any]:
        """Their weights under the names in the table, without ignored ones."""
        known = {name for names in weight_names for form in names.theirs for name in form.shapes}
        renamed: dict[str, Any] = {}
        for name, weight in weights.items():
            for old, new in self.older:
                name = name.replace(old, new)
            if name not in known and self.base + name in known:
                name = self.base + name
            if name in renamed:
                raise CheckpointError(f"{name} occurs twice, also under an older name; remove one of them")
            if name in known or not self._ignores(name):
                renamed[name] = weight
        return renamed

    def _ignores(self, name: str) -> bool:
        return any(
            fnmatchcase(form, pattern) for form in (name, self.base + name) for pattern in self.ignored
        )


class _WeightAccount:
    """Takes the weights of one side one by one, and collects missing, wrong and remaining names."""

    def __init__(self, weights: Weights):
        self.weights = weights
        self.left = dict.fromkeys(weights)
        self.missing: list[str] = []
        self.wrong: list[str] = []

    def take(self, forms: list[Form], shape: tuple[int, ...]) -> Any:
        """The weight stored in these forms, or None if it is missing or has a wrong shape."""
        present = [form for form in forms if any(name in self.weights for name in form.shapes)]
        if not present and forms[0].zero_if_absent and self.weights:
            like = next(iter(self.weights.values()))
            return _library(like).zeros(shape, dtype=like.dtype)
        copies = [self._take_form(form) for form in present or forms[:1]]
        if any(whole is None for whole in copies):
            return None
        for form, whole in zip(present, copies, strict=True):
            if whole is not copies[0] and not bool((whole == copies[0]).all()):
                self.wrong.append(f"{form.title} differs from {present[0].title}, to which it is tied")
        return copies[0]

    def _take_form(self, form: Form) -> Any:
        parts = [self._take_part(name, shape) for name, shape in form.shapes.items()]
        return None if any(part is None for part in parts) else form.reshape.join(parts)

    def _take_part(self, name: str, shape: tuple[int, ...]) -> Any:
        self.left.pop(name, None)
        weight = self.weights.get(name)
        if weight is None:
            self.missing.append(name)
        elif tuple(weight.shape) != shape:
            self.wrong.append(wrong_shape(name, weight.shape, shape))
            return None
        return weight

    def check(self, headline: str) -> None:
        """Raise if a name was missing, had a wrong shape or was not taken."""
        report_names(headline, self.missing, self.wrong, list(self.left))


def _library(x: Any) -> Any:
    """The library of an array: numpy or torch."""
    return sys.modules[type(x).__module__.partition(".")[0]]
