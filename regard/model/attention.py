"""Attention: equation 1 as two plain functions, explicit and fused, and the module that owns the weights.

`regard.inspection.analysis.steps` computes equation 1 once more in numpy, on purpose: it is an independent
check of these functions.

B batch, H heads, G key-value heads, Q queries, K keys, D width, E key width and F value width of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.model.cache import LayerCache, ProjectedMemory
from regard.model.kernels import drop
from regard.model.masks import EVERYTHING, Mask
from regard.model.positions import Rotation
from regard.model.similarity import SIMILARITIES, ScaledDot, Similarity
from regard.model.watch import EXPLICIT_POINTS, UNWATCHED, Unwatched, watching
from regard.registry import Registry


@dataclass(frozen=True)
class AttentionSteps:
    """Intermediate values of attention, B H Q K each, and its output, B H Q F."""

    scores: Tensor
    scaled: Tensor
    mask: Tensor | None
    weights: Tensor
    output: Tensor


def attention_steps(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask = EVERYTHING,
    similarity: Similarity | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    see: Unwatched = UNWATCHED,
) -> AttentionSteps:
    """softmax(QK^T / sqrt(d_k)) V (equation 1), one step at a time.

    query B H Q E, key B G K E, value B G K F, with G dividing H. The default similarity is the scaled
    dot product. A query whose keys are all masked gets zeros.
    """
    similarity = similarity or ScaledDot(query.shape[1], query.shape[-1])
    key, value = (_repeat_groups(x, query.shape[1]) for x in (key, value))
    scores = see("scores", similarity(query, key))  # B H Q K
    scaled = see("scaled", scores * (similarity.scale if scale is None else scale))
    visible = mask.dense(query.shape[-2], key.shape[-2], query.device, query.shape[:2])
    if visible is None and see.changes("mask"):
        visible = scores.new_ones(scores.shape[-2:], dtype=torch.bool)
    if visible is not None or see.wants("mask"):
        visible = see("mask", scores.new_ones((), dtype=torch.bool) if visible is None else visible)
    weights = see("weights", masked_softmax(scaled, visible))
    dropped = drop(weights, dropout, training=True)
    return AttentionSteps(scores, scaled, visible, weights, dropped @ value)


def record_weights(
    query: Tensor, key: Tensor, mask: Mask, similarity: Similarity, scale: float, see: Unwatched
) -> None:
    """Record the mask and weights of `attention_steps`, bit for bit, in the memory of the weights alone."""
    visible = mask.dense(query.shape[-2], key.shape[-2], query.device, query.shape[:2])
    if see.wants("mask"):
        see("mask", query.new_ones((), dtype=torch.bool) if visible is None else visible)
    if not see.wants("weights"):
        return
    scaled = similarity(query, _repeat_groups(key, query.shape[1])).mul_(scale)  # B H Q K
    see.record("weights", masked_softmax(scaled, visible, in_place=True))


def masked_softmax(scores: Tensor, visible: Tensor | None, in_place: bool = False) -> Tensor:
    """Softmax over the visible keys; a row without visible keys is zero, and so is its gradient.

    With `in_place`, scores are overwritten.
    """
    if visible is None:
        return scores.softmax(-1)
    # The lowest finite number, not -inf: beside any other score its weight is exactly 0, and a row that is
    # masked as a whole stays finite until it is set to zero.
    lowest, masked = torch.finfo(scores.dtype).min, ~visible
    fill = Tensor.masked_fill_ if in_place else Tensor.masked_fill
    return fill(fill(scores, masked, lowest).softmax(-1), masked, 0.0)


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask = EVERYTHING, similarity: Similarity | None = None
) -> Tensor:
    """Equation 1 in explicit steps: B H Q E, B G K E, B G K F to B H Q F."""
    return attention_steps(query, key, value, mask, similarity).output


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask = EVERYTHING, scale: float | None = None
) -> Tensor:
    """Equation 1 in torch's fused kernel, with memory linear in Q and K unless the mask is a matrix."""
    queries, keys, width = query.shape[-2], key.shape[-2], value.shape[-1]
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    grouped = key.shape[1] != query.shape[1]
    query, key, value = _pad_to_equal_width(query, key, value)
    mask = _without_redundant_causality(mask, queries, keys)
    causal = mask.causal and not mask.has_offset
    visible = (replace(mask, causal=False) if causal else mask).dense(
        queries, keys, query.device, query.shape[:2]
    )
    if causal and visible is not None and not _kernel_takes_mask_and_causal(query, key, value):
        causal, visible = False, mask.dense(queries, keys, query.device, query.shape[:2])
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=visible, is_causal=causal, scale=scale, enable_gqa=grouped
    )
    if visible is not None and query.device.type != "cpu":
        # Only the CPU kernel guarantees zeros for a query whose keys are all masked.
        output = output.masked_fill(~visible.any(-1, keepdim=True), 0.0)
    return output[..., :width]


def _repeat_groups(x: Tensor, heads: int) -> Tensor:
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def _pad_to_equal_width(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pad keys or values with zeros, because with unequal widths torch falls back to a Q x K matrix."""
    missing = value.shape[-1] - key.shape[-1]
    if missing < 0:
        return query, key, F.pad(value, (0, -missing))
    if missing > 0:
        return F.pad(query, (0, missing)), F.pad(key, (0, missing)), value
    return query, key, value


def _without_redundant_causality(mask: Mask, queries: int, keys: int) -> Mask:
    """Remove the causal mask if the only query is at the last key."""
    is_last = queries == 1 and isinstance(mask.offset, int) and mask.offset >= keys - 1
    return replace(mask, causal=False) if mask.causal and is_last else mask


def _kernel_takes_mask_and_causal(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the CPU's flash kernel runs: only it takes a mask together with is_causal."""
    supported = all(x.stride(-1) == 1 and x.numel() > 0 for x in (query, key, value))
    return supported and query.device.type == "cpu" and torch.backends.cuda.flash_sdp_enabled()


class Projections(Protocol):
    """Projections to queries, keys and values; constructed from (width, heads, groups, E, F, bias)."""

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one sequence: B Q D to B H Q E, B G Q E, B G Q F."""
        ...

    def query(self, x: Tensor) -> Tensor:
        """Queries alone, B H Q E."""
        ...

    def key_value(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of another sequence: B K D to B G K E, B G K F."""
        ...


class SeparateProjections(nn.Module):
    """W^Q, W^K and W^V (section 3.2.2), stacked in a single matrix for speed."""

    def __init__(self, width: int, heads: int, groups: int, key_width: int, value_width: int, bias: bool):
        super().__init__()
        self.heads, self.groups, self.key_width, self.value_width = heads, groups, key_width, value_width
        self.sections = [heads * key_width, groups * key_width, groups * value_width]
        self.weight = nn.Parameter(torch.empty(sum(self.sections), width))
        self.bias = nn.Parameter(torch.zeros(sum(self.sections))) if bias else None
        for part in self.weight.split(self.sections):  # Xavier's variance depends on the shape of each
            nn.init.xavier_uniform_(part)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one sequence: B Q D to B H Q E, B G Q E, B G Q F."""
        query, key, value = F.linear(x, self.weight, self.bias).split(self.sections, dim=-1)
        return split_heads(query, self.heads), split_heads(key, self.groups), split_heads(value, self.groups)

    def query(self, x: Tensor) -> Tensor:
        """Queries alone, B H Q E."""
        weight, bias = self._rows(0)
        return split_heads(F.linear(x, weight, bias), self.heads)

    def key_value(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of another sequence: B K D to B G K E, B G K F."""
        weight, bias = self._rows(1)
        key, value = F.linear(memory, weight, bias).split(self.sections[1:], dim=-1)
        return split_heads(key, self.groups), split_heads(value, self.groups)

    def _rows(self, part: int) -> tuple[Tensor, Tensor | None]:
        sizes = [self.sections[0], sum(self.sections[1:])]
        bias = None if self.bias is None else self.bias.split(sizes)[part]
        return self.weight.split(sizes)[part], bias


class NormalisedProjections(SeparateProjections):
    """Separate projections, with an RMSNorm of each query and key that all heads share, as in Qwen3."""

    epsilon = 1e-6

    def __init__(self, width: int, heads: int, groups: int, key_width: int, value_width: int, bias: bool):
        super().__init__(width, heads, groups, key_width, value_width, bias)
        self.query_norm = nn.RMSNorm(key_width, self.epsilon)
        self.key_norm = nn.RMSNorm(key_width, self.epsilon)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one sequence: B Q D to B H Q E, B G Q E, B G Q F."""
        query, key, value = super().forward(x)
        return self.query_norm(query), self.key_norm(key), value

    def query(self, x: Tensor) -> Tensor:
        """Queries alone, B H Q E."""
        return self.query_norm(super().query(x))

    def key_value(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of another sequence: B K D to B G K E, B G K F."""
        key, value = super().key_value(memory)
        return self.key_norm(key), value


def split_heads(x: Tensor, heads: int) -> Tensor:
    """B Q HE to B H Q E."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """B H Q E to B Q HE: concatenate the heads."""
    return x.transpose(1, 2).flatten(2)


PROJECTIONS: Registry[Callable[[int, int, int, int, int, bool], Projections]] = Registry(
    "projections", {"separate": SeparateProjections, "query-key-norm": NormalisedProjections}
)


class MultiHeadAttention(nn.Module):
    """Multi-head attention with the output projection W^O (section 3.2.2).

    Self-attention appends keys and values to a cache if there is one. Cross-attention takes its queries
    from x, and its keys and values from the memory.
    """

    projections: Projections
    similarity: Similarity
    points = ("query", "key", "value", *EXPLICIT_POINTS, "heads", "output")
    ablatable = ("scaling",)

    def __init__(
        self,
        width: int,
        heads: int,
        groups: int | None = None,
        key_width: int | None = None,
        value_width: int | None = None,
        bias: bool = True,
        similarity: str = "scaled-dot",
        projections: str = "separate",
        dropout: float = 0.0,
    ):
        super().__init__()
        key_width = key_width or width // heads
        value_width = value_width or key_width
        self.heads, self.dropout = heads, dropout
        make = PROJECTIONS.find(projections)
        self.projections = make(width, heads, groups or heads, key_width, value_width, bias)
        self.similarity = SIMILARITIES.find(similarity)(heads, key_width)
        self.output = nn.Linear(heads * value_width, width, bias)

    def forward(
        self,
        x: Tensor,
        mask: Mask = EVERYTHING,
        memory: Tensor | ProjectedMemory | None = None,
        rotation: Rotation | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """B Q D to B Q D; memory is B K D, and the mask selects the keys of each query."""
        shape = x.shape
        if memory is None:
            query, key, value = self._self_attention_inputs(x, rotation, cache)
        elif isinstance(memory, ProjectedMemory):
            query, key, value = self.projections.query(memory.fold(x)), memory.key, memory.value
        else:
            query, (key, value) = self.projections.query(x), self.projections.key_value(memory)
        see = watching(self)
        query, key, value = see("query", query), see("key", key), see("value", value)
        heads = see("heads", self._attend(query, key, value, mask, see))
        return see("output", self.output(join_heads(heads)).view(shape))

    def _self_attention_inputs(
        self, x: Tensor, rotation: Rotation | None, cache: LayerCache | None
    ) -> tuple[Tensor, ...]:
        """Queries of x; keys and values of x, after those in the cache."""
        query, key, value = self.projections(x)
        if rotation is not None:
            query, key = rotation(query), rotation(key)
        if cache is not None:
            key, value = cache.extend(key, value)
        return query, key, value

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, see: Unwatched) -> Tensor:
        """Use the fused kernel if it supports dropout, patches and similarity; otherwise explicit steps.

        Observed steps are computed explicitly in addition to the fused result.
        """
        scale = 1.0 if see.is_ablated("scaling") else self.similarity.scale
        dropout = self.dropout if self.training else 0.0
        pair = None if dropout or see.changes(*EXPLICIT_POINTS) else self.similarity.as_dot(query, key)
        if pair is None:
            return attention_steps(query, key, value, mask, self.similarity, scale, dropout, see).output
        if see.wants(*EXPLICIT_POINTS):
            with torch.no_grad():
                if see.wants("scores", "scaled"):
                    attention_steps(query, key, value, mask, self.similarity, scale, see=see)
                else:
                    record_weights(query, key, mask, self.similarity, scale, see)
        return fused_attention(pair[0], pair[1], value, mask, scale)


ATTENTIONS: Registry[Callable[..., nn.Module]] = Registry("attention", {"multi-head": MultiHeadAttention})
