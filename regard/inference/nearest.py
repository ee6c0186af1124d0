"""The nearest of many keys to each of some queries, exactly, in little memory.

R queries, N keys, D width, K wanted, B blocks. Distances are worked out in float64, each by itself, and of
keys that are equally far the one of the lower place comes first: what is found for a query depends neither
on the other queries nor on chance.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 16  # keys of which the best is looked for at first
SPARE = 8  # blocks that are looked into beyond those wanted
SCORES = 1 << 17  # comparisons held at once: few enough for a processor's cache
VECTORS = 1 << 12  # keys that are converted at once


def nearest(queries: Tensor, keys: Tensor, halves: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Squared distances of the nearest keys, R K, the nearest first, and their places; halves are |k|^2 / 2.

    q k - |k|^2 / 2 grows as the distance shrinks. It is worked out in float32 for all keys. The best K keys
    lie in the K blocks whose best are best; these and a few more are compared exactly. Where a key outside of
    them could still be as near, since float32 is not exact, all keys are.
    """
    slack = _slack(queries, halves)
    everywhere = torch.arange(len(keys), device=keys.device)
    if (count + SPARE) * BLOCK >= len(keys):
        places, outside = everywhere.expand(len(queries), -1), torch.full_like(slack, -torch.inf)
    else:
        places, outside = _candidates(queries, keys, halves, count)
    distances, found = [], []
    for query, some, elsewhere, unsure in zip(queries, places, outside, slack, strict=True):
        near, where = _sorted(query, keys, halves, some[some < len(keys)], unsure, count)
        if elsewhere + unsure >= (_exact(query).square().sum() - near[-1]) / 2:
            near, where = _sorted(query, keys, halves, everywhere, unsure, count)
        distances.append(near)
        found.append(where)
    return torch.stack(distances), torch.stack(found)


def _candidates(queries: Tensor, keys: Tensor, halves: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The places of all keys in the most promising blocks, R C in order, and the best score elsewhere, R.

    Block b has the keys b, b + B, b + 2 B...
    """
    blocks = -(-len(keys) // BLOCK)
    best = queries.new_empty(len(queries), blocks)
    size = max(1, min(VECTORS, SCORES // len(queries)))
    for first in range(0, blocks, size):
        end = min(first + size, blocks)
        mine = best[:, first:end]
        mine.fill_(-torch.inf)
        for offset in range(0, len(keys), blocks):
            some = slice(first + offset, min(end + offset, offset + blocks, len(keys)))
            scores = torch.addmm(halves[some], queries, keys[some].float().T, beta=-1)
            torch.maximum(mine[:, : scores.shape[1]], scores, out=mine[:, : scores.shape[1]])
    values, chosen = best.topk(count + SPARE + 1)
    places = chosen[:, :-1, None] + torch.arange(0, blocks * BLOCK, blocks, device=keys.device)  # R K BLOCK
    return places.flatten(1).sort(1).values, values[:, -1]


def _slack(queries: Tensor, halves: Tensor) -> Tensor:
    """How far a score may be off in float32: D roundings of at most the largest product."""
    longest = (2 * halves.max()).sqrt()
    return (queries.shape[1] + 2) * 2.0**-23 * longest * (queries.norm(dim=1) + longest)


def _sorted(
    query: Tensor, keys: Tensor, halves: Tensor, places: Tensor, slack: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Of the keys at some places, in order, the nearest to a query; of equals, the lower place.

    Those whose scores in float32 show that they are farther than `count` others are not compared exactly.
    """
    scores = torch.cat([keys[some].float() @ query - halves[some] for some in places.split(VECTORS)])
    near = places[scores >= scores.topk(count).values[-1] - 2 * slack]
    distances = torch.cat(
        [(_exact(query) - _exact(keys[some])).square().sum(1) for some in near.split(VECTORS)]
    )
    values, order = distances.sort(stable=True)
    return values[:count], near[order[:count]]


def _exact(x: Tensor) -> Tensor:
    return x if x.device.type == "mps" else x.double()  # Apple's GPUs have no float64
