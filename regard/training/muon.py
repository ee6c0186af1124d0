"""Muon: momentum updates, orthogonalised per matrix (Jordan et al. 2024).

For a matrix W with gradient G, momentum m and learning rate r:

    M = m M + (1 - m) G             and with Nesterov momentum U = m M + (1 - m) G
    W = (1 - r decay) W - r s O(U)  with s = 0.2 sqrt(max(rows, columns))

O(U) has the singular vectors of U and singular values near 1. The factor s gives the update the typical size
of AdamW's (Liu et al. 2025), so that both use one learning rate. A fused W^Q W^K W^V is three matrices.
Matrices of equal shape are computed together, in float32, or in float64 if they are. Of a sharded matrix
every process gathers U, computes O(U) and updates its rows.
"""

# torch._foreach_* operate on lists of tensors; torch's own optimizers use them.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from regard.training.adamw import AdamW
from regard.training.shards import full, is_sharded, like, local, share_of

# a, b, c of the polynomial a x + b x^3 + c x^5 of each iteration. Each is the one that brings the singular
# values of an interval, at first 0.003 to 1, closest to 1 in the worst case (Amsel et al. 2025). After four
# iterations they are between 0.80 and 1.20; smaller values are multiplied by up to 296.
COEFFICIENTS = (
    (8.383674, -24.765906, 18.357082),
    (4.043420, -3.011405, 0.569512),
    (3.505571, -2.626654, 0.525719),
    (2.490116, -1.834275, 0.436835),
)
MATCHING_ADAMW = 0.2
WIDE = 2  # ratio of columns to rows from which iterating on x x^T is cheaper


def orthogonalise(stack: Tensor) -> Tensor:
    """Matrices N R C with singular values near 1, by Newton-Schulz iterations."""
    tall = stack.shape[1] > stack.shape[2]
    stack = stack.to(torch.promote_types(stack.dtype, torch.float32))
    x = stack.mT if tall else stack
    x = x / x.flatten(1).norm(dim=1).clamp_min(1e-20)[:, None, None]
    x = _iterate_on_squares(x) if x.shape[2] >= WIDE * x.shape[1] else _iterate(x)
    return x.mT if tall else x


def _iterate(x: Tensor) -> Tensor:
    for a, b, c in COEFFICIENTS:
        squared = torch.bmm(x, x.mT)  # N R R
        inner = torch.baddbmm(squared, squared, squared, beta=b, alpha=c)
        x = torch.baddbmm(x, inner, x, beta=a)
    return x


def _iterate_on_squares(x: Tensor) -> Tensor:
    """The same for wide matrices: the polynomials are accumulated on x x^T, N R R, and applied to x once."""
    squared = torch.bmm(x, x.mT)
    product = inner = _polynomial(squared, *COEFFICIENTS[0])
    for coefficients in COEFFICIENTS[1:]:
        squared = torch.bmm(torch.bmm(inner, squared), inner)
        inner = _polynomial(squared, *coefficients)
        product = torch.bmm(inner, product)
    return torch.bmm(product, x)


def _polynomial(squared: Tensor, a: float, b: float, c: float) -> Tensor:
    """a + b s + c s^2, N R R."""
    polynomial = torch.baddbmm(squared, squared, squared, beta=b, alpha=c)
    polynomial.diagonal(dim1=1, dim2=2).add_(a)
    return polynomial


class Muon(AdamW):
    """Muon for the groups with `sections`, AdamW for the others.

    `sections` are, for each parameter, the row counts of the matrices stacked in it.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], momentum: float = 0.95, **defaults: Any):
        super().__init__(groups, momentum=momentum, sections=None, **defaults)

    def update(self, group: dict[str, Any]) -> None:
        """Update the parameters of one group."""
        if group["sections"] is None:
            super().update(group)
        else:
            self._update_matrices(group)

    def _update_matrices(self, group: dict[str, Any]) -> None:
        sections = [
            (parameter, rows)
            for parameter, rows in zip(group["params"], group["sections"], strict=True)
            if parameter.grad is not None
        ]
        if not sections:
            return
        parameters = [parameter for parameter, _ in sections]
        updates = self._momentum(parameters, group["momentum"])
        torch._foreach_mul_([local(x) for x in parameters], 1 - group["lr"] * group["weight_decay"])
        # The changes of a sharded parameter are collected whole, and this process adds its rows of them.
        changed = [
            torch.zeros(x.shape, dtype=x.dtype, device=x.device) if is_sharded(x) else x for x in parameters
        ]
        by_shape: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
        for target, update, (_, rows) in zip(changed, updates, sections, strict=True):
            for matrix, part in zip(target.split(rows), full(update).split(rows), strict=True):
                by_shape.setdefault(tuple(part.shape), []).append((matrix, part))
        for shape, pairs in by_shape.items():
            directions = orthogonalise(torch.stack([part for _, part in pairs])).to(pairs[0][0].dtype)
            matrices = [matrix for matrix, _ in pairs]
            scale = MATCHING_ADAMW * max(shape) ** 0.5
            torch._foreach_add_(matrices, list(directions.unbind()), alpha=-group["lr"] * scale)
        for parameter, change in zip(parameters, changed, strict=True):
            if parameter is not change:
                local(parameter).add_(share_of(parameter, change))

    def _momentum(self, parameters: list[Tensor], momentum: float) -> list[Tensor]:
        """Update every momentum; the Nesterov updates, sharded as the parameters are."""
        gradients = [local(parameter.grad) for parameter in parameters if parameter.grad is not None]
        states = [self.state_of(parameter, "momentum")["momentum"] for parameter in parameters]
        momenta = [local(state) for state in states]
        torch._foreach_lerp_(momenta, gradients, 1 - momentum)
        updates = torch._foreach_lerp(gradients, momenta, momentum)
        return [like(parameter, update) for parameter, update in zip(parameters, updates, strict=True)]
