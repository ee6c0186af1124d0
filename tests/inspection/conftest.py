"""Small models of every family with a tokenizer each, as the three classes of inference have them."""

from __future__ import annotations

import pytest
import torch

from regard.inference.reader import Reader
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.inspection.inspection import Inspection, inspect
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.text.tokenizer import Tokenizer, Tokenizers

ENGLISH = "The animal didn't cross the street because it was too tired."
FRENCH = "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
SMALL = dict(width=16, layers=2, heads=4, feed_forward_width=24)
VARIANTS = {
    "paper": dict(),
    "pre": dict(residual="pre", positions="learned", feed_forward="swiglu"),
    "llama": dict(residual="pre", positions="rotary", norm="rms", key_value_heads=2, attention_bias=False),
    "rotary-post": dict(positions="rotary", key_value_heads=1),
    "dot": dict(similarity="dot"),
    "cosine": dict(similarity="cosine", residual="pre"),
    "bilinear": dict(similarity="bilinear"),
    "additive": dict(similarity="additive"),
    "wide": dict(key_width=6, value_width=3),
}
FAMILIES = ("encoder-decoder", "decoder-only", "encoder-only")


@pytest.fixture(scope="session")
def words() -> Tokenizer:
    """A token for each word."""
    return Tokenizer.train([ENGLISH, FRENCH, "The street was too wide. it il elle large"], kind="word")


@pytest.fixture(scope="session")
def pieces() -> Tokenizer:
    """Words in several pieces."""
    return Tokenizer.train([ENGLISH, FRENCH], kind="bpe", vocabulary=275)


def make_model(tokenizer: Tokenizer, variant: str = "paper", family: str = "encoder-decoder", **changes):
    """A model whose every number is drawn, so that nothing is right by chance."""
    torch.manual_seed(0)
    settings = {**SMALL, **VARIANTS[variant], "family": family, "vocabulary": tokenizer.vocabulary, **changes}
    if family == "encoder-only":
        settings.setdefault("output", "masked")
    model = build_model(ModelConfig(**settings)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def subject(tokenizer: Tokenizer, variant: str = "paper", family: str = "encoder-decoder", **changes):
    """A Translator, Writer or Reader around such a model."""
    model = make_model(tokenizer, variant, family, **changes)
    if family == "encoder-decoder":
        return Translator(model, Tokenizers.joint(tokenizer))
    return Writer(model, tokenizer) if family == "decoder-only" else Reader(model, tokenizer)


def inspected(
    tokenizer: Tokenizer, variant: str = "paper", family: str = "encoder-decoder", **asked
) -> Inspection:
    """An inspection of the lectures' sentence."""
    target = FRENCH if family == "encoder-decoder" else None
    return inspect(subject(tokenizer, variant, family), ENGLISH, **{"target": target, **asked})
