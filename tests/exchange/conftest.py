"""Folders that transformers wrote, shared with the tests of reading them, and random models of regard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.checkpoints.folder import save_model
from regard.demo.story.model_store import trained_folder
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.text.tokenizer import Tokenizer, Tokenizers
from tests.checkpoints.conftest import transformers
from tests.checkpoints.test_huggingface import TEXTS, copy, saved

__all__ = ["copy", "saved", "transformers"]

SIZES = dict(layers=2, width=12, heads=3, feed_forward_width=20, context=64, dropout=0.1)
READS = dict(
    family="encoder-only", feed_forward="gelu", positions="learned", segments=2, embedding_norm=True,
    scale_embeddings=False, norm_epsilon=1e-12, pooling="bert",
)  # fmt: skip
WRITES = dict(family="decoder-only", residual="pre", scale_embeddings=False)
LLAMA = dict(
    positions="rotary", norm="rms", feed_forward="swiglu", attention_bias=False, feed_forward_bias=False,
    key_width=4, dropout=0.0,
)  # fmt: skip
OURS: dict[str, tuple[str, dict[str, Any]]] = {  # every family that regard trains: its model_type and config
    "paper": ("marian", dict(positions="sinusoidal")),
    "post-norm": ("marian", dict(positions="sinusoidal-halves")),
    "pre-norm": ("pegasus", dict(positions="sinusoidal-halves", residual="pre", decoder_layers=1)),
    "gpt-2": ("gpt2", dict(WRITES, positions="learned", feed_forward="gelu-tanh")),
    "llama": ("llama", dict(WRITES, **LLAMA)),
    "masked": ("bert", dict(READS, output="masked", head_bias=True)),
    "classes": ("bert", dict(READS, output="classes", classes=2)),
}


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS * 3, vocabulary=330)


@pytest.fixture
def ours(tmp_path, tokenizer) -> Callable[..., Path]:
    """Makes a model folder of a random model."""

    def make(name: str, extra: dict[str, Any] | None = None, **changes: Any) -> Path:
        torch.manual_seed(3)
        config = ModelConfig(**{**SIZES, "vocabulary": tokenizer.vocabulary, **OURS[name][1], **changes})
        model = build_model(config).eval()
        for parameter in model.parameters():
            parameter.data += 0.2 * torch.randn_like(parameter)
        metadata = {"labels": ["bad", "good"]} if name == "classes" else {}
        metadata |= extra or {}
        return save_model(tmp_path / "ours" / name, model, Tokenizers.joint(tokenizer), extra=metadata)

    return make


@pytest.fixture(scope="session")
def demo() -> Path:
    """The demo's model."""
    return trained_folder("demo")


@pytest.fixture(scope="session")
def demo_texts() -> list[str]:
    """A sample of sentences as the demo's test set has them."""
    from regard.demo.corpus import FEWEST, corpus

    return [pair.source for pair in corpus(pairs=FEWEST).test[:40]]
