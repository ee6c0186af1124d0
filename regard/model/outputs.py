"""Heads on the last block: language model, masked language model, classification, pooled and token vectors.

B batch, Q tokens, D width, V vocabulary, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.model.config import ModelConfig
from regard.model.initialization import random_weight
from regard.model.kernels import drop
from regard.model.masks import EVERYTHING, Mask
from regard.model.watch import watching
from regard.registry import Registry


class LMHead(nn.Module):
    """Logits u = h E^T over the vocabulary. E is the embedding matrix if `tied` is given."""

    points = ("logits",)

    def __init__(self, vocabulary: int, width: int, bias: bool, tied: nn.Parameter | None = None):
        super().__init__()
        self.weight = random_weight(vocabulary, width, deviation=width**-0.5) if tied is None else tied
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to B Q V."""
        return watching(self)("logits", F.linear(hidden, self.weight, self.bias))


class MaskedLMHead(nn.Module):
    """BERT's masked language model head: a linear layer, activation and norm before an LMHead."""

    def __init__(
        self, transform: nn.Module, activation: Callable[[Tensor], Tensor], norm: nn.Module, words: LMHead
    ):
        super().__init__()
        self.transform, self.activation, self.norm, self.words = transform, activation, norm, words

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to B Q V."""
        return self.words(self.norm(self.activation(self.transform(hidden))), mask)


class CLSPooling(nn.Module):
    """The vector of the first token that is not padding."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to B D."""
        if mask.keys is None:
            return hidden[:, 0]
        first = mask.keys.long().argmax(dim=1)
        return hidden[torch.arange(len(hidden), device=hidden.device), first]


class MeanPooling(nn.Module):
    """The mean of the token vectors, without padding."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to B D."""
        if mask.keys is None:
            return hidden.mean(dim=1)
        exists = mask.keys[..., None].to(hidden.dtype)
        return (hidden * exists).sum(dim=1) / exists.sum(dim=1).clamp_min(1)


class BertPooler(nn.Module):
    """BERT's pooler: the vector of the first token through a linear layer and tanh, or another activation."""

    def __init__(self, width: int, activation: Callable[[Tensor], Tensor] = torch.tanh):
        super().__init__()
        self.first, self.dense = CLSPooling(width), nn.Linear(width, width)
        self.activation = activation

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to B D."""
        return self.activation(self.dense(self.first(hidden, mask)))


POOLINGS: Registry[Callable[[int], nn.Module]] = Registry(
    "pooling",
    {
        "cls": CLSPooling,
        "mean": MeanPooling,
        "bert": BertPooler,
        "distilbert": partial(BertPooler, activation=torch.relu),
    },
)


class ClassificationHead(nn.Module):
    """Pool the sequence to one vector, then compute a logit per class."""

    points = ("pooled", "logits")

    def __init__(self, pooling: nn.Module, width: int, classes: int, dropout: float = 0.0):
        super().__init__()
        self.pooling, self.dropout = pooling, dropout
        self.classify = nn.Linear(width, classes)

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to B C."""
        see = watching(self)
        pooled = see("pooled", self.pooling(hidden, mask))
        return see("logits", self.classify(drop(pooled, self.dropout, self.training)))


class Vectors(nn.Module):
    """No head: the contextual vector of each token as the last block gives it."""

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to the same."""
        return hidden


def _lm_head(config: ModelConfig, embedding: nn.Parameter | None) -> LMHead:
    vocabulary = config.output_vocabulary
    return LMHead(vocabulary, config.width, config.head_bias, embedding if config.tie_head else None)


def _masked_lm_head(config: ModelConfig, embedding: nn.Parameter | None) -> MaskedLMHead:
    from regard.model.blocks import FEED_FORWARDS, NORMS

    feed_forward = FEED_FORWARDS.find(config.feed_forward)(1, 1, False)
    norm = NORMS.find(config.norm)(config.width, config.norm_epsilon)
    activation = getattr(feed_forward, "activation", F.gelu)
    return MaskedLMHead(nn.Linear(config.width, config.width), activation, norm, _lm_head(config, embedding))


def _classification_head(config: ModelConfig, embedding: nn.Parameter | None) -> ClassificationHead:
    pooling = POOLINGS.find(config.pooling)(config.width)
    return ClassificationHead(pooling, config.width, config.classes, config.dropout)


OUTPUTS: Registry[Callable[[ModelConfig, nn.Parameter | None], nn.Module]] = Registry(
    "output",
    {
        "words": _lm_head,
        "masked": _masked_lm_head,
        "classes": _classification_head,
        "pooled": lambda config, embedding: POOLINGS.find(config.pooling)(config.width),
        "vectors": lambda config, embedding: Vectors(),
    },
)
