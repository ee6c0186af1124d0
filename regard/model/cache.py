"""Key-value cache of incremental decoding. The caller holds it; modules keep no state.

L layers, R rows (sequences being decoded), S sources, G key-value heads, T capacity in tokens, K tokens of
the longest row, M tokens of the longest source, E key width and F value width of a head, W = G (E + F): the
keys and values of one token in one layer, keys first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.model.masks import EVERYTHING, Mask


@dataclass(frozen=True)
class ProjectedMemory:
    """Keys and values of the encoder's memory in one layer, S G M E and S G M F, computed once per source."""

    key: Tensor
    value: Tensor

    def fold(self, x: Tensor) -> Tensor:
        """Reshape R Q D to S (R/S Q) D: adjacent rows of one source become queries to the same memory."""
        return x.reshape(self.key.shape[0], -1, x.shape[-1])


@dataclass(frozen=True)
class LayerCache:
    """The cache of one layer's self-attention."""

    cache: Cache
    layer: int

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append R G Q E and R G Q F to each row and return the keys and values of all its tokens."""
        return self.cache._extend(self.layer, key, value)


class Cache:
    """Keys and values of all layers, for rows of different lengths.

    Token i of a row is stored at position i. Positions beyond the length of a row are masked, and are
    overwritten later. Position is the outer axis, so memory pages are used only as rows grow. The capacity
    doubles when it is exceeded. A step copies nothing. Reordering copies the positions in use between two
    buffers that alternate. Stored values are detached, so the cache is for inference only.
    """

    lengths: np.ndarray  # of each row
    length: int  # of the longest row
    offset: int | Tensor  # position of the next token: one number if all rows have the same length
    memories: list[ProjectedMemory]  # of each layer's cross-attention, in the order of the rows
    memory_mask: Mask

    def __init__(
        self,
        layers: int,
        rows: int,
        groups: int,
        key_width: int,
        value_width: int,
        capacity: int = 64,
        like: Tensor | None = None,
    ):
        like = torch.empty(0) if like is None else like  # only its device and number type are used
        self._groups, self._sections = groups, [groups * key_width, groups * value_width]
        self._spare: Tensor | None = None
        self._set_store(_zeros(like, layers, max(capacity, 1), rows, sum(self._sections)), rows)
        self._set_lengths(np.zeros(rows, dtype=np.int64))
        self._source_of = np.arange(rows)  # index of the source of each row
        self._stored: list[ProjectedMemory] = []  # one per layer, for all sources
        self._stored_mask = EVERYTHING
        self.memories, self.memory_mask = [], EVERYTHING

    @property
    def rows(self) -> int:
        """Number of sequences."""
        return len(self.lengths)

    def layer_cache(self, layer: int) -> LayerCache:
        """The cache of a layer's self-attention."""
        return LayerCache(self, layer)

    def memory(self, layer: int) -> ProjectedMemory:
        """The memory of a layer's cross-attention."""
        return self.memories[layer]

    def store_memories(self, memories: list[ProjectedMemory], mask: Mask) -> None:
        """Store the projected memory of each layer, with one source per row."""
        self._stored = [ProjectedMemory(m.key.contiguous(), m.value.contiguous()) for m in memories]
        self._stored_mask = mask
        self._arrange_memories()

    def advance(self, counts: int | np.ndarray) -> None:
        """Advance row lengths by one shared count or one count per row."""
        self._set_lengths(self.lengths + counts)

    def reorder(self, rows: np.ndarray) -> None:
        """Replace row i by the previous row rows[i]; rows may repeat or be absent."""
        rows = np.asarray(rows, dtype=np.int64)
        if np.array_equal(rows, np.arange(self.rows)):
            return
        sources, before = self._source_of[rows], self._source_of
        self._set_lengths(self.lengths[rows])
        self._copy_rows(torch.from_numpy(rows).to(self._active.device))
        if not np.array_equal(sources, before):
            self._source_of = sources
            self._drop_unused_sources()
            self._arrange_memories()

    def join(self, other: Cache) -> None:
        """Append the rows of another cache."""
        capacity = max(self._active.shape[1], other._active.shape[1])
        store = torch.cat([_with_capacity(cache._active, capacity) for cache in (self, other)], dim=2)
        self._set_store(store, store.shape[2])
        self._source_of = np.concatenate([self._source_of, other._source_of + self._sources])
        self._set_lengths(np.concatenate([self.lengths, other.lengths]))
        if self._stored:
            self._join_memories(other)
            self._arrange_memories()

    def _set_lengths(self, lengths: np.ndarray) -> None:
        self.lengths, self.length = lengths, int(lengths.max(initial=0))
        is_shared = (lengths == self.length).all()
        self.offset = self.length if is_shared else torch.from_numpy(lengths).to(self._active.device)

    def _set_store(self, store: Tensor, rows: int) -> None:
        """Use the first rows of a buffer L T . W."""
        self._store, self._active = store, store[:, :, :rows]  # L T R W
        key, value = self._active.split(self._sections, dim=-1)
        self._keys = key.unflatten(-1, (self._groups, -1)).permute(0, 2, 3, 1, 4)  # L R G T E
        self._values = value.unflatten(-1, (self._groups, -1)).permute(0, 2, 3, 1, 4)  # L R G T F

    def _copy_rows(self, rows: Tensor) -> None:
        """Copy the positions in use of these rows into the spare buffer, and use that one."""
        old, spare = self._active, self._spare
        layers, capacity, _, width = old.shape
        if spare is None or spare.shape[2] < len(rows) or spare.shape[1] != capacity:
            spare = _zeros(old, layers, capacity, len(rows), width)
        self._spare = self._store
        self._set_store(spare, len(rows))
        used = self.length
        torch.index_select(old[:, :used], 2, rows, out=self._active[:, :used])

    def _reserve(self, tokens: int) -> None:
        if tokens > self._active.shape[1]:
            self._set_store(_with_capacity(self._active, max(tokens, 2 * self._active.shape[1])), self.rows)

    def _extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        tokens = key.shape[2]
        start, end = self.offset, self.length + tokens
        self._reserve(end)
        target = self._active[layer]  # T R W
        new = torch.cat([x.detach().transpose(1, 2).flatten(2) for x in (key, value)], dim=-1)  # R Q W
        if isinstance(start, int):
            target[start:end] = new.transpose(0, 1)
        else:
            positions = start[:, None] + torch.arange(tokens, device=start.device)  # R Q
            target[positions, torch.arange(self.rows, device=start.device)[:, None]] = new
        return self._keys[layer, :, :, :end], self._values[layer, :, :, :end]

    @property
    def _sources(self) -> int:
        return self._stored[0].key.shape[0] if self._stored else 0

    def _drop_unused_sources(self) -> None:
        used, self._source_of = np.unique(self._source_of, return_inverse=True)
        if self._stored and len(used) < self._sources:
            self._stored, self._stored_mask = self._select_memories(used)

    def _arrange_memories(self) -> None:
        """Share a memory between adjacent rows if all sources have equally many rows; copy it otherwise."""
        if not self._stored:
            return
        adjacent = np.repeat(np.arange(self._sources), self.rows // max(self._sources, 1))
        if np.array_equal(self._source_of, adjacent):
            self.memories, self.memory_mask = self._stored, self._stored_mask
        else:
            self.memories, self.memory_mask = self._select_memories(self._source_of)

    def _select_memories(self, rows: np.ndarray) -> tuple[list[ProjectedMemory], Mask]:
        index = torch.from_numpy(rows).to(self._active.device)
        keys = self._stored_mask.keys
        mask = self._stored_mask if keys is None else Mask(keys=keys[index])
        return [ProjectedMemory(memory.key[index], memory.value[index]) for memory in self._stored], mask

    def _join_memories(self, other: Cache) -> None:
        tokens = max(cache._stored[0].key.shape[2] for cache in (self, other))
        caches = (self, other)
        keys = [_padded_keys(cache._stored[0], cache._stored_mask, tokens) for cache in caches]
        self._stored_mask = Mask(keys=torch.cat(keys))
        self._stored = [
            ProjectedMemory(
                _concatenate_padded(a.key, b.key, tokens), _concatenate_padded(a.value, b.value, tokens)
            )
            for a, b in zip(self._stored, other._stored, strict=True)
        ]


def _with_capacity(store: Tensor, capacity: int) -> Tensor:
    """Copy L T R W into a buffer with a larger T."""
    new = _zeros(store, store.shape[0], capacity, *store.shape[2:])
    new[:, : store.shape[1]] = store
    return new


def _zeros(like: Tensor, *shape: int) -> Tensor:
    """Zeros; numpy's are mapped lazily, so they use memory only where they are written."""
    if like.device.type == "cpu" and like.dtype == torch.float32:
        return torch.from_numpy(np.zeros(shape, dtype=np.float32))
    return like.new_zeros(shape)


def _concatenate_padded(a: Tensor, b: Tensor, tokens: int) -> Tensor:
    """Concatenate S G M E of two caches, padded to the same number of tokens."""
    return torch.cat([F.pad(x, (0, 0, 0, tokens - x.shape[2])) for x in (a, b)])


def _padded_keys(memory: ProjectedMemory, mask: Mask, tokens: int) -> Tensor:
    """The key mask of the sources, padded to this number of tokens."""
    sources, _, length, _ = memory.key.shape
    unmasked = torch.ones(sources, length, dtype=torch.bool, device=memory.key.device)
    return F.pad(unmasked if mask.keys is None else mask.keys, (0, tokens - length))
