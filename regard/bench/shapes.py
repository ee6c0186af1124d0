"""The model shapes of the benchmarks, and synthetic batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.model.config import ModelConfig

PAD = 1


@dataclass(frozen=True)
class TranslationBatch:
    """Right-padded pairs of sentences, B S and B T."""

    source: Tensor
    target: Tensor

    @property
    def tokens(self) -> int:
        """Number of target tokens without padding."""
        return int((self.target != PAD).sum())


TRANSLATION = {
    "mt-tiny": ModelConfig.named("tiny", dropout=0.0),
    "mt-base-small": ModelConfig.named("small", dropout=0.0),
}

_GPT = dict(vocabulary=65, dropout=0.0)
LANGUAGE_MODELS = {  # with the rows of a batch
    "lm-small": (
        ModelConfig.named("gpt-2", width=128, layers=4, heads=4, feed_forward_width=512, context=64, **_GPT),
        12,
    ),
    "lm-large": (
        ModelConfig.named(
            "gpt-2", width=384, layers=6, heads=6, feed_forward_width=1536, context=256, **_GPT
        ),
        16,
    ),
}


def translation_batch(vocabulary: int, sentences: int = 292, seed: int = 0) -> TranslationBatch:
    """About 4,090 target tokens in sentences of 13 to 15 tokens."""
    generator = torch.Generator().manual_seed(seed)
    sides = []
    for _ in range(2):
        lengths = torch.randint(13, 16, (sentences, 1), generator=generator)
        ids = torch.randint(4, vocabulary, (sentences, 15), generator=generator)
        sides.append(ids.masked_fill(torch.arange(15) >= lengths, PAD))
    return TranslationBatch(*sides)


def language_batch(vocabulary: int, rows: int, length: int, seed: int = 0) -> Tensor:
    """Rows of random ids without padding, B T."""
    return torch.randint(0, vocabulary, (rows, length), generator=torch.Generator().manual_seed(seed))


def translation_operations(config: ModelConfig, batch: TranslationBatch) -> float:
    """Multiplications and additions in matrix products of forward and backward, without padding."""
    source = int((batch.source != PAD).sum())
    square, inner = config.width**2, 2 * config.width * config.feed_forward_width
    encoder, decoder, memory = 4 * square + inner, 6 * square + inner, 2 * square
    return 6.0 * config.layers * (source * (encoder + memory) + batch.tokens * decoder)


def language_operations(config: ModelConfig, tokens: int) -> float:
    """The same for a decoder-only model, without its head."""
    matrices = config.layers * (4 * config.width**2 + 2 * config.width * config.feed_forward_width)
    attention = config.layers * config.width * config.context  # half of 2 T D, because it is causal
    return 6.0 * tokens * (matrices + attention)
