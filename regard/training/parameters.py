"""What each parameter of a module is, for an optimizer: a matrix, another weight, a table, or plain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from torch import nn

from regard.errors import SettingError, nearest
from regard.model.attention import SeparateProjections
from regard.model.blocks import GatedFeedForward
from regard.model.embedding import Embedding
from regard.model.positions import Learned

Role = Literal["matrix", "weight", "table", "plain"]


@dataclass(frozen=True)
class Part:
    """One parameter: its first name, what it is, and how many rows each matrix stacked in it has.

    matrix  takes vectors of a layer to the next one: linear layers and projections outside the head
    weight  other weights of two or more dimensions, those of the head first of all
    table   of which rows are looked up by number: embeddings, learned positions
    plain   norms and biases, never pulled to zero
    """

    name: str
    parameter: nn.Parameter
    role: Role
    sections: tuple[int, ...]
    in_head: bool


def parts_of(module: nn.Module) -> list[Part]:
    """Every parameter that learns, once, in the order of its module."""
    sections = dict(_matrices(module))
    looked_up = {id(parameter) for parameter in _looked_up(module)}
    parts = []
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        in_head = "head" in name.split(".")
        role: Role = "weight"
        if parameter.ndim < 2:
            role = "plain"
        elif id(parameter) in looked_up:
            role = "table"
        elif id(parameter) in sections and not in_head:
            role = "matrix"
        rows = sections.get(id(parameter), (parameter.shape[0],) if parameter.ndim else ())
        parts.append(Part(name, parameter, role, rows, in_head))
    return parts


def freeze(module: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Stop what these patterns name from learning and say what that is: `encoder.*`, `source.weight`."""
    names = {
        name.removeprefix("model."): parameter
        for name, parameter in module.named_parameters(remove_duplicate=False)
    }
    frozen: list[str] = []
    for pattern in patterns:
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            raise SettingError(
                f"freeze ({pattern!r}) names no parameter; {nearest(pattern, _beginnings(names))}"
            )
        frozen += found
    for name in frozen:
        names[name].requires_grad_(False)
    return sorted(set(frozen))


def _beginnings(names: dict[str, nn.Parameter]) -> set[str]:
    return {f"{name.partition('.')[0]}.*" for name in names}


def _matrices(module: nn.Module) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Parameters that are matrices, by their id, with the rows of each one stacked in them."""
    halved = {id(child.expand) for child in module.modules() if isinstance(child, GatedFeedForward)}
    for child in module.modules():
        if isinstance(child, SeparateProjections):
            yield id(child.weight), tuple(child.sections)
        elif isinstance(child, nn.Linear):
            rows = child.out_features
            yield id(child.weight), (rows // 2, rows // 2) if id(child) in halved else (rows,)


def _looked_up(module: nn.Module) -> Iterator[nn.Parameter]:
    """Parameters of which rows are looked up by number."""
    for child in module.modules():
        if isinstance(child, Embedding | nn.Embedding | Learned):
            for name in ("weight", "segments"):
                if isinstance(parameter := getattr(child, name, None), nn.Parameter):
                    yield parameter
