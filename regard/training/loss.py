"""The loss: how surprised the model was by each next word, with the logits of few rows held at a time.

N rows, D width, V vocabulary, C rows of a chunk.

Label smoothing (section 5.4) follows torch: of the target's probability a share `smoothing` is taken and
spread evenly over all V words, the right one included. A row's loss is then, with z its logits,

    logsumexp(z) - (1 - smoothing) z[target] - smoothing mean(z)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

HELD_LOGITS = 1 << 20  # 4 MB in float32, about what stays in a processor's cache


def cross_entropy(
    rows: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    smoothing: float = 0.0,
    chunk: int | None = None,
) -> Tensor:
    """The summed loss of rows N D against targets N, through a head V D, never holding N x V logits.

    Gradients are made in the same pass, chunk by chunk; without grad mode only the loss is.
    """
    chunk = chunk or max(1, HELD_LOGITS // weight.shape[0])
    return _CrossEntropy.apply(rows, weight, bias, targets, smoothing, chunk, torch.is_grad_enabled())


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        chunk: int,
        learning: bool,
    ) -> Tensor:
        wanted = ctx.needs_input_grad if learning else (False, False, False)
        gradients = _Gradients(
            torch.empty_like(rows) if wanted[0] else None,
            torch.zeros_like(weight) if wanted[1] else None,
            torch.zeros_like(bias) if wanted[2] and bias is not None else None,
        )
        losses = rows.new_empty(len(rows))
        held = rows.new_empty(min(chunk, len(rows)), len(weight))  # C V, the same for every chunk
        for start in range(0, len(rows), chunk):
            part = slice(start, start + chunk)
            logits = torch.mm(rows[part], weight.T, out=held[: len(rows[part])])
            losses[part] = _losses(logits if bias is None else logits.add_(bias), targets[part], smoothing)
            if any(wanted):
                _differentiate(logits, targets[part], smoothing)
                gradients.add(logits, rows[part], weight, part)
        ctx.save_for_backward(gradients.rows, gradients.weight, gradients.bias)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return *(None if one is None else one * grad for one in ctx.saved_tensors), None, None, None, None


def _losses(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The loss of each row, C; the logits, C V, become logarithms of probabilities where they stand."""
    torch.log_softmax(logits, -1, out=logits)
    losses = logits.gather(1, targets[:, None]).squeeze(1).neg_()
    return losses if not smoothing else (1 - smoothing) * losses - smoothing * logits.mean(1)


def _differentiate(logs: Tensor, targets: Tensor, smoothing: float) -> None:
    """Logarithms of probabilities, C V, become the gradient of the logits where they stand."""
    excess = logs.exp_()
    if smoothing:
        excess -= smoothing / excess.shape[1]
    excess.scatter_add_(1, targets[:, None], excess.new_full((len(targets), 1), smoothing - 1))


@dataclass
class _Gradients:
    """Gradients that grow chunk by chunk; None where nobody asks for one."""

    rows: Tensor | None
    weight: Tensor | None
    bias: Tensor | None

    def add(self, excess: Tensor, rows: Tensor, weight: Tensor, part: slice) -> None:
        """Carry the gradient of a chunk's logits, C V, to what they came from."""
        if self.rows is not None:
            torch.mm(excess, weight, out=self.rows[part])
        if self.weight is not None:
            self.weight.addmm_(excess.T, rows)
        if self.bias is not None:
            self.bias += excess.sum(0)
