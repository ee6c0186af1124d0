"""Models of every family that the tests of the page look into, made in seconds and the same every time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

SIZE = {"layers": 2, "width": 48, "heads": 4, "feed_forward_width": 96, "context": 128}
TRAINING = {"batch_tokens": 1024, "seed": 1, "threads": 1}
RATES = {"optimizer": {"learning_rate": 0.01}, "schedule": {"warmup_steps": 5}}
TRANSLATION = {
    **RATES,
    "training": {**TRAINING, "steps": 120},
    "model": SIZE,
    "architecture": {"decoder_layers": 2},
    "checkpoints": {"snapshot_every": 30},
    "validation": {"validate_every": 60, "sentences": 2},
}
WRITING = {
    **RATES,
    "training": {**TRAINING, "steps": 30},
    "model": SIZE,
    "checkpoints": {"snapshot_every": 10},
    "validation": {"validate_every": 30},
    "tokenizer": {"vocabulary": 600},
}
READ = [
    "Paris is the capital of France.", "A cat sat on the mat.", "The film was good.", "The film was bad.",
    "What a dull, long evening!", "the king and the queen", "It was a fine day in Rome.",
]  # fmt: skip
LABELS = ["bad", "fair", "good"]


def make_models(folder: Path) -> dict[str, Path]:
    """A translating, a writing, a gap-filling and a classifying model, each in a folder of its name."""
    demos = {"translation": ("demo", TRANSLATION), "writing": ("demo-language-model", WRITING)}
    made = {name: _train(folder / name, *how) for name, how in demos.items()}
    made["masked"] = _build(folder / "masked", {"output": "masked", "head_bias": True}, {})
    made["classes"] = _build(folder / "classes", {"output": "classes", "classes": 3}, {"labels": LABELS})
    return made


def _train(folder: Path, recipe: str, settings: Mapping[str, Any]) -> Path:
    """A run of the demo, too short to learn much."""
    from regard.demo.story.model_store import DemoFolder
    from regard.demo.story.training import obtain

    return obtain(DemoFolder(recipe, folder, settings, pairs=4000), show=False).folder


def _build(folder: Path, head: Mapping[str, Any], extra: Mapping[str, Any]) -> Path:
    """An encoder that has learned nothing; its weights are large enough to have opinions."""
    import torch

    from regard.checkpoints.folder import save_model
    from regard.model.config import ModelConfig
    from regard.model.transformer import build_model
    from regard.text.tokenizer import Tokenizer, Tokenizers

    torch.manual_seed(3)
    tokenizer = Tokenizer.train(READ, kind="bpe", vocabulary=320)
    config = ModelConfig(
        **SIZE, **head, family="encoder-only", vocabulary=tokenizer.vocabulary, residual="pre", tie_head=False
    )
    model = build_model(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    save_model(folder, model, Tokenizers.joint(tokenizer), extra=dict(extra) or None)
    return folder
