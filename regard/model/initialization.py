"""Initial values of weights: random with a stated deviation, scaled by the depth of the stack."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


def random_weight(*shape: int, deviation: float) -> nn.Parameter:
    """Create a weight drawn from a normal distribution; on the meta device it has only a shape."""
    weight = nn.Parameter(torch.empty(*shape))
    set_normal(weight, deviation)
    return weight


def set_normal(weight: nn.Parameter, deviation: float) -> None:
    """Draw a weight from a normal distribution with this deviation."""
    if not weight.is_meta:  # on meta the call would import modules of torch for a second
        nn.init.normal_(weight, std=deviation)


def initialize_linear(model: nn.Module) -> None:
    """Initialize linear layers with Xavier uniform weights (Glorot and Bengio 2010) and zero biases."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def scale_residual_branches(blocks: Iterable[nn.Module]) -> None:
    """Divide the last layer of each residual branch by the square root of the number of branches.

    The variance of the residual stream is then independent of the depth (as in GPT-2).
    """
    layers = [
        last for block in blocks for part in block.children() if (last := _last_layer(part)) is not None
    ]
    with torch.no_grad():
        for layer in layers:
            if not layer.weight.is_meta:
                layer.weight.div_(len(layers) ** 0.5)


def _last_layer(branch: nn.Module) -> nn.Linear | None:
    for name in ("output", "contract"):
        if isinstance(layer := getattr(branch, name, None), nn.Linear):
            return layer
    return None
