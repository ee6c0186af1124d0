"""Dropout and GELU with a backward pass of their own, because torch's are slower on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import pi, sqrt
from typing import Any

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


_LINEAR = sqrt(8 / pi)
_CUBIC = 0.044715 * _LINEAR


def gelu_tanh(x: Tensor) -> Tensor:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    learns = x.requires_grad and torch.is_grad_enabled()
    if not learns or x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.gelu(x, approximate="tanh")
    return _GeluTanh.apply(x)  # pyright: ignore[reportReturnType]


class _GeluTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        squared = x * x
        gate = (x * _LINEAR).addcmul_(squared, x, value=_CUBIC).sigmoid_()
        y = x * gate
        slope = squared.mul_(3 * _CUBIC).add_(_LINEAR)  # of u, and then of y: gate + y (1 - gate) u'
        slope.addcmul_(slope, gate, value=-1)
        ctx.save_for_backward(x, torch.addcmul(gate, slope, y, out=slope))
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        x, slope = ctx.saved_tensors
        # Grad mode is on only under create_graph: then the slope must itself be a function of x.
        return gradients[0] * (_slope(x) if torch.is_grad_enabled() else slope)


def _slope(x: Tensor) -> Tensor:
    """The derivative, in operations that can be differentiated again."""
    gate = torch.sigmoid(_LINEAR * x + _CUBIC * x**3)
    return gate + x * gate * (1 - gate) * (_LINEAR + 3 * _CUBIC * x**2)
