"""The nearest of many keys to each of some queries, exactly, in little memory.

R queries, N keys, D width, K wanted, B blocks. Distances are worked out in float64, each by itself, and of
keys that are equally far the one of the lower place comes first: what is found for a query depends neither
on the other queries nor on chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

ROWS = 1 << 10  # keys that are looked at together


def merge_equal(keys: Tensor) -> tuple[Tensor, np.ndarray]:
    """The keys without repetitions, each at the first of its places, and the new number of each old key.

    The given tensor is overwritten.
    """
    firsts = _first_of_each(keys)
    is_first = firsts == np.arange(len(firsts))
    numbers = (np.cumsum(is_first) - 1)[firsts]
    kept = torch.from_numpy(np.flatnonzero(is_first)).to(keys.device)
    if len(kept) < len(keys):
        for start, places in zip(range(0, len(kept), ROWS), kept.split(ROWS), strict=True):
            keys[start : start + len(places)] = keys[places]  # never before a row that is still to be read
    return keys[: len(kept)], numbers


@dataclass(frozen=True)
class Followers:
    """What followed keys: how many different tokens each key has, these tokens, how often each followed."""

    lengths: np.ndarray
    ids: np.ndarray
    counts: np.ndarray


def followed(owners: np.ndarray, ids: np.ndarray, times: np.ndarray) -> Followers:
    """Tokens that each followed a key so many times, counted together."""
    order = np.lexsort((ids, owners))
    owners, ids, times = owners[order], ids[order], times[order]
    is_new = np.ones(len(ids), bool)
    is_new[1:] = (owners[1:] != owners[:-1]) | (ids[1:] != ids[:-1])
    counts = np.add.reduceat(times, np.flatnonzero(is_new))
    return Followers(np.bincount(owners[is_new]), ids[is_new].astype(np.int64), counts.astype(np.int64))


def _first_of_each(keys: Tensor) -> np.ndarray:
    """For each key, the first place of a key with the same numbers, N."""
    hashes = _hashes(keys)
    order = np.argsort(hashes, kind="stable")
    is_new = np.ones(len(order), bool)
    is_new[1:] = hashes[order[1:]] != hashes[order[:-1]]
    leaders = order[np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))]
    alike = np.flatnonzero(~is_new)
    for some in np.array_split(alike, -(-len(alike) // ROWS) or 1):
        left, right = (torch.from_numpy(x[some]).to(keys.device) for x in (order, leaders))
        differ = (keys[left] != keys[right]).any(1).cpu().numpy()
        leaders[some[differ]] = order[some[differ]]  # one hash for two keys: they stay apart
    firsts = np.empty_like(order)
    firsts[order] = leaders
    return firsts


def _hashes(keys: Tensor) -> np.ndarray:
    """A number of 64 bits for each row, the same for equal rows."""
    factors = torch.from_numpy(np.random.default_rng(0).integers(-(1 << 62), 1 << 62, keys.shape[1]) | 1)
    hashes = np.empty(len(keys), np.int64)  # filled in place: small results between large ones keep memory
    for start, part in zip(range(0, len(keys), ROWS), keys.split(ROWS), strict=True):
        hashes[start : start + ROWS] = (part.cpu().view(torch.int16).long() * factors).sum(1).numpy()
    return hashes


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
