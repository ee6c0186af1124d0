"""Token, position and segment embeddings (section 3.4).

B batch, Q tokens, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import ShapeError
from regard.model.initialization import random_weight, set_normal
from regard.model.kernels import drop
from regard.model.masks import EVERYTHING, Mask
from regard.model.patches import PatchEmbedding
from regard.model.positions import Positions, Rotation
from regard.model.watch import watching


class Embedding(nn.Module):
    """The sum of token embeddings (or projected input vectors or patches), positions and segments."""

    positions: Positions
    points = ("tokens", "positions", "output")
    ablatable = ("positions", "norm")

    def __init__(
        self,
        vocabulary: int,
        width: int,
        positions: Positions,
        scaled: bool = True,
        segments: int = 0,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
        vectors: int | None = None,
        patches: PatchEmbedding | None = None,
    ):
        super().__init__()
        self.scale, self.dropout = width**0.5 if scaled else 1.0, dropout
        deviation = 1 / self.scale if scaled else 0.02  # 1 after scaling; GPT-2's value without scaling
        reads_ids = vectors is None and patches is None
        self.weight = random_weight(vocabulary, width, deviation=deviation) if reads_ids else None
        self.patches = patches
        self.vectors = nn.Identity() if vectors is None else nn.Linear(vectors, width)
        self.positions, self.norm = positions, norm
        self.segments = random_weight(segments, width, deviation=0.02) if segments else None
        if scaled and isinstance(learned := getattr(positions, "weight", None), nn.Parameter):
            set_normal(learned, 1.0)  # the deviation of scaled embeddings

    def forward(
        self, tokens: Tensor, mask: Mask = EVERYTHING, segments: Tensor | None = None
    ) -> tuple[Tensor, Rotation | None]:
        """Ids B Q, vectors B Q W or images to B Q D, with the rotation of queries and keys, or None."""
        see = watching(self)
        x = see("tokens", self._look_up(tokens, mask))
        positions = mask.positions(x.shape[1], x.device)
        rotation = None
        if not see.is_ablated("positions"):
            encoding = self.positions(positions, mask.length(x.shape[1]))
            x = x if encoding is None else x + see("positions", encoding)
            rotation = self.positions.rotation(positions)
        x = x if self.segments is None else x + self._segments(tokens, segments)
        x = x if self.norm is None or see.is_ablated("norm") else self.norm(x)
        return see("output", drop(x, self.dropout, self.training)), rotation

    def _look_up(self, tokens: Tensor, mask: Mask) -> Tensor:
        if self.patches is not None:
            return self.patches(tokens)
        is_float = tokens.is_floating_point()
        if is_float or (self.weight is not None and tokens.dtype not in (torch.int64, torch.int32)):
            return self._read_vectors(tokens, mask)
        if self.weight is None:
            raise ShapeError(
                f"this encoder takes vectors of width {self.vectors.in_features}, not ids; pass B Q W floats"
            )
        if tokens.dim() != 2:
            raise ShapeError(
                f"ids of shape {tuple(tokens.shape)} must be B Q; pass one sequence as ids[None]"
            )
        x = F.embedding(tokens, self.weight)
        return x if self.scale == 1.0 else x * self.scale

    def _read_vectors(self, tokens: Tensor, mask: Mask) -> Tensor:
        """Project input vectors B Q W."""
        width = self.vectors.in_features if self.weight is None else self.weight.shape[1]
        if tokens.dim() != 3 or tokens.shape[2] != width:
            raise ShapeError(
                f"{tokens.dtype} of shape {tuple(tokens.shape)} must be integer ids (call .long()) "
                f"or vectors of shape B Q {width}"
            )
        if mask.keys is not None:  # padding may hold NaN
            tokens = tokens.masked_fill(~mask.keys[..., None], 0.0)
        return self.vectors(tokens)

    def _segments(self, tokens: Tensor, segments: Tensor | None) -> Tensor:
        assert self.segments is not None
        return self.segments[0] if segments is None else F.embedding(segments, self.segments)
