"""One step of a decoder, worked out beforehand: the modules' arithmetic in as few calls to torch as it takes.

At a step a row has a single token, so that calling modules costs more than computing does. A plan gathers
the weights once and calls torch with them directly. It speaks of the parts that it knows by their exact
class; a model that has any other, or a hook on one, gets no plan and is stepped module by module.

R rows, S sources, D width, H heads, G heads with keys of their own, E width of a head, K keys, M tokens of a
source, W = 2 G E: what a layer keeps of a token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.model.attention import MultiHeadAttention, SeparateProjections
from regard.model.blocks import (
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    PostNorm,
    PreNorm,
    RMSNorm,
)
from regard.model.cache import Cache, Memory, Turn
from regard.model.embedding import Embedding
from regard.model.masks import Mask
from regard.model.outputs import Words
from regard.model.positions import Learned, NoPositions, Rotary, Rotation, Sinusoidal
from regard.model.similarity import ScaledDot
from regard.model.transformer import DecoderOnly, EncoderDecoder

linear, attend = F.linear, F.scaled_dot_product_attention


class Unplanned(Exception):
    """A part that no plan knows."""


@dataclass(frozen=True)
class Moment:
    """What all parts share at one step."""

    turn: Turn
    rotation: Rotation | None
    sources: int
    memories: list[Memory]
    memory_bias: Tensor | None  # S 1 1 M, added to scores: minus infinity at padding


Part = Callable[[Tensor, Moment], Tensor]


class Plan:
    """A decoder's next step: R ids to logits R V, the cache going on by one token."""

    def __init__(self, model: EncoderDecoder | DecoderOnly):
        _check_hooks(model)
        self._embed = _Embed(model.target)
        blocks = enumerate(model.decoder.blocks)
        self._parts = [part for layer, block in blocks for part in _block(block, layer)]
        self._norm = None if model.decoder.norm is None else _norm(model.decoder.norm)
        head = _known(model.head, Words)
        self._head = head.weight, head.bias
        self._padding: tuple[Mask, Tensor | None] | None = None

    def __call__(self, ids: Tensor, cache: Cache) -> Tensor:
        """Append an id to every row and give the logits of what may follow, R V."""
        turn = cache.turn()
        x, rotation = self._embed(ids, turn.first)
        memories, bias = cache.memories, self._memory_bias(cache.memory_mask, x)
        moment = Moment(turn, rotation, len(memories[0].key) if memories else 0, memories, bias)
        for part in self._parts:
            x = part(x, moment)
        cache.advance(1)
        return linear(x if self._norm is None else self._norm(x), *self._head)

    def _memory_bias(self, mask: Mask, like: Tensor) -> Tensor | None:
        """The padding of sources as numbers to be added, made once for as long as it stays."""
        if self._padding is None or self._padding[0] is not mask:
            keys = mask.keys
            bias = None if keys is None else like.new_zeros(keys.shape).masked_fill_(~keys, -torch.inf)
            self._padding = mask, None if bias is None else bias[:, None, None]
        return self._padding[1]


def plan_of(model: EncoderDecoder | DecoderOnly) -> Plan | None:
    """A plan of the model, or None where it has parts that no plan knows."""
    try:
        return Plan(model)
    except Unplanned:
        return None


class _Embed:
    """Ids to vectors at their places, and the rotation where positions are one."""

    def __init__(self, embedding: Embedding):
        _known(embedding, Embedding)
        self._positions = _known(embedding.positions, Sinusoidal, Learned, Rotary, NoPositions)
        if embedding.weight is None or embedding.norm is not None or embedding.segments is not None:
            raise Unplanned
        self._weight, self._scale = embedding.weight, embedding.scale
        self._table = getattr(self._positions, "table", getattr(self._positions, "weight", None))

    def __call__(self, ids: Tensor, first: int | Tensor) -> tuple[Tensor, Rotation | None]:
        x = torch.embedding(self._weight, ids)  # R D
        if self._table is not None and isinstance(first, int) and first < len(self._table):
            return torch.add(self._table[first], x, alpha=self._scale), None
        x = x if self._scale == 1.0 else x * self._scale
        places = torch.full_like(ids, first) if isinstance(first, int) else first
        added = self._positions(places, 1 + int(places.max()))
        return (x if added is None else x + added), self._positions.rotation(places[:, None])


def _block(block: nn.Module, layer: int) -> list[Part]:
    """The sublayers of a block, each with its residual connection."""
    known = _known(block, EncoderBlock, DecoderBlock)
    parts = [_residual(known.around_attention, _within(known.attention, layer))]
    if isinstance(block, DecoderBlock):
        parts.append(_residual(known.around_cross, _across(known.cross, layer)))
    return [*parts, _residual(known.around_feed_forward, _feed_forward(known.feed_forward))]


def _residual(around: nn.Module, sublayer: Part) -> Part:
    norm = _norm(_known(around, PostNorm, PreNorm).norm)
    if isinstance(around, PostNorm):
        return lambda x, moment: norm(x + sublayer(x, moment))
    return lambda x, moment: x + sublayer(norm(x), moment)


def _norm(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    known = _known(norm, LayerNorm, RMSNorm)
    shape, weight, epsilon = known.shape, known.weight, known.epsilon
    if isinstance(norm, RMSNorm):
        return lambda x: torch.rms_norm(x, shape, weight, epsilon)
    bias = known.bias
    return lambda x: torch.layer_norm(x, shape, weight, bias, epsilon)


def _feed_forward(module: nn.Module) -> Part:
    known = _known(module, FeedForward, GatedFeedForward)
    expand, contract, activation = _weights(known.expand), _weights(known.contract), known.activation
    if isinstance(module, FeedForward):
        return lambda x, moment: linear(activation(linear(x, *expand)), *contract)

    def gated(x: Tensor, moment: Moment) -> Tensor:
        gate, inner = linear(x, *expand).chunk(2, dim=-1)
        return linear(activation(gate) * inner, *contract)

    return gated


def _within(module: nn.Module, layer: int) -> Part:
    """Self-attention of one new token a row."""
    known = _attention(module)
    heads, groups, width = known.heads, known.projections.groups, known.projections.key_width
    weights, output, scale = _weights(known.projections), _weights(known.output), known.similarity.scale
    joined, kept, grouped = heads * width, 2 * groups * width, heads != groups

    def within(x: Tensor, moment: Moment) -> Tensor:
        projected = linear(x, *weights)
        query = projected.narrow(1, 0, joined).view(-1, heads, 1, width)  # R H 1 E
        token = projected.narrow(1, joined, kept)  # R W
        if moment.rotation is not None:
            query, token = moment.rotation(query), _turned(token, moment.rotation, groups)
        turn = moment.turn
        turn.put(layer, token)
        found = attend(
            query, turn.keys[layer], turn.values[layer], turn.bias, scale=scale, enable_gqa=grouped
        )
        return linear(found.reshape(-1, joined), *output)

    return within


def _across(module: nn.Module, layer: int) -> Part:
    """Attention of a row's new token over its source; rows of one source are further queries to it."""
    known = _attention(module)
    heads, width = known.heads, known.projections.key_width
    weight, bias = _weights(known.projections)
    joined = heads * width
    weight, bias = weight[:joined], None if bias is None else bias[:joined]
    output, scale, grouped = _weights(known.output), known.similarity.scale, heads != known.projections.groups

    def across(x: Tensor, moment: Moment) -> Tensor:
        memory = moment.memories[layer]
        query = linear(x, weight, bias).view(moment.sources, -1, heads, width).transpose(1, 2)  # S H R/S E
        found = attend(query, memory.key, memory.value, moment.memory_bias, scale=scale, enable_gqa=grouped)
        return linear(found.transpose(1, 2).reshape(-1, joined), *output)

    return across


def _attention(module: nn.Module) -> Any:
    """An attention that torch's fused kernel computes as it stands."""
    known = _known(module, MultiHeadAttention)
    projections = _known(known.projections, SeparateProjections)
    _known(known.similarity, ScaledDot)
    if projections.key_width != projections.value_width:
        raise Unplanned
    return known


def _turned(token: Tensor, rotation: Rotation, groups: int) -> Tensor:
    """R W with its keys turned."""
    key, value = token.chunk(2, dim=1)
    turned = rotation(key.unflatten(1, (groups, 1, -1)))  # R G 1 E
    return torch.cat([turned.flatten(1), value], dim=1)


def _weights(module: Any) -> tuple[Tensor, Tensor | None]:
    return module.weight, module.bias


def _known(module: Any, *kinds: type) -> Any:
    """The module, if it is of exactly one of these classes."""
    if type(module) not in kinds:
        raise Unplanned
    return module


def _check_hooks(model: nn.Module) -> None:
    if any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()):
        raise Unplanned
