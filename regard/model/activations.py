"""GELU in the form that GPT-2 has it, with its slope worked out on the way forward.

On a CPU, torch computes a hyperbolic tangent for every value on the way forward and again on the way back,
which takes a small model longer than its norms, dropout and optimizer together. In the form

    x sigmoid(u),  u = sqrt(8 / pi) (x + 0.044715 x^3)

one sigmoid gives both the value and the slope, and the way back is a product.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

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
