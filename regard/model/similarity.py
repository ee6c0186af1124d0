"""Similarity of query and key: the paper's scaled dot product, and alternatives.

B batch, H heads, Q queries, K keys, E key width of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor, nn
from torch.nn import functional as F

from regard.model.initialization import random_weight
from regard.registry import Registry


class Similarity(Protocol):
    """The interface of a similarity: a module constructed from (heads, key width)."""

    scale: float  # factor of the raw scores

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Raw scores, before scaling: B H Q E and B H K E to B H Q K."""
        ...

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor] | None:
        """Vectors whose dot product is this similarity, for the fused kernel, or None if there are none."""
        ...


class ScaledDot(nn.Module):
    """q . k / sqrt(d_k), as in the paper. The plain dot product has scale 1."""

    def __init__(self, heads: int, key_width: int, scaled: bool = True):
        super().__init__()
        self.scale = key_width**-0.5 if scaled else 1.0

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Raw scores, before scaling, B H Q K."""
        return query @ key.mT

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors whose dot product is this similarity, for the fused kernel."""
        return query, key


class Cosine(nn.Module):
    """The cosine of the angle between query and key."""

    scale = 1.0

    def __init__(self, heads: int, key_width: int):
        super().__init__()

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Cosines, B H Q K."""
        query, key = self.as_dot(query, key)
        return query @ key.mT

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """The normalized vectors."""
        return F.normalize(query, dim=-1), F.normalize(key, dim=-1)


class Bilinear(nn.Module):
    """q W k, with a trained matrix for each head (Luong et al. 2015)."""

    scale = 1.0

    def __init__(self, heads: int, key_width: int):
        super().__init__()
        self.weight = random_weight(heads, key_width, key_width, deviation=1 / key_width)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores, B H Q K."""
        return (query @ self.weight) @ key.mT

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """The queries multiplied by W, and the keys."""
        return query @ self.weight, key


class Additive(nn.Module):
    """v . tanh(W q + U k), a small network per head (Bahdanau et al. 2015), without a fused form."""

    scale = 1.0

    def __init__(self, heads: int, key_width: int):
        super().__init__()
        deviation = key_width**-0.5
        self.query_weight = random_weight(heads, key_width, key_width, deviation=deviation)
        self.key_weight = random_weight(heads, key_width, key_width, deviation=deviation)
        self.vector = random_weight(heads, key_width, 1, deviation=deviation)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores, B H Q K; the intermediate value is B H Q K E."""
        pairs = (query @ self.query_weight)[..., :, None, :] + (key @ self.key_weight)[..., None, :, :]
        return (pairs.tanh() @ self.vector[:, None]).squeeze(-1)  # B H Q K E to B H Q K

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor] | None:
        """None: this similarity is not a dot product."""
        return None


SIMILARITIES: Registry[Callable[[int, int], Similarity]] = Registry(
    "similarity",
    {
        "scaled-dot": ScaledDot,
        "dot": lambda heads, key_width: ScaledDot(heads, key_width, scaled=False),
        "cosine": Cosine,
        "bilinear": Bilinear,
        "additive": Additive,
    },
)
