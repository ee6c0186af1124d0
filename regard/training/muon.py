"""Muon: momentum whose every matrix is made orthogonal before it is applied (Jordan et al. 2024).

For a matrix W with gradient G, momentum m and rate r:

    M = m M + (1 - m) G             and, looking ahead (Nesterov), U = m M + (1 - m) G
    W = (1 - r decay) W - r s O(U)  with s = 0.2 sqrt(max(rows, columns))

O(U) keeps the singular directions of U and brings all singular values near 1. The factor s gives an update
the size that AdamW's typically has (Liu et al. 2025), so that one rate serves both. A fused W^Q W^K W^V is
three matrices. All matrices of one shape are worked on together, in float32.
"""

# The operations over lists of tensors carry an underscore; torch's own optimizers are made of them.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from regard.training.adamw import AdamW

# Of a x + b x^3 + c x^5 for each iteration: the one that brings all singular values closest to 1, wherever
# in their interval they lie, from 0.003 to 1 at first (the best each time is the best in all: Amsel et al.
# 2025). After four they lie between 0.80 and 1.20, and what was smaller has grown 296 times.
COEFFICIENTS = (
    (8.383674, -24.765906, 18.357082),
    (4.043420, -3.011405, 0.569512),
    (3.505571, -2.626654, 0.525719),
    (2.490116, -1.834275, 0.436835),
)
MATCHING_ADAMW = 0.2
WIDE = 2  # times as many columns as rows, from which on squares are less work


def orthogonalise(stack: Tensor) -> Tensor:
    """Matrices N R C with their singular values brought near 1, by iterations after Newton and Schulz."""
    tall = stack.shape[1] > stack.shape[2]
    x = stack.mT.float() if tall else stack.float()
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
    """The same for wide matrices: each iteration multiplies x by a polynomial of x x^T, N R R.

    So x itself is needed at the beginning and at the end alone.
    """
    squared = torch.bmm(x, x.mT)
    product = inner = _polynomial(squared, *COEFFICIENTS[0])
    for coefficients in COEFFICIENTS[1:]:
        squared = torch.bmm(torch.bmm(inner, squared), inner)
        inner = _polynomial(squared, *coefficients)
        product = torch.bmm(inner, product)
    return torch.bmm(product, x)


def _polynomial(squared: Tensor, a: float, b: float, c: float) -> Tensor:
    """a + b s + c s^2, N R R."""
    found = torch.baddbmm(squared, squared, squared, beta=b, alpha=c)
    found.diagonal(dim1=1, dim2=2).add_(a)
    return found


class Muon(AdamW):
    """Muon for the groups with `sections`, AdamW for the others.

    `sections` has for each parameter the rows of every matrix stacked in it.
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
        present = [
            (p, rows)
            for p, rows in zip(group["params"], group["sections"], strict=True)
            if p.grad is not None
        ]
        if not present:
            return
        parameters = [parameter for parameter, _ in present]
        updates = self._momentum(parameters, group["momentum"])
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        by_shape: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
        for (parameter, rows), update in zip(present, updates, strict=True):
            for place, part in zip(parameter.split(rows), update.split(rows), strict=True):
                by_shape.setdefault(tuple(part.shape), []).append((place, part))
        for shape, pairs in by_shape.items():
            directions = orthogonalise(torch.stack([part for _, part in pairs])).to(pairs[0][0].dtype)
            places = [place for place, _ in pairs]
            scale = MATCHING_ADAMW * max(shape) ** 0.5
            torch._foreach_add_(places, list(directions.unbind()), alpha=-group["lr"] * scale)

    def _momentum(self, parameters: list[Tensor], momentum: float) -> list[Tensor]:
        """Move every momentum towards its gradient, and look one step ahead of it."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        held = [self.state_of(parameter, "momentum")["momentum"] for parameter in parameters]
        torch._foreach_lerp_(held, gradients, 1 - momentum)
        return list(torch._foreach_lerp(gradients, held, momentum))
