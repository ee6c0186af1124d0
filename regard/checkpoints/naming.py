"""Two-column tables of weight names, ours and those of another project, applied in both directions.

    Row("decoder.blocks.{layer}.attention.output.{part}", "h.{layer}.attn.c_proj.{part}", TRANSPOSED)

A placeholder in braces matches one component of a name and is the same in both columns. A tuple in the
second column names several weights that are concatenated in one of ours. Several rows for one weight, or for
tied weights, are alternative names: one of them suffices, and if several are present they must be equal.
A CheckpointError reports every name that is missing or left over on either side.

Weights are numpy arrays or torch tensors; names are compared by shapes alone, before a weight is read.
Converted weights are views where possible. Imports no torch.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from regard.checkpoints.name_report import report_names, wrong_shape
from regard.errors import CheckpointError
from regard.model.config import ModelConfig
from regard.model.weight_shapes import Shapes, weight_shapes

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


def _nothing(whole: Any, config: ModelConfig) -> list[Any]:
    if whole.any():
        raise CheckpointError("a bias that is not zero has no counterpart in this format; choose another one")
    return []


ABSENT = Reshape(lambda parts: None, _nothing)  # a weight that is zero here and does not exist there


def zeros_like_rows(whole: Any, count: int) -> Any:
    """A matrix with so many rows of zeros before its own."""
    library = _library(whole)
    return library.concatenate([library.zeros((count, whole.shape[1]), dtype=whole.dtype), whole])


@dataclass(frozen=True)
class Row:
    """Our name of a weight, their name or names, and the conversion."""

    ours: str
    theirs: str | tuple[str, ...]
    reshape: Reshape = SAME
    when: Callable[[ModelConfig], bool] = lambda config: True
    zero_if_absent: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs

    def form(self, name: str, shape: tuple[int, ...], config: ModelConfig) -> Form | None:
        """Their names and shapes for our name, or None if the row does not match it."""
        match = self._pattern.fullmatch(name)
        if not match or not self.when(config):
            return None
        theirs = [pattern.format(**match.groupdict()) for pattern in self.names]
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

    def renamed(self, names: Mapping[str, str]) -> Form:
        """The same with other names."""
        return replace(self, shapes={names.get(name, name): shape for name, shape in self.shapes.items()})

    def read(self, read: Callable[[str], Any]) -> Any:
        """The weight from its parts."""
        return self.reshape.join([read(name) for name in self.shapes])


@dataclass(frozen=True)
class WeightNames:
    """One weight and all forms in which each side may store it; the first form is the one written."""

    shape: tuple[int, ...]
    ours: list[Form]
    theirs: list[Form]

    @property
    def our_names(self) -> tuple[str, ...]:
        """Our names of the weight; several if it is tied."""
        return tuple(form.title for form in self.ours)


@dataclass(frozen=True)
class Origin:
    """Where a weight comes from: the forms in which the other side stores it, which must be equal.

    Without a form it is zero, of the type of the stored weight `like`.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    forms: list[Form]
    like: str

    def convert(self, read: Callable[[str], Any]) -> Any:
        """The weight, with `read` to read a stored one."""
        if not self.forms:
            like = read(self.like)
            return _library(like).zeros(self.shape, dtype=like.dtype)
        first = self.forms[0].read(read)
        for form in self.forms[1:]:
            other = form.read(read)
            if other is not first and not bool((other == first).all()):
                raise CheckpointError(f"{form.title} differs from {self.forms[0].title}, to which it is tied")
        return first


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
        converted: dict[str, Any] = {}
        for origin in self.origins(_shapes(theirs), config):
            converted.update(dict.fromkeys(origin.names, origin.convert(theirs.__getitem__)))
        return converted

    def origins(self, shapes: Shapes, config: ModelConfig) -> list[Origin]:
        """Where each of our weights comes from, if theirs have these names and shapes."""
        weight_names = self.weight_names(config)
        stored_names = self._stored_names(shapes, weight_names)
        account = _WeightAccount({name: shapes[stored] for name, stored in stored_names.items()})
        like = min(stored_names.values(), key=lambda name: prod(shapes[name]), default="")
        found = [(names, account.find(names.theirs)) for names in weight_names]
        account.check(f"the weights do not match this {self.title} config")
        return [
            Origin(names.our_names, names.shape, [form.renamed(stored_names) for form in forms], like)
            for names, forms in found
        ]

    def theirs(self, ours: Weights, config: ModelConfig, repeat_tied: bool = False) -> dict[str, Any]:
        """Convert our weights to their names; a tied weight is stored once, or under each of its names."""
        account, weight_names = _WeightAccount(_shapes(ours)), self.weight_names(config)
        found = [(names, account.find(names.ours)) for names in weight_names]
        account.check("the weights do not match this config")
        converted: dict[str, Any] = {}
        for names, present in found:
            whole = Origin(names.our_names, names.shape, present, "").convert(ours.__getitem__)
            for form in names.theirs if repeat_tied else names.theirs[:1]:
                converted.update(zip(form.shapes, form.reshape.split(whole, config), strict=True))
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

    def _stored_names(self, stored: Iterable[str], weight_names: list[WeightNames]) -> dict[str, str]:
        """The stored name of each name in the table, without ignored ones."""
        known = {name for names in weight_names for form in names.theirs for name in form.shapes}
        renamed: dict[str, str] = {}
        for stored_name in stored:
            name = stored_name
            for old, new in self.older:
                name = name.replace(old, new)
            if name not in known and self.base + name in known:
                name = self.base + name
            if name in renamed:
                raise CheckpointError(f"{name} occurs twice, also under an older name; remove one of them")
            if name in known or not self._ignores(name):
                renamed[name] = stored_name
        return renamed

    def _ignores(self, name: str) -> bool:
        return any(
            fnmatchcase(form, pattern) for form in (name, self.base + name) for pattern in self.ignored
        )


class _WeightAccount:
    """Finds the weights of one side one by one, and collects missing, wrong and remaining names."""

    def __init__(self, shapes: Shapes):
        self.shapes = shapes
        self.left = dict.fromkeys(shapes)
        self.missing: list[str] = []
        self.wrong: list[str] = []

    def find(self, forms: list[Form]) -> list[Form]:
        """The forms that are present; none if the weight is zero where it is absent."""
        present = [form for form in forms if any(name in self.shapes for name in form.shapes)]
        if not present and not forms[0].zero_if_absent:
            present = forms[:1]
        for form in present:
            for name, shape in form.shapes.items():
                self._take(name, shape)
        return present

    def _take(self, name: str, shape: tuple[int, ...]) -> None:
        self.left.pop(name, None)
        if name not in self.shapes:
            self.missing.append(name)
        elif self.shapes[name] != shape:
            self.wrong.append(wrong_shape(name, self.shapes[name], shape))

    def check(self, headline: str) -> None:
        """Raise if a name was missing, had a wrong shape or was not taken."""
        report_names(headline, self.missing, self.wrong, list(self.left))


def _shapes(weights: Weights) -> Shapes:
    return {name: tuple(weight.shape) for name, weight in weights.items()}


def _library(x: Any) -> Any:
    """The library of an array: numpy or torch."""
    return sys.modules[type(x).__module__.partition(".")[0]]
