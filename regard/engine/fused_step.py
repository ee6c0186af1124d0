"""One step of a decoder, worked out beforehand: the modules' arithmetic in as few calls to torch as it takes.

At a step a row has a single token, so that calling modules costs more than computing does. A plan gathers
the weights once and calls torch with them directly. It knows parts by their exact class. A model that has any
other part, a part whose forward was replaced, or a hook, on a part or on all modules, is stepped module by
module; so it is from the moment that a forward is replaced or a hook registered. Weights and settings are
those of the moment at which the plan was made.

R rows, S sources, D width, H heads, G heads with keys of their own, E width of a head, K keys, M tokens of a
source, W = 2 G E: what a layer keeps of a token.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as torch_module

from regard.engine.packed_weights import PackedWeights, Product
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
from regard.model.cache import Cache, CacheUpdate, Memory
from regard.model.embedding import Embedding
from regard.model.outputs import LMHead
from regard.model.positions import Learned, NoPositions, Rotary, Rotation, Sinusoidal
from regard.model.similarity import ScaledDot
from regard.model.transformer import DecoderOnly, EncoderDecoder, Stack

attend = F.scaled_dot_product_attention
PASSES = ("forward", "decode", "across", "finish", "query", "key_value", "rotation")  # what a pass calls
FEW = 4  # sources; with more, several queries each go a third as fast through the fused kernel as in parts


class NotFusible(Exception):
    """A part that no plan knows."""


@dataclass(frozen=True)
class StepInputs:
    """What all parts share at one step."""

    turn: CacheUpdate
    rotation: Rotation | None
    sources: int
    memories: list[Memory]
    memory_bias: Tensor | None  # S 1 1 M, added to scores: minus infinity at padding


Part = Callable[[Tensor, StepInputs], Tensor]


class FusedStep:
    """A decoder's next step: R ids to the last vectors R D, the cache going on by one token."""

    def __init__(self, model: EncoderDecoder | DecoderOnly):
        self._modules = _Modules(_known(model, EncoderDecoder, DecoderOnly))
        products, stack = PackedWeights(model), _known(model.decoder, Stack)
        self._embed = _Embed(model.target)
        blocks = [_Block(block, layer, products) for layer, block in enumerate(stack.blocks)]
        self._parts = [part for block in blocks for part in block.parts]
        self._norm = None if stack.norm is None else _norm(stack.norm)
        self.head = _linear(model.head, products)  # R D to R V
        products.keep()

    @property
    def holds(self) -> bool:
        """Whether the modules still compute what was planned."""
        return self._modules.are_as_planned()

    def __call__(self, ids: Tensor, cache: Cache) -> Tensor:
        """Append an id to every row and give what its head reads, R D."""
        turn, memories = cache.turn(), cache.memories
        x, rotation = self._embed(ids, turn.first)
        sources = len(memories[0].key) if memories else 0
        moment = StepInputs(turn, rotation, sources, memories, cache.memory_bias)
        for part in self._parts:
            x = part(x, moment)
        cache.advance(1)
        return x if self._norm is None else self._norm(x)


def fused_step_of(model: EncoderDecoder | DecoderOnly) -> FusedStep | None:
    """A plan of the model, or None where it has parts that no plan knows."""
    try:
        return FusedStep(model)
    except NotFusible:
        return None


class _Embed:
    """Ids to vectors at their places, and the rotation where positions are one."""

    def __init__(self, embedding: Embedding):
        _known(embedding, Embedding)
        self._positions = _known(embedding.positions, Sinusoidal, Learned, Rotary, NoPositions)
        if embedding.weight is None or embedding.norm is not None or embedding.segments is not None:
            raise NotFusible
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


class _Block:
    """The sublayers of a block, each with its residual connection."""

    def __init__(self, block: nn.Module, layer: int, products: PackedWeights):
        known = _known(block, EncoderBlock, DecoderBlock)
        self._layer, self._products = layer, products
        self.parts = [_residual(known.around_attention, self._within(known.attention))]
        if isinstance(block, DecoderBlock):
            self.parts.append(_residual(known.around_cross, self._across(known.cross)))
        self.parts.append(_residual(known.around_feed_forward, self._feed_forward(known.feed_forward)))

    def _within(self, module: nn.Module) -> Part:
        """Self-attention of one new token a row."""
        known, layer = _attention(module), self._layer
        heads, groups, width = known.heads, known.projections.groups, known.projections.key_width
        project, output = _linear(known.projections, self._products), _linear(known.output, self._products)
        joined, kept = heads * width, 2 * groups * width
        grouped, scale = heads != groups, known.similarity.scale

        def within(x: Tensor, moment: StepInputs) -> Tensor:
            projected, turn = project(x), moment.turn
            query = projected.narrow(1, 0, joined).view(-1, heads, 1, width)  # R H 1 E
            token = projected.narrow(1, joined, kept)  # R W
            if moment.rotation is not None:
                query, token = moment.rotation(query), _rotated(token, moment.rotation, groups)
            turn.put(layer, token)
            found = attend(
                query, turn.keys[layer], turn.values[layer], turn.bias, scale=scale, enable_gqa=grouped
            )
            return output(found.reshape(-1, joined))

        return within

    def _across(self, module: nn.Module) -> Part:
        """Attention of a row's new token over its source; rows of one source are further queries to it."""
        known, layer = _attention(module), self._layer
        heads, width = known.heads, known.projections.key_width
        joined, grouped, scale = heads * width, heads != known.projections.groups, known.similarity.scale
        project = _linear(known.projections, self._products, joined)
        output = _linear(known.output, self._products)

        def across(x: Tensor, moment: StepInputs) -> Tensor:
            memory = moment.memories[layer]
            query = project(x).view(moment.sources, -1, heads, width).transpose(1, 2)  # S H R/S E
            if len(query) > FEW and query.shape[2] > 1 and not grouped:
                found = _attend_in_parts(query, memory, moment.memory_bias, scale)
            else:
                found = attend(
                    query, memory.key, memory.value, moment.memory_bias, scale=scale, enable_gqa=grouped
                )
            return output(found.transpose(1, 2).reshape(-1, joined))

        return across

    def _feed_forward(self, module: nn.Module) -> Part:
        known = _known(module, FeedForward, GatedFeedForward)
        expand, contract = _linear(known.expand, self._products), _linear(known.contract, self._products)
        activation = known.activation
        if isinstance(module, FeedForward):
            return lambda x, moment: contract(activation(expand(x)))

        def gated(x: Tensor, moment: StepInputs) -> Tensor:
            gate, inner = expand(x).chunk(2, dim=-1)
            return contract(activation(gate) * inner)

        return gated


def _attend_in_parts(query: Tensor, memory: Memory, bias: Tensor | None, scale: float) -> Tensor:
    """Equation 1 with the scores written out, S H R/S E."""
    scores = torch.matmul(query, memory.key.mT).mul_(scale)
    return torch.matmul((scores if bias is None else scores.add_(bias)).softmax(-1), memory.value)


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


def _linear(module: Any, products: PackedWeights, rows: int | None = None) -> Product:
    """x W^T + b of a module's weight and bias, or of their first rows."""
    known = _known(module, nn.Linear, SeparateProjections, LMHead)
    return products(known.weight[:rows], None if known.bias is None else known.bias[:rows])


def _attention(module: nn.Module) -> Any:
    """An attention that torch's fused kernel computes as it stands."""
    known = _known(module, MultiHeadAttention)
    projections = _known(known.projections, SeparateProjections)
    _known(known.similarity, ScaledDot)
    if projections.key_width != projections.value_width:
        raise NotFusible
    return known


def _rotated(token: Tensor, rotation: Rotation, groups: int) -> Tensor:
    """R W with its keys turned by their position."""
    key, value = token.chunk(2, dim=1)
    turned = rotation(key.unflatten(1, (groups, 1, -1)))  # R G 1 E
    return torch.cat([turned.flatten(1), value], dim=1)


def _known(module: Any, *kinds: type) -> Any:
    """The module, if it is of exactly one of these classes."""
    if type(module) not in kinds:
        raise NotFusible
    return module


class _Modules:
    """The modules that a step goes through: whether they compute what their classes are written to.

    Asked at every step, this must be quick: torch changes a module's dictionaries in place, and a forward
    that is put on a module lengthens its own. Hooks of the way back cannot run in inference.
    """

    def __init__(self, model: EncoderDecoder | DecoderOnly):
        parts = (model.target, model.decoder, model.head)
        self._modules = [model, *(module for part in parts for module in part.modules())]
        self._types = list(map(type, self._modules))
        self._kinds = list(set(self._types))
        self._forwards = list(map(_forward, self._kinds))
        self._own = list(map(vars, self._modules))
        self._attributes = sum(map(len, self._own))
        self._hooks = [hooks for kind in ("forward_hooks", "forward_pre_hooks") for hooks in self._all(kind)]
        if not self._are_as_written() or not self.are_as_planned():
            raise NotFusible

    def are_as_planned(self) -> bool:
        """Whether no hook is registered, and no forward or class was replaced since."""
        return not (
            any(self._hooks)
            or sum(map(len, self._own)) != self._attributes
            or list(map(type, self._modules)) != self._types
            or list(map(_forward, self._kinds)) != self._forwards
        )

    def _are_as_written(self) -> bool:
        replaced = any(not own.keys().isdisjoint(PASSES) for own in self._own)
        written = all(is_written_in(kind, name) for kind in self._kinds for name in PASSES)
        return (
            written
            and not replaced
            and not any(self._all("backward_hooks") + self._all("backward_pre_hooks"))
        )

    def _all(self, kind: str) -> list[dict[int, Any]]:
        """The hooks of a kind, of all modules together and of each."""
        own = [getattr(module, f"_{kind}") for module in self._modules]
        return [getattr(torch_module, f"_global_{kind}"), *own]


_forward = attrgetter("forward")


def is_written_in(kind: type, name: str) -> bool:
    """Whether a class has no such method of its own, or the one that is written in its body."""
    method = vars(kind).get(name)
    if method is None:
        return True
    home = vars(sys.modules[kind.__module__])
    is_from_there = getattr(method, "__globals__", None) is home
    return is_from_there and method.__code__.co_qualname == f"{kind.__qualname__}.{name}"
