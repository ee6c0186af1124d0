"""The blocks of the stack: feed-forward, norm, residual connection, encoder block, decoder block.

B batch, Q tokens, D width, I inner width of the feed-forward. A block keeps its shape, B Q D.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.model.cache import LayerCache, ProjectedMemory
from regard.model.kernels import drop, gelu_tanh
from regard.model.masks import EVERYTHING, Mask
from regard.model.positions import Rotation
from regard.model.watch import watching
from regard.registry import Registry


class LayerNorm(nn.Module):
    """(x - mean) / standard deviation over the width, then gamma and beta."""

    def __init__(self, width: int, epsilon: float = 1e-5):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.shape, self.epsilon = (width,), epsilon

    def forward(self, x: Tensor) -> Tensor:
        """B Q D to the same."""
        return F.layer_norm(x, self.shape, self.weight, self.bias, self.epsilon)


class RMSNorm(nn.Module):
    """x / root mean square over the width, then gamma (Zhang and Sennrich 2019)."""

    def __init__(self, width: int, epsilon: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.shape, self.epsilon = (width,), epsilon

    def forward(self, x: Tensor) -> Tensor:
        """B Q D to the same."""
        return F.rms_norm(x, self.shape, self.weight, self.epsilon)


NORMS: Registry[Callable[[int, float], nn.Module]] = Registry("norm", {"layer": LayerNorm, "rms": RMSNorm})


class PostNorm(nn.Module):
    """norm(x + sublayer(x)), the paper's order (section 3.1)."""

    points = ("before", "sublayer", "after")
    ablatable = ("residual", "norm")

    def __init__(self, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.norm, self.dropout = norm, dropout

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """B Q D to the same."""
        see = watching(self)
        x = see("before", x)
        y = see("sublayer", drop(sublayer(x), self.dropout, self.training))
        y = y if see.is_ablated("residual") else x + y
        return see("after", y if see.is_ablated("norm") else self.norm(y))


class PreNorm(nn.Module):
    """x + sublayer(norm(x)): no norm is applied to the residual stream itself."""

    points = ("before", "normed", "sublayer", "after")
    ablatable = ("residual", "norm")

    def __init__(self, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.norm, self.dropout = norm, dropout

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """B Q D to the same."""
        see = watching(self)
        x = see("before", x)
        y = sublayer(x if see.is_ablated("norm") else see("normed", self.norm(x)))
        y = see("sublayer", drop(y, self.dropout, self.training))
        return see("after", y if see.is_ablated("residual") else x + y)


RESIDUALS: Registry[Callable[[nn.Module, float], nn.Module]] = Registry(
    "residual", {"post": PostNorm, "pre": PreNorm}
)


class FeedForward(nn.Module):
    """W2 s(W1 x + b1) + b2, the same at every position (section 3.3)."""

    points = ("inner", "hidden")

    def __init__(self, width: int, inner: int, bias: bool, activation: Callable[[Tensor], Tensor] = F.relu):
        super().__init__()
        self.expand, self.contract = nn.Linear(width, inner, bias), nn.Linear(inner, width, bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """B Q D to the same."""
        see = watching(self)
        inner = see("inner", self.expand(x))  # B Q I
        return self.contract(see("hidden", self.activation(inner)))


class GatedFeedForward(nn.Module):
    """W2 (s(V x) * W1 x): a gate multiplies the inner layer (Shazeer 2020)."""

    points = ("inner", "gate", "hidden")

    def __init__(self, width: int, inner: int, bias: bool, activation: Callable[[Tensor], Tensor] = F.silu):
        super().__init__()
        self.expand, self.contract = nn.Linear(width, 2 * inner, bias), nn.Linear(inner, width, bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """B Q D to the same."""
        see = watching(self)
        gate, inner = self.expand(x).chunk(2, dim=-1)  # B Q I each
        gate, inner = see("gate", self.activation(gate)), see("inner", inner)
        return self.contract(see("hidden", gate * inner))


FEED_FORWARDS: Registry[Callable[[int, int, bool], nn.Module]] = Registry(
    "feed_forward",
    {
        "relu": FeedForward,
        "gelu": partial(FeedForward, activation=F.gelu),
        "gelu-tanh": partial(FeedForward, activation=gelu_tanh),
        "silu": partial(FeedForward, activation=F.silu),
        "reglu": partial(GatedFeedForward, activation=F.relu),
        "geglu": partial(GatedFeedForward, activation=F.gelu),
        "swiglu": GatedFeedForward,
    },
)


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward, a residual connection around each."""

    def __init__(self, attention: nn.Module, feed_forward: nn.Module, residual: Callable[[], nn.Module]):
        super().__init__()
        self.attention, self.around_attention = attention, residual()
        self.feed_forward, self.around_feed_forward = feed_forward, residual()

    def forward(
        self,
        x: Tensor,
        mask: Mask = EVERYTHING,
        rotation: Rotation | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """B Q D to the same. With a causal mask this is the block of a decoder-only model."""
        x = self.around_attention(x, lambda x: self.attention(x, mask, rotation=rotation, cache=cache))
        return self.around_feed_forward(x, self.feed_forward)


class DecoderBlock(nn.Module):
    """Masked self-attention, then attention over the encoder's memory, then feed-forward."""

    def __init__(
        self,
        attention: nn.Module,
        cross: nn.Module,
        feed_forward: nn.Module,
        residual: Callable[[], nn.Module],
    ):
        super().__init__()
        self.attention, self.around_attention = attention, residual()
        self.cross, self.around_cross = cross, residual()
        self.feed_forward, self.around_feed_forward = feed_forward, residual()

    def forward(
        self,
        x: Tensor,
        memory: Tensor | ProjectedMemory,
        mask: Mask = EVERYTHING,
        memory_mask: Mask = EVERYTHING,
        rotation: Rotation | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """B Q D to the same; memory is B K D, or its projected keys and values."""
        x = self.around_attention(x, lambda x: self.attention(x, mask, rotation=rotation, cache=cache))
        x = self.around_cross(x, lambda x: self.cross(x, memory_mask, memory))
        return self.around_feed_forward(x, self.feed_forward)
