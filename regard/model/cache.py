"""Keys and values already computed, held by the caller and never by a module.

L layers, R rows (sequences being written), S sources, G heads with keys of their own, T tokens there
is room for, M tokens of the longest source, E key width of a head, F value width of a head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.model.masks import EVERYTHING, Mask


@dataclass(frozen=True)
class Memory:
    """One layer's keys and values of the sources, S G M E and S G M F: made once a source."""

    key: Tensor
    value: Tensor

    def fold(self, x: Tensor) -> Tensor:
        """Rows of one source stand together, so they can be further queries to one memory: S (R/S Q) D."""
        return x.reshape(self.key.shape[0], -1, x.shape[-1])


@dataclass(frozen=True)
class Slot:
    """One layer's place in a cache."""

    cache: Cache
    layer: int

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Put R G Q E and R G Q F behind what each row has, and give back all of it."""
        return self.cache._extend(self.layer, key, value)


class Cache:
    """What decoding has computed so far, for rows that may stand at different lengths.

    A row's tokens lie at places 0, 1, 2 ... of its own, so what lies beyond its length is never seen
    and is overwritten. Room doubles when it runs out; nothing is copied at an ordinary step. For
    inference: what is put in is cut off from gradients.
    """

    lengths: np.ndarray  # of each row
    length: int  # of the longest row
    first: int | Tensor  # the place where each row goes on: one number where all agree

    def __init__(
        self,
        layers: int,
        rows: int,
        groups: int,
        key_width: int,
        value_width: int,
        room: int = 64,
        like: Tensor | None = None,
    ):
        like = torch.empty(0) if like is None else like  # only its device and number type are used
        self._keys = like.new_zeros(layers, rows, groups, max(room, 1), key_width)  # L R G T E
        self._values = like.new_zeros(layers, rows, groups, max(room, 1), value_width)
        self._stand_at(np.zeros(rows, dtype=np.int64))
        self._source_of = np.arange(rows)  # which source a row looks at
        self._stored: list[Memory] = []  # a memory a layer, for every source
        self._stored_mask = EVERYTHING
        self._shown: list[Memory] = []  # the same, arranged for the rows as they stand
        self.memory_mask = EVERYTHING

    @property
    def rows(self) -> int:
        """How many sequences there are."""
        return len(self.lengths)

    def slot(self, layer: int) -> Slot:
        """The place of a layer's self-attention."""
        return Slot(self, layer)

    def memory(self, layer: int) -> Memory:
        """What a layer's cross-attention looks at."""
        return self._shown[layer]

    def remember(self, memories: list[Memory], mask: Mask) -> None:
        """Keep each layer's keys and values of the sources, one source a row."""
        self._stored, self._stored_mask = memories, mask
        self._arrange()

    def advance(self, counts: int | np.ndarray) -> None:
        """The tokens just put in count from now on: as many for every row, or so many for each."""
        self._stand_at(self.lengths + counts)

    def reorder(self, rows: np.ndarray) -> None:
        """Row i becomes what row rows[i] was; rows may repeat or be absent."""
        rows = np.asarray(rows, dtype=np.int64)
        if np.array_equal(rows, np.arange(self.rows)):
            return
        self._source_of = self._source_of[rows]
        self._stand_at(self.lengths[rows])
        index = torch.from_numpy(rows).to(self._keys.device)
        self._keys, self._values = (_picked(x, index, self.length) for x in (self._keys, self._values))
        self._forget_unused_sources()
        self._arrange()

    def join(self, other: Cache) -> None:
        """Take in another cache's rows, after those already here."""
        room = max(self._keys.shape[3], other._keys.shape[3])
        self._keys = torch.cat([_roomier(cache._keys, room) for cache in (self, other)], dim=1)
        self._values = torch.cat([_roomier(cache._values, room) for cache in (self, other)], dim=1)
        self._source_of = np.concatenate([self._source_of, other._source_of + self._sources])
        self._stand_at(np.concatenate([self.lengths, other.lengths]))
        if self._stored:
            self._join_memories(other)
            self._arrange()

    def _stand_at(self, lengths: np.ndarray) -> None:
        self.lengths, self.length = lengths, int(lengths.max(initial=0))
        agree = (lengths == self.length).all()
        self.first = self.length if agree else torch.from_numpy(lengths).to(self._keys.device)

    @property
    def _sources(self) -> int:
        return self._stored[0].key.shape[0] if self._stored else 0

    def _extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        tokens = key.shape[2]
        start, end = self.first, self.length + tokens
        if end > self._keys.shape[3]:
            room = max(end, 2 * self._keys.shape[3])
            self._keys, self._values = _roomier(self._keys, room), _roomier(self._values, room)
        keys, values = self._keys[layer], self._values[layer]
        if isinstance(start, int):
            keys[:, :, start:end] = key.detach()
            values[:, :, start:end] = value.detach()
        else:
            places = start[:, None] + torch.arange(tokens, device=start.device)  # R Q
            row = torch.arange(self.rows, device=start.device)[:, None]
            keys[row, :, places] = key.detach().transpose(1, 2)
            values[row, :, places] = value.detach().transpose(1, 2)
        return keys[:, :, :end], values[:, :, :end]

    def _forget_unused_sources(self) -> None:
        used, self._source_of = np.unique(self._source_of, return_inverse=True)
        if self._stored and len(used) < self._sources:
            self._stored, self._stored_mask = self._rows_of_memory(used)

    def _arrange(self) -> None:
        """Rows of a source that stand together in equal number share its memory; others get a copy."""
        if not self._stored:
            return
        together = np.repeat(np.arange(self._sources), self.rows // max(self._sources, 1))
        if np.array_equal(self._source_of, together):
            self._shown, self.memory_mask = self._stored, self._stored_mask
        else:
            self._shown, self.memory_mask = self._rows_of_memory(self._source_of)

    def _rows_of_memory(self, rows: np.ndarray) -> tuple[list[Memory], Mask]:
        index = torch.from_numpy(rows).to(self._keys.device)
        keys = self._stored_mask.keys
        mask = self._stored_mask if keys is None else Mask(keys=keys[index])
        return [Memory(memory.key[index], memory.value[index]) for memory in self._stored], mask

    def _join_memories(self, other: Cache) -> None:
        tokens = max(cache._stored[0].key.shape[2] for cache in (self, other))
        keys = torch.cat([_existing(cache._stored[0], cache._stored_mask, tokens) for cache in (self, other)])
        self._stored_mask = Mask(keys=keys)
        self._stored = [
            Memory(_one_above_the_other(a.key, b.key, tokens), _one_above_the_other(a.value, b.value, tokens))
            for a, b in zip(self._stored, other._stored, strict=True)
        ]


def _picked(stored: Tensor, rows: Tensor, used: int) -> Tensor:
    """Rows of L R G T E, copying no more than what is in use."""
    shape = list(stored.shape)
    shape[1] = len(rows)
    new = stored.new_zeros(shape)
    new[:, :, :, :used] = stored[:, :, :, :used].index_select(1, rows)
    return new


def _roomier(stored: Tensor, room: int) -> Tensor:
    shape = list(stored.shape)
    shape[3] = room
    new = stored.new_zeros(shape)
    new[:, :, :, : stored.shape[3]] = stored
    return new


def _one_above_the_other(a: Tensor, b: Tensor, tokens: int) -> Tensor:
    """S G M E of two caches, the shorter one lengthened to as many tokens."""
    return torch.cat([F.pad(x, (0, 0, 0, tokens - x.shape[2])) for x in (a, b)])


def _existing(memory: Memory, mask: Mask, tokens: int) -> Tensor:
    """Which of the tokens exist in each source, written out to as many tokens."""
    sources, _, length, _ = memory.key.shape
    everything = torch.ones(sources, length, dtype=torch.bool, device=memory.key.device)
    return F.pad(everything if mask.keys is None else mask.keys, (0, tokens - length))
