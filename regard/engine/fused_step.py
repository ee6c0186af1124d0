"""FusedStep: one decoding step in few torch calls, with the arithmetic of the modules.

A decoding step has one token per row, so calling modules costs more than computing. A FusedStep collects the
weights once and calls torch's functions directly. It supports modules by their exact class. A model with
another class, with a replaced forward or with a hook is stepped module by module, and the reason is logged at
debug level. A forward replaced or a hook registered later has the same effect from then on. Weights and
settings are those at the time of construction.

R rows, S sources, D width, H heads, G key-value heads, E width of a head, K keys, M tokens of a source,
W = 2 G E: the keys and values of one token in one layer.
"""

from __future__ import annotations

import logging
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
from regard.model.cache import Cache, CacheUpdate, ProjectedMemory
from regard.model.embedding import Embedding
from regard.model.outputs import LMHead
from regard.model.positions import Learned, NoPositions, Rotary, Rotation, Sinusoidal
from regard.model.similarity import ScaledDot
from regard.model.transformer import DecoderOnly, EncoderDecoder, Stack

log = logging.getLogger(__name__)
attend = F.scaled_dot_product_attention
PASS_METHODS = ("forward", "decode", "forward_with_memory", "finish", "query", "key_value", "rotation")
FEW_SOURCES = 4  # with more, and several rows each, two matrix products were 1.1 to 3 times as fast as attend


class NotFusible(Exception):
    """The model has a part that a fused step does not support; the message names it."""


@dataclass(frozen=True)
class StepInputs:
    """The values that all sublayers share at one step."""

    update: CacheUpdate
    rotation: Rotation | None
    sources: int
    memories: list[ProjectedMemory]
    memory_bias: Tensor | None  # S 1 1 M, added to scores: minus infinity at padding


Sublayer = Callable[[Tensor, StepInputs], Tensor]


class FusedStep:
    """One decoding step of a decoder: R ids to the last hidden vectors R D; the cache grows by one token."""

    def __init__(self, model: EncoderDecoder | DecoderOnly):
        self._guard = _ModuleGuard(_exactly(model, EncoderDecoder, DecoderOnly))
        weights, stack = PackedWeights(model), _exactly(model.decoder, Stack)
        self._embed = _FusedEmbedding(model.target)
        blocks = [_FusedBlock(block, layer, weights) for layer, block in enumerate(stack.blocks)]
        self._sublayers = [sublayer for block in blocks for sublayer in block.sublayers]
        self._norm = None if stack.norm is None else _norm(stack.norm)
        self.head = _linear(model.head, weights)  # R D to R V
        weights.keep()

    @property
    def is_valid(self) -> bool:
        """Whether the modules still compute the same as at construction."""
        return self._guard.is_unchanged()

    def __call__(self, ids: Tensor, cache: Cache) -> Tensor:
        """Append one id to each row and return the input of the head, R D."""
        update, memories = cache.begin_update(), cache.memories
        x, rotation = self._embed(ids, update.offset)
        sources = len(memories[0].key) if memories else 0
        inputs = StepInputs(update, rotation, sources, memories, cache.memory_bias)
        for sublayer in self._sublayers:
            x = sublayer(x, inputs)
        cache.advance(1)
        return x if self._norm is None else self._norm(x)


def fused_step_of(model: EncoderDecoder | DecoderOnly) -> FusedStep | None:
    """The fused step of a model, or None, with the reason in the debug log, if there is none."""
    try:
        return FusedStep(model)
    except NotFusible as reason:
        log.debug("no fused step for %s: %s", type(model).__name__, reason)
        return None


class _FusedEmbedding:
    """Ids to vectors with positions, and the rotation of rotary positions."""

    def __init__(self, embedding: Embedding):
        _exactly(embedding, Embedding)
        self._positions = _exactly(embedding.positions, Sinusoidal, Learned, Rotary, NoPositions)
        if embedding.weight is None or embedding.norm is not None or embedding.segments is not None:
            raise NotFusible("the embedding has input vectors, a norm or segments")
        self._weight, self._scale = embedding.weight, embedding.scale
        self._table = getattr(self._positions, "table", getattr(self._positions, "weight", None))

    def __call__(self, ids: Tensor, offset: int | Tensor) -> tuple[Tensor, Rotation | None]:
        x = torch.embedding(self._weight, ids)  # R D
        if self._table is not None and isinstance(offset, int) and offset < len(self._table):
            return torch.add(self._table[offset], x, alpha=self._scale), None
        x = x if self._scale == 1.0 else x * self._scale
        positions = torch.full_like(ids, offset) if isinstance(offset, int) else offset
        encoding = self._positions(positions, 1 + int(positions.max()))
        return (x if encoding is None else x + encoding), self._positions.rotation(positions[:, None])


class _FusedBlock:
    """The sublayers of a block, each with its residual connection."""

    def __init__(self, block: nn.Module, layer: int, weights: PackedWeights):
        supported = _exactly(block, EncoderBlock, DecoderBlock)
        self._layer, self._weights = layer, weights
        self.sublayers = [_residual(supported.around_attention, self._self_attention(supported.attention))]
        if isinstance(block, DecoderBlock):
            self.sublayers.append(_residual(supported.around_cross, self._cross_attention(supported.cross)))
        feed_forward = self._feed_forward(supported.feed_forward)
        self.sublayers.append(_residual(supported.around_feed_forward, feed_forward))

    def _self_attention(self, module: nn.Module) -> Sublayer:
        """Self-attention of one new token per row."""
        attention, layer = _attention(module), self._layer
        heads, groups, width = attention.heads, attention.projections.groups, attention.projections.key_width
        project, output = self._linear(attention.projections), self._linear(attention.output)
        joined, token_width = heads * width, 2 * groups * width
        grouped, scale = heads != groups, attention.similarity.scale

        def self_attention(x: Tensor, inputs: StepInputs) -> Tensor:
            projected, update = project(x), inputs.update
            query = projected.narrow(1, 0, joined).view(-1, heads, 1, width)  # R H 1 E
            token = projected.narrow(1, joined, token_width)  # R W
            if inputs.rotation is not None:
                query, token = inputs.rotation(query), _rotate_keys(token, inputs.rotation, groups)
            update.put(layer, token)
            key, value = update.keys[layer], update.values[layer]
            attended = attend(query, key, value, update.bias, scale=scale, enable_gqa=grouped)
            return output(attended.reshape(-1, joined))

        return self_attention

    def _cross_attention(self, module: nn.Module) -> Sublayer:
        """Cross-attention of one new token per row; the rows of a source are queries to the same memory."""
        attention, layer = _attention(module), self._layer
        heads, width, scale = attention.heads, attention.projections.key_width, attention.similarity.scale
        joined, grouped = heads * width, heads != attention.projections.groups
        project, output = self._linear(attention.projections, joined), self._linear(attention.output)

        def cross_attention(x: Tensor, inputs: StepInputs) -> Tensor:
            key, value = inputs.memories[layer].key, inputs.memories[layer].value
            query = project(x).view(inputs.sources, -1, heads, width).transpose(1, 2)  # S H R/S E
            if len(query) > FEW_SOURCES and query.shape[2] > 1 and not grouped:
                attended = _attend_by_products(query, key, value, inputs.memory_bias, scale)
            else:
                attended = attend(query, key, value, inputs.memory_bias, scale=scale, enable_gqa=grouped)
            return output(attended.transpose(1, 2).reshape(-1, joined))

        return cross_attention

    def _feed_forward(self, module: nn.Module) -> Sublayer:
        supported = _exactly(module, FeedForward, GatedFeedForward)
        expand, contract = self._linear(supported.expand), self._linear(supported.contract)
        activation = supported.activation
        if isinstance(module, FeedForward):
            return lambda x, inputs: contract(activation(expand(x)))

        def gated(x: Tensor, inputs: StepInputs) -> Tensor:
            gate, inner = expand(x).chunk(2, dim=-1)
            return contract(activation(gate) * inner)

        return gated

    def _linear(self, module: Any, rows: int | None = None) -> Product:
        return _linear(module, self._weights, rows)


def _attend_by_products(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float
) -> Tensor:
    """What `attend` computes, S H R/S E, as two matrix products; see FEW_SOURCES."""
    scores = torch.matmul(query, key.mT).mul_(scale)
    return torch.matmul((scores if bias is None else scores.add_(bias)).softmax(-1), value)


def _residual(around: nn.Module, sublayer: Sublayer) -> Sublayer:
    norm = _norm(_exactly(around, PostNorm, PreNorm).norm)
    if isinstance(around, PostNorm):
        return lambda x, inputs: norm(x + sublayer(x, inputs))
    return lambda x, inputs: x + sublayer(norm(x), inputs)


def _norm(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    supported = _exactly(norm, LayerNorm, RMSNorm)
    shape, weight, epsilon = supported.shape, supported.weight, supported.epsilon
    if isinstance(norm, RMSNorm):
        return lambda x: torch.rms_norm(x, shape, weight, epsilon)
    bias = supported.bias
    return lambda x: torch.layer_norm(x, shape, weight, bias, epsilon)


def _linear(module: Any, weights: PackedWeights, rows: int | None = None) -> Product:
    """x W^T + b with a module's weight and bias, or with their first rows."""
    supported = _exactly(module, nn.Linear, SeparateProjections, LMHead)
    return weights(supported.weight[:rows], None if supported.bias is None else supported.bias[:rows])


def _attention(module: nn.Module) -> Any:
    """The module, if torch's fused kernel computes its attention without padding."""
    attention = _exactly(module, MultiHeadAttention)
    projections = _exactly(attention.projections, SeparateProjections)
    _exactly(attention.similarity, ScaledDot)
    if projections.key_width != projections.value_width:
        raise NotFusible(f"key width {projections.key_width}, value width {projections.value_width}")
    return attention


def _rotate_keys(token: Tensor, rotation: Rotation, groups: int) -> Tensor:
    """R W with rotated keys."""
    key, value = token.chunk(2, dim=1)
    rotated = rotation(key.unflatten(1, (groups, 1, -1)))  # R G 1 E
    return torch.cat([rotated.flatten(1), value], dim=1)


def _exactly(module: Any, *classes: type) -> Any:
    """The module, if its class is one of these and not a subclass."""
    if type(module) not in classes:
        supported = ", ".join(kind.__name__ for kind in classes)
        raise NotFusible(f"{type(module).__qualname__} is not one of {supported}")
    return module


class _ModuleGuard:
    """Detects replaced methods, replaced classes and hooks of the modules of a step.

    `is_unchanged` is called at every step and must be fast: torch changes the dictionaries of a module in
    place, and a forward set on a module adds an entry. Backward hooks cannot run in inference.
    """

    def __init__(self, model: EncoderDecoder | DecoderOnly):
        parts = (model.target, model.decoder, model.head)
        self._modules = [model, *(module for part in parts for module in part.modules())]
        self._types = list(map(type, self._modules))
        self._classes = list(set(self._types))
        self._forwards = list(map(_forward, self._classes))
        self._attributes = list(map(vars, self._modules))
        self._attribute_count = sum(map(len, self._attributes))
        self._hooks = [hooks for kind in ("forward_hooks", "forward_pre_hooks") for hooks in self._all(kind)]
        if not self._has_original_methods():
            raise NotFusible("a method of a module or class is replaced")
        if any(self._hooks) or any(self._all("backward_hooks") + self._all("backward_pre_hooks")):
            raise NotFusible("a hook is registered")

    def is_unchanged(self) -> bool:
        """Whether no hook was registered, and no forward or class replaced, since construction."""
        return not (
            any(self._hooks)
            or sum(map(len, self._attributes)) != self._attribute_count
            or list(map(type, self._modules)) != self._types
            or list(map(_forward, self._classes)) != self._forwards
        )

    def _has_original_methods(self) -> bool:
        is_replaced = any(not own.keys().isdisjoint(PASS_METHODS) for own in self._attributes)
        return not is_replaced and all(
            has_original_method(kind, name) for kind in self._classes for name in PASS_METHODS
        )

    def _all(self, kind: str) -> list[dict[int, Any]]:
        """The hooks of a kind: the global ones and those of each module."""
        own = [getattr(module, f"_{kind}") for module in self._modules]
        return [getattr(torch_module, f"_global_{kind}"), *own]


_forward = attrgetter("forward")


def has_original_method(kind: type, name: str) -> bool:
    """Whether a class defines no such method, or the one written in its body."""
    method = vars(kind).get(name)
    if method is None:
        return True
    namespace = vars(sys.modules[kind.__module__])
    is_local = getattr(method, "__globals__", None) is namespace
    return is_local and method.__code__.co_qualname == f"{kind.__qualname__}.{name}"
