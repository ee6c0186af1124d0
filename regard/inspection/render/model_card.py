"""The description of a model that the view shows: family, sizes and title. Imports no torch."""

from __future__ import annotations

from typing import Any

from regard.model.config import ModelConfig


def model_card(
    name: str, headline: str, config: ModelConfig, parameters: int, **others: Any
) -> dict[str, Any]:
    """The description of a model; `headline` starts its title, and `others` replaces defaults."""
    decoder = 0 if config.family == "encoder-only" else config.decoder_layers or config.layers
    layers = {"encoder": 0 if config.family == "decoder-only" else config.layers, "decoder": decoder}
    depth = "+".join(str(count) for count in layers.values() if count)
    return {
        "name": name,
        "title": f"{headline}, {depth} layers, {config.heads} heads, {_abbreviate(parameters)} weights",
        "family": config.family,
        "output": "vectors" if config.output == "pooled" else config.output,
        "layers": layers,
        "heads": config.heads,
        "width": config.width,
        "head_width": config.key_size,
        "vocabulary": config.output_vocabulary,
        "parameters": parameters,
        "context": config.context,
        "residual": config.residual,
        "labels": [],
        "snapshots": [],
        "examples": [],
        "pairs": [],
        "state": "ready",
        "known_words": False,
        **others,
    }


def _abbreviate(count: int) -> str:
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f} {letter}"
    return str(count)
