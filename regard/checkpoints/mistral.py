"""Mistral: Llama without biases, with attention to a window of tokens."""

from __future__ import annotations

from typing import Any

from regard.checkpoints import llama
from regard.checkpoints.foreign import ForeignConfig, check_round_trip, read_config
from regard.checkpoints.naming import Format
from regard.model.config import ModelConfig

TITLE = "Mistral"
ARCHITECTURES = {"MistralForCausalLM": "words", "MistralModel": "words"}
WINDOW = 4096  # if a config does not mention it; null means none


def to_config(values: Any) -> ModelConfig:
    """Our config for a Mistral config.json; the context ends where the window would begin to matter."""
    return read_config(TITLE, values, _read, llama.HARMLESS)


def _read(theirs: ForeignConfig) -> ModelConfig:
    theirs.architecture(ARCHITECTURES, "MistralForCausalLM")
    theirs.require("attention_bias", False)
    theirs.require("mlp_bias", False)
    config = llama.read_decoder(theirs)
    without = config.context if "sliding_window" in theirs.values else WINDOW
    return config.changed(context=min(config.context, theirs.size("sliding_window", without)))


def from_config(config: ModelConfig) -> dict[str, Any]:
    """A Mistral config.json for our config; raise a CheckpointError if a setting has no counterpart."""
    values = llama.write_decoder(config, TITLE) | {
        "model_type": "mistral",
        "architectures": ["MistralForCausalLM"],
        "sliding_window": None,
    }
    return check_round_trip(config, to_config, values, TITLE)


FORMAT = Format(TITLE, to_config, from_config, llama.TABLE, llama.IGNORED, base="model.")
