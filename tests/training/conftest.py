"""Small models, batches and data that several tests train on."""

from __future__ import annotations

import numpy as np
import pytest

from regard.model.config import ModelConfig
from regard.text.collate import LabelledBatch, MaskedBatch, ParallelBatch, TextBatch, pad, token_mask
from regard.training.objectives import (
    Classification,
    LanguageModeling,
    MaskedLanguageModeling,
    Translation,
)

PAD, START, END, WORDS = 0, 1, 2, 20


def tiny(**changes) -> ModelConfig:
    values = dict(vocabulary=WORDS, width=16, layers=2, heads=2, feed_forward_width=32, context=32)
    return ModelConfig(**{**values, **changes})


def sequences(count: int, seed: int = 0, longest: int = 9) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(4, WORDS, random.integers(1, longest)) for _ in range(count)]


def parallel(count: int = 8, seed: int = 0) -> ParallelBatch:
    sources, targets = sequences(count, seed), sequences(count, seed + 1)
    return ParallelBatch(
        source=pad(sources, PAD, last=END),
        source_keys=token_mask(sources, 1),
        target_in=pad(targets, PAD, first=START),
        target_out=pad(targets, PAD, last=END),
        target_keys=token_mask(targets, 1),
    )


def text(count: int = 8, seed: int = 0) -> TextBatch:
    texts = sequences(count, seed)
    return TextBatch(pad(texts, PAD, first=START), pad(texts, PAD, last=END), token_mask(texts, 1))


def masked(count: int = 8, seed: int = 0) -> MaskedBatch:
    texts = sequences(count, seed)
    output, keys = pad(texts, PAD), token_mask(texts)
    chosen = keys & (np.random.default_rng(seed).random(keys.shape) < 0.4)
    return MaskedBatch(np.where(chosen, 3, output), output, chosen, keys)


def labelled(count: int = 8, seed: int = 0) -> LabelledBatch:
    texts = sequences(count, seed)
    return LabelledBatch(pad(texts, PAD), token_mask(texts), np.arange(count) % 3)


OBJECTIVES = {
    "translation": Translation,
    "language-modeling": LanguageModeling,
    "masked-language-modeling": MaskedLanguageModeling,
    "classification": Classification,
}
KINDS = {
    "translation": (parallel, {}),
    "language-modeling": (text, dict(family="decoder-only")),
    "masked-language-modeling": (masked, dict(family="encoder-only", output="masked", head_bias=True)),
    "classification": (labelled, dict(family="encoder-only", output="classes", classes=3)),
}


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    """Each objective in turn."""
    return request.param
