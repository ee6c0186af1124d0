"""Exact k-nearest-neighbour search in little memory.

R queries, N keys, D width, K wanted, B blocks. Distances are computed in float64, one pair at a time, and
equal distances are ordered by index. So the neighbours of a query do not depend on the other queries.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 16  # keys per block; the first pass keeps only the best score of a block
SPARE = 8  # blocks compared exactly beyond those wanted
SCORES = 1 << 17  # scores held at once, so that they fit into a processor's cache
VECTORS = 1 << 12  # keys converted at once


def nearest(queries: Tensor, keys: Tensor, half_squares: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Squared distances to the nearest keys, R K, the nearest first, and their indices.

    `half_squares` is |k|^2 / 2 of each key. The score q k - |k|^2 / 2 grows as the distance shrinks. It is
    computed in float32 for all keys. The best K keys lie in the K blocks with the best maxima. These and a
    few more are compared exactly. If a key outside of them could still be as near, because float32 is not
    exact, all keys are compared.
    """
    slack = _slack(queries, half_squares)
    everything = torch.arange(len(keys), device=keys.device)
    if (count + SPARE) * BLOCK >= len(keys):
        candidates, outside = everything.expand(len(queries), -1), torch.full_like(slack, -torch.inf)
    else:
        candidates, outside = _candidates(queries, keys, half_squares, count)
    distances, indices = [], []
    for query, row, best_outside, error in zip(queries, candidates, outside, slack, strict=True):
        near, order = _sorted(query, keys, half_squares, row[row < len(keys)], error, count)
        if best_outside + error >= (_exact(query).square().sum() - near[-1]) / 2:
            near, order = _sorted(query, keys, half_squares, everything, error, count)
        distances.append(near)
        indices.append(order)
    return torch.stack(distances), torch.stack(indices)


def _candidates(queries: Tensor, keys: Tensor, half_squares: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The indices of all keys in the best blocks, R C in order, and the best score in the other blocks, R.

    Block b has the keys b, b + B, b + 2 B...
    """
    blocks = -(-len(keys) // BLOCK)
    best = queries.new_empty(len(queries), blocks)
    size = max(1, min(VECTORS, SCORES // len(queries)))
    for first in range(0, blocks, size):
        end = min(first + size, blocks)
        maxima = best[:, first:end]
        maxima.fill_(-torch.inf)
        for offset in range(0, len(keys), blocks):
            part = slice(first + offset, min(end + offset, offset + blocks, len(keys)))
            scores = torch.addmm(half_squares[part], queries, keys[part].float().T, beta=-1)
            torch.maximum(maxima[:, : scores.shape[1]], scores, out=maxima[:, : scores.shape[1]])
    values, chosen = best.topk(count + SPARE + 1)
    indices = chosen[:, :-1, None] + torch.arange(0, blocks * BLOCK, blocks, device=keys.device)  # R K BLOCK
    return indices.flatten(1).sort(1).values, values[:, -1]


def _slack(queries: Tensor, half_squares: Tensor) -> Tensor:
    """The largest error of a float32 score: D roundings of at most the largest product."""
    longest = (2 * half_squares.max()).sqrt()
    return (queries.shape[1] + 2) * 2.0**-23 * longest * (queries.norm(dim=1) + longest)


def _sorted(
    query: Tensor, keys: Tensor, half_squares: Tensor, indices: Tensor, slack: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """The nearest keys among the indices; equal distances are ordered by index.

    Keys whose float32 scores prove that `count` others are nearer are not compared exactly.
    """
    parts = indices.split(VECTORS)
    scores = torch.cat([keys[part].float() @ query - half_squares[part] for part in parts])
    near = indices[scores >= scores.topk(count).values[-1] - 2 * slack]
    distances = torch.cat(
        [(_exact(query) - _exact(keys[part])).square().sum(1) for part in near.split(VECTORS)]
    )
    values, order = distances.sort(stable=True)
    return values[:count], near[order[:count]]


def _exact(x: Tensor) -> Tensor:
    return x if x.device.type == "mps" else x.double()  # Apple's GPUs have no float64
