"""How weights start: drawn at random, of a stated size, and even in depth."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


def random_weight(*shape: int, deviation: float) -> nn.Parameter:
    """A weight drawn from a normal distribution; on the meta device only its shape."""
    weight = nn.Parameter(torch.empty(*shape))
    redraw(weight, deviation)
    return weight


def redraw(weight: nn.Parameter, deviation: float) -> None:
    """Draw a weight again, with another deviation."""
    if not weight.is_meta:  # drawing nothing there would load a second of torch's Python
        nn.init.normal_(weight, std=deviation)


def start_evenly(model: nn.Module) -> None:
    """Give each linear layer one variance in both directions (Glorot and Bengio 2010), no bias."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def start_small(blocks: Iterable[nn.Module]) -> None:
    """Divide the last layer of every branch by the square root of the branches in its stack.

    So the residual stream starts at one size however deep the stack is.
    """
    ends = [
        end for block in blocks for branch in block.children() if (end := _last_layer(branch)) is not None
    ]
    with torch.no_grad():
        for end in ends:
            if not end.weight.is_meta:
                end.weight.div_(len(ends) ** 0.5)


def _last_layer(branch: nn.Module) -> nn.Linear | None:
    for name in ("output", "contract"):
        if isinstance(end := getattr(branch, name, None), nn.Linear):
            return end
    return None
