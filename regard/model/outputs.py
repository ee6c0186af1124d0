"""From the last block to an answer: words, words behind a mask, classes, vectors.

B batch, Q tokens, D width, V vocabulary, C classes.
"""

from __future__ import annotations

from collections.abc import Callable

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
    """u = h E^T: a number for every word, whose softmax is its probability. E may be the embedding's own."""

    points = ("logits",)

    def __init__(self, vocabulary: int, width: int, bias: bool, tied: nn.Parameter | None = None):
        super().__init__()
        self.weight = random_weight(vocabulary, width, deviation=width**-0.5) if tied is None else tied
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to B Q V."""
        return watching(self)("logits", F.linear(hidden, self.weight, self.bias))


class MaskedLMHead(nn.Module):
    """BERT's way to the word behind a mask: one more layer and norm, then Words."""

    def __init__(
        self, transform: nn.Module, activation: Callable[[Tensor], Tensor], norm: nn.Module, words: LMHead
    ):
        super().__init__()
        self.transform, self.activation, self.norm, self.words = transform, activation, norm, words

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to B Q V."""
        return self.words(self.norm(self.activation(self.transform(hidden))), mask)


class CLSPooling(nn.Module):
    """The first token's vector stands for the sequence."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to B D."""
        if mask.keys is None:
            return hidden[:, 0]
        first = mask.keys.long().argmax(dim=1)
        return hidden[torch.arange(len(hidden), device=hidden.device), first]


class MeanPooling(nn.Module):
    """The mean of the tokens that exist stands for the sequence."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to B D."""
        if mask.keys is None:
            return hidden.mean(dim=1)
        exists = mask.keys[..., None].to(hidden.dtype)
        return (hidden * exists).sum(dim=1) / exists.sum(dim=1).clamp_min(1)


class BertPooler(nn.Module):
    """BERT's pooler: the first token's vector through one more layer."""

    def __init__(self, width: int):
        super().__init__()
        self.first, self.dense = CLSPooling(width), nn.Linear(width, width)

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to B D."""
        return self.dense(self.first(hidden, mask)).tanh()


POOLINGS: Registry[Callable[[int], nn.Module]] = Registry(
    "pooling", {"first": CLSPooling, "mean": MeanPooling, "tanh": BertPooler}
)


class ClassificationHead(nn.Module):
    """One vector for the sequence, then a number for every class."""

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
    """A contextual vector for each token, as it leaves the last block."""

    def forward(self, hidden: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """B Q D to the same."""
        return hidden


def _words(config: ModelConfig, embedding: nn.Parameter | None) -> LMHead:
    vocabulary = config.target_vocabulary or config.vocabulary
    return LMHead(vocabulary, config.width, config.head_bias, embedding if config.tie_head else None)


def _masked(config: ModelConfig, embedding: nn.Parameter | None) -> MaskedLMHead:
    from regard.model.blocks import FEED_FORWARDS, NORMS

    sample = FEED_FORWARDS.find(config.feed_forward)(1, 1, False)
    norm = NORMS.find(config.norm)(config.width, config.norm_epsilon)
    activation = getattr(sample, "activation", F.gelu)
    return MaskedLMHead(nn.Linear(config.width, config.width), activation, norm, _words(config, embedding))


def _classes(config: ModelConfig, embedding: nn.Parameter | None) -> ClassificationHead:
    pooling = POOLINGS.find(config.pooling)(config.width)
    return ClassificationHead(pooling, config.width, config.classes, config.dropout)


OUTPUTS: Registry[Callable[[ModelConfig, nn.Parameter | None], nn.Module]] = Registry(
    "output",
    {
        "words": _words,
        "masked": _masked,
        "classes": _classes,
        "pooled": lambda config, embedding: POOLINGS.find(config.pooling)(config.width),
        "vectors": lambda config, embedding: Vectors(),
    },
)
