"""A plain GPT as a peer: torch's modules, fused attention, full logits.

It repeats what regard.model does on purpose: a peer must not share its code.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.model.config import ModelConfig


class PlainAttention(nn.Module):
    """Causal self-attention with one projection for queries, keys and values."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.project, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """B T D to the same."""
        batch, tokens, width = x.shape
        parts = self.project(x).split(width, dim=2)
        query, key, value = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in parts)
        heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.dropout(self.output(heads.transpose(1, 2).reshape(batch, tokens, width)))


class PlainBlock(nn.Module):
    """Pre-norm attention and a feed-forward of four times the width."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.before_attention, self.before_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = PlainAttention(width, heads, dropout)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        """B T D to the same."""
        x = x + self.attention(self.before_attention(x))
        return x + self.feed_forward(self.before_feed_forward(x))


class PlainGPT(nn.Module):
    """Token and position embeddings, blocks, a final norm and a head tied to the embedding."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        blocks = (PlainBlock(config.width, config.heads, config.dropout) for _ in range(config.layers))
        self.blocks, self.norm = nn.ModuleList(blocks), nn.LayerNorm(config.width)

    def forward(self, ids: Tensor) -> Tensor:
        """B T to logits B T V."""
        x = self.dropout(self.tokens(ids) + self.positions(torch.arange(ids.shape[1])))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)
