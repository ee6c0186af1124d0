"""The nearest of many keys to each of some queries, exactly, in little memory.

R queries, N keys, D width, K wanted, B blocks. Of equals, which is found is chance.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 16  # keys of which the best is looked for at first
SCORES = 1 << 17  # comparisons held at once: few enough for a processor's cache
VECTORS = 1 << 16  # keys that are laid out anew at once


def nearest(queries: Tensor, keys: Tensor, halves: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Squared distances of the nearest keys, R K, the nearest first, and their places; halves are |k|^2 / 2.

    q k - |k|^2 / 2 grows as the distance shrinks. The best K keys lie in the K blocks whose best are best, so
    that only these are sorted.
    """
    if count * BLOCK >= len(keys):
        places = torch.arange(len(keys), device=keys.device).expand(len(queries), -1)
    else:
        places = _candidates(queries, keys, halves, count)
    rows = max(1, VECTORS // places.shape[1])
    parts = zip(queries.split(rows), places.split(rows), strict=True)
    found = [_sorted(some, keys, halves, where, count) for some, where in parts]
    distances, places = (torch.cat(side) for side in zip(*found, strict=True))
    return distances, places


def _candidates(queries: Tensor, keys: Tensor, halves: Tensor, count: int) -> Tensor:
    """The places of all keys in the most promising blocks, R C; block b has the keys b, b + B, b + 2 B..."""
    blocks = -(-len(keys) // BLOCK)
    best = queries.new_empty(len(queries), blocks)
    size = max(1, SCORES // len(queries))
    for first in range(0, blocks, size):
        end = min(first + size, blocks)
        mine = best[:, first:end]
        torch.addmm(halves[first:end], queries, keys[first:end].T, beta=-1, out=mine)
        for offset in range(blocks, len(keys), blocks):
            some = slice(first + offset, min(end + offset, offset + blocks, len(keys)))
            scores = torch.addmm(halves[some], queries, keys[some].T, beta=-1)
            torch.maximum(mine[:, : scores.shape[1]], scores, out=mine[:, : scores.shape[1]])
    chosen = best.topk(count, sorted=False).indices[:, :, None]  # R K 1
    places = chosen + torch.arange(0, blocks * BLOCK, blocks, device=keys.device)  # R K BLOCK
    return places.flatten(1)


def _sorted(
    queries: Tensor, keys: Tensor, halves: Tensor, places: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    there = places.clamp_max(len(keys) - 1)  # the last block may be short
    scores = torch.einsum("rd,rcd->rc", queries, keys[there]) - halves[there]
    scores = scores.masked_fill(places >= len(keys), -torch.inf)
    values, best = scores.topk(count)
    distances = queries.square().sum(1, keepdim=True) - 2 * values
    return distances.clamp_min(0), places.gather(1, best)
