"""Equal keys become one, in place, and what followed them is counted together.

N keys, D width. A copy of all keys would take as much memory again, so rows are compared by a hash first.
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
