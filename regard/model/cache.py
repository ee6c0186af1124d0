"""Keys and values already computed, held by the caller and never by a module.

L layers, R rows (sequences being written), S sources, G heads with keys of their own, T tokens there
is room for, K tokens of the longest row, M tokens of the longest source, E key width of a head, F value
width of a head, W = G (E + F): all that a layer keeps of a token, keys first.
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
class LayerCache:
    """One layer's place in a cache."""

    cache: Cache
    layer: int

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Put R G Q E and R G Q F behind what each row has, and give back all of it."""
        return self.cache._extend(self.layer, key, value)


@dataclass(frozen=True)
class CacheUpdate:
    """One more token for every row: where it goes, and what it looks at, layer by layer."""

    first: int | Tensor  # its place in its row: one number where all agree
    targets: tuple[Tensor, ...]  # R W where all agree, T R W otherwise
    keys: tuple[Tensor, ...]  # R G K E
    values: tuple[Tensor, ...]  # R G K F
    bias: Tensor | None  # R 1 1 K, added to scores: minus infinity behind the end of shorter rows

    def put(self, layer: int, token: Tensor) -> None:
        """Put a layer's R W in its place."""
        if isinstance(self.first, int):
            self.targets[layer].copy_(token)
        else:
            self.targets[layer][self.first, torch.arange(len(token), device=token.device)] = token


class Cache:
    """What decoding has computed so far, for rows that may stand at different lengths.

    A row's tokens lie at places 0, 1, 2 ... of its own, so what lies beyond its length is never seen
    and is overwritten. The tokens of all rows at one place lie together, so that memory is taken as it is
    filled. Room doubles when it runs out; nothing is copied at an ordinary step, and no more than what is in
    use when rows are reordered: from one store into another, and at the next time back. For inference: what
    is put in is cut off from gradients.
    """

    lengths: np.ndarray  # of each row
    length: int  # of the longest row
    first: int | Tensor  # the place where each row goes on: one number where all agree
    memories: list[Memory]  # what each layer's cross-attention looks at, arranged for the rows as they stand
    memory_mask: Mask
    memory_bias: Tensor | None  # S 1 1 M, the same mask as what is added to scores

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
        self._groups, self._sections = groups, [groups * key_width, groups * value_width]
        self._spare: Tensor | None = None
        self._use(_zeros(like, layers, max(room, 1), rows, sum(self._sections)), rows)
        self._stand_at(np.zeros(rows, dtype=np.int64))
        self._source_of = np.arange(rows)  # which source a row looks at
        self._stored: list[Memory] = []  # a memory a layer, for every source
        self._stored_mask = EVERYTHING
        self._show([], EVERYTHING)

    @property
    def rows(self) -> int:
        """How many sequences there are."""
        return len(self.lengths)

    def slot(self, layer: int) -> LayerCache:
        """The place of a layer's self-attention."""
        return LayerCache(self, layer)

    def memory(self, layer: int) -> Memory:
        """What a layer's cross-attention looks at."""
        return self.memories[layer]

    def remember(self, memories: list[Memory], mask: Mask) -> None:
        """Keep each layer's keys and values of the sources, one source a row, those of a head together."""
        self._stored = [Memory(each.key.contiguous(), each.value.contiguous()) for each in memories]
        self._stored_mask = mask
        self._arrange()

    def turn(self) -> CacheUpdate:
        """Make ready for one more token of every row."""
        end = self.length + 1
        self._make_room(end)
        keys, values = self._keys.narrow(3, 0, end), self._values.narrow(3, 0, end)
        if isinstance(self.first, int):
            targets, bias = self._held.select(1, self.first), None
        else:
            targets, bias = self._held, _hidden_behind(self.first, end, keys)
        return CacheUpdate(self.first, targets.unbind(), keys.unbind(), values.unbind(), bias)

    def advance(self, counts: int | np.ndarray) -> None:
        """The tokens just put in count from now on: as many for every row, or so many for each."""
        self._stand_at(self.lengths + counts)

    def reorder(self, rows: np.ndarray) -> None:
        """Row i becomes what row rows[i] was; rows may repeat or be absent."""
        rows = np.asarray(rows, dtype=np.int64)
        if np.array_equal(rows, np.arange(self.rows)):
            return
        sources, before = self._source_of[rows], self._source_of
        self._stand_at(self.lengths[rows])
        self._move(torch.from_numpy(rows).to(self._held.device))
        if not np.array_equal(sources, before):
            self._source_of = sources
            self._forget_unused_sources()
            self._arrange()

    def join(self, other: Cache) -> None:
        """Take in another cache's rows, after those already here."""
        room = max(self._held.shape[1], other._held.shape[1])
        held = torch.cat([_roomier(cache._held, room) for cache in (self, other)], dim=2)
        self._use(held, held.shape[2])
        self._source_of = np.concatenate([self._source_of, other._source_of + self._sources])
        self._stand_at(np.concatenate([self.lengths, other.lengths]))
        if self._stored:
            self._join_memories(other)
            self._arrange()

    def _stand_at(self, lengths: np.ndarray) -> None:
        self.lengths, self.length = lengths, int(lengths.max(initial=0))
        agree = (lengths == self.length).all()
        self.first = self.length if agree else torch.from_numpy(lengths).to(self._held.device)

    def _use(self, store: Tensor, rows: int) -> None:
        """Hold the rows in the first places of a store, L T . W."""
        self._store, self._held = store, store[:, :, :rows]  # L T R W
        key, value = self._held.split(self._sections, dim=-1)
        self._keys = key.unflatten(-1, (self._groups, -1)).permute(0, 2, 3, 1, 4)  # L R G T E
        self._values = value.unflatten(-1, (self._groups, -1)).permute(0, 2, 3, 1, 4)  # L R G T F

    def _move(self, rows: Tensor) -> None:
        """Copy rows, as far as they are in use, into the store that is not."""
        old, spare = self._held, self._spare
        layers, room, _, width = old.shape
        if spare is None or spare.shape[2] < len(rows) or spare.shape[1] != room:
            spare = _zeros(old, layers, room, len(rows), width)
        self._spare = self._store
        self._use(spare, len(rows))
        used = self.length
        torch.index_select(old[:, :used], 2, rows, out=self._held[:, :used])

    def _make_room(self, tokens: int) -> None:
        if tokens > self._held.shape[1]:
            self._use(_roomier(self._held, max(tokens, 2 * self._held.shape[1])), self.rows)

    def _extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        tokens = key.shape[2]
        start, end = self.first, self.length + tokens
        self._make_room(end)
        held = self._held[layer]  # T R W
        new = torch.cat([x.detach().transpose(1, 2).flatten(2) for x in (key, value)], dim=-1)  # R Q W
        if isinstance(start, int):
            held[start:end] = new.transpose(0, 1)
        else:
            places = start[:, None] + torch.arange(tokens, device=start.device)  # R Q
            held[places, torch.arange(self.rows, device=start.device)[:, None]] = new
        return self._keys[layer, :, :, :end], self._values[layer, :, :, :end]

    @property
    def _sources(self) -> int:
        return self._stored[0].key.shape[0] if self._stored else 0

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
            self._show(self._stored, self._stored_mask)
        else:
            self._show(*self._rows_of_memory(self._source_of))

    def _show(self, memories: list[Memory], mask: Mask) -> None:
        """Let rows look at memories that are arranged as they stand."""
        self.memories, self.memory_mask = memories, mask
        self.memory_bias = None if mask.keys is None else _hiding(~mask.keys, self._held)

    def _rows_of_memory(self, rows: np.ndarray) -> tuple[list[Memory], Mask]:
        index = torch.from_numpy(rows).to(self._held.device)
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


def _roomier(held: Tensor, room: int) -> Tensor:
    """L T R W with room for so many tokens."""
    new = _zeros(held, held.shape[0], room, *held.shape[2:])
    new[:, : held.shape[1]] = held
    return new


def _hidden_behind(first: Tensor, tokens: int, like: Tensor) -> Tensor:
    """R 1 1 K: what is added to scores so that nothing behind a row's own place is seen."""
    return _hiding(torch.arange(tokens, device=first.device) > first[:, None], like)


def _hiding(hidden: Tensor, like: Tensor) -> Tensor:
    """R 1 1 K of R K: minus infinity where something is hidden, 0 elsewhere."""
    return like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[:, None, None]


def _zeros(like: Tensor, *shape: int) -> Tensor:
    """Zeros that take up memory only as they are written to, where the system can do that."""
    if like.device.type == "cpu" and like.dtype == torch.float32:
        return torch.from_numpy(np.zeros(shape, dtype=np.float32))
    return like.new_zeros(shape)


def _one_above_the_other(a: Tensor, b: Tensor, tokens: int) -> Tensor:
    """S G M E of two caches, the shorter one lengthened to as many tokens."""
    return torch.cat([F.pad(x, (0, 0, 0, tokens - x.shape[2])) for x in (a, b)])


def _existing(memory: Memory, mask: Mask, tokens: int) -> Tensor:
    """Which of the tokens exist in each source, written out to as many tokens."""
    sources, _, length, _ = memory.key.shape
    everything = torch.ones(sources, length, dtype=torch.bool, device=memory.key.device)
    return F.pad(everything if mask.keys is None else mask.keys, (0, tokens - length))
