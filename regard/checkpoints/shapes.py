"""Names and shapes of the weights that a config implies, and the report of names that do not match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from regard.checkpoints.untrusted_files import shorten_name
from regard.errors import CheckpointError
from regard.model.config import ModelConfig

Shapes = dict[str, tuple[int, ...]]

_BLOCK = re.compile(r"(encoder|decoder)\.blocks\.0\.")


def weight_shapes(config: ModelConfig) -> Iterator[Shapes]:
    """Each weight with its shape under all its names; a tied weight has several.

    All blocks of a stack are equal, so the names and shapes are derived from a model with one layer.
    """
    for stack, weights in groupby(_shapes_of_one_layer(config), _stack):
        block = list(weights)
        for layer in range(_layers(config, stack)):
            for names in block:
                yield {_BLOCK.sub(rf"\1.blocks.{layer}.", name): shape for name, shape in names.items()}


def _shapes_of_one_layer(config: ModelConfig) -> list[Shapes]:
    from regard.model.transformer import build_model

    groups: dict[int, Shapes] = {}
    model = build_model(config.changed(layers=1, decoder_layers=None), device="meta")
    for name, tensor in model.state_dict(keep_vars=True).items():
        groups.setdefault(id(tensor), {})[name] = tuple(tensor.shape)
    return list(groups.values())


def _stack(names: Shapes) -> str:
    """The stack of a block's weight; empty for a weight outside of blocks."""
    match = _BLOCK.match(next(iter(names)))
    return match[1] if match else ""


def _layers(config: ModelConfig, stack: str) -> int:
    counts = {"encoder": config.layers, "decoder": config.decoder_layers or config.layers}
    return counts.get(stack, 1)


def wrong_shape(name: str, shape: Iterable[int], expected: Iterable[int]) -> str:
    """Describe a weight whose shape is not the expected one."""
    sizes = [" x ".join(map(str, axes)) or "one number" for axes in (shape, expected)]
    return f"{name} is {sizes[0]}, not {sizes[1]}"


def report_names(headline: str, missing: list[str], wrong: list[str], extra: list[str]) -> None:
    """Raise a CheckpointError that lists the first five names of each kind, if there are any."""
    kinds = (("missing", missing), ("wrong", wrong), ("extra", extra))
    parts = [f"{kind}: {_first_five(names)}" for kind, names in kinds if names]
    if parts:
        raise CheckpointError(f"{headline}; {'; '.join(parts)}")


def _first_five(names: list[str]) -> str:
    listed = ", ".join(map(shorten_name, names[:5]))
    return listed if len(names) <= 5 else f"{listed} and {len(names) - 5} more"
