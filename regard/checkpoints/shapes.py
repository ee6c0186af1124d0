"""Names and shapes of the weights that a config implies, worked out from one block of each stack."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from regard.model.config import ModelConfig

Shapes = dict[str, tuple[int, ...]]

_BLOCK = re.compile(r"(encoder|decoder)\.blocks\.0\.")


def weight_shapes(config: ModelConfig) -> Iterator[Shapes]:
    """Every weight once: all its names, several where it is tied, with its shape.

    All blocks of a stack are alike, so a model of one layer tells the names and shapes of any number.
    """
    for stack, weights in groupby(_of_one_layer(config), _stack):
        alike = list(weights)
        for layer in range(_layers(config, stack)):
            for names in alike:
                yield {_BLOCK.sub(rf"\1.blocks.{layer}.", name): shape for name, shape in names.items()}


def _of_one_layer(config: ModelConfig) -> list[Shapes]:
    from regard.model.transformer import build_model

    groups: dict[int, Shapes] = {}
    model = build_model(config.changed(layers=1, decoder_layers=None), device="meta")
    for name, tensor in model.state_dict(keep_vars=True).items():
        groups.setdefault(id(tensor), {})[name] = tuple(tensor.shape)
    return list(groups.values())


def _stack(names: Shapes) -> str:
    """The stack that a weight of a block belongs to; empty for one outside of the blocks."""
    found = _BLOCK.match(next(iter(names)))
    return found[1] if found else ""


def _layers(config: ModelConfig, stack: str) -> int:
    counts = {"encoder": config.layers, "decoder": config.decoder_layers or config.layers}
    return counts.get(stack, 1)
