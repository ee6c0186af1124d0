"""Dropout (section 5.4): while training, a share of values becomes 0 and the others grow to make up for it.

On a CPU, torch draws random numbers one after another, one for each value, and a small model waits longer
for them than for its products. Here one draw of 64 bits decides about four values, 16 bits each, so that a
share is met to 1/65,536.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 1 << 16
_generator: ContextVar[torch.Generator | None] = ContextVar("regard_generator", default=None)


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Inside, and in this thread alone, dropout on the CPU draws from this generator instead of torch's."""
    before = _generator.set(generator)
    try:
        yield
    finally:
        _generator.reset(before)


def drop(x: Tensor, share: float, training: bool) -> Tensor:
    """`x` with a share of its values dropped, while training."""
    if not (training and share):
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling() or share >= 1.0:
        return F.dropout(x, share)  # drawn on the device, or fused by the compiler
    return x * draw_factors(x, share)


def draw_factors(x: Tensor, share: float) -> Tensor:
    """0 for what is dropped and 1 / (1 - share) for the rest, in the shape of `x`."""
    dropped = round(share * LEVELS)
    count = x.numel()
    drawn = torch.empty(-(-count // 4), dtype=torch.int64).random_(
        -(1 << 63), None, generator=_generator.get()
    )
    kept = drawn.view(torch.int16)[:count].view(x.shape) >= dropped - LEVELS // 2
    return kept.to(x.dtype).mul_(LEVELS / max(1, LEVELS - dropped))
