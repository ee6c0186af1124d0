"""Qwen3: Llama with a norm of the queries and keys of each head."""

from __future__ import annotations

from typing import Any

from regard.checkpoints import llama, qwen2
from regard.checkpoints.foreign import ForeignConfig, check_round_trip, read_config
from regard.checkpoints.naming import Format, Row
from regard.model.config import ModelConfig

TITLE = "Qwen3"
ARCHITECTURES = {"Qwen3ForCausalLM": "words", "Qwen3Model": "words"}
TABLE = (
    *llama.TABLE,
    Row(llama.OURS + "attention.projections.query_norm.weight", llama.THEIRS + "self_attn.q_norm.weight"),
    Row(llama.OURS + "attention.projections.key_norm.weight", llama.THEIRS + "self_attn.k_norm.weight"),
)
EPSILON = 1e-6  # of all their models, and of our projections


def to_config(values: Any) -> ModelConfig:
    """Our config for a Qwen3 config.json."""
    return read_config(TITLE, values, _read, qwen2.HARMLESS)


def _read(theirs: ForeignConfig) -> ModelConfig:
    theirs.architecture(ARCHITECTURES, "Qwen3ForCausalLM")
    qwen2.check_full_attention(theirs)
    if theirs.number("rms_norm_eps", EPSILON) != EPSILON:
        raise theirs.error("rms_norm_eps", f"is not supported; it must be {EPSILON}")
    config = llama.read_decoder(theirs)
    return config.changed(
        projections="query-key-norm",
        key_width=theirs.size("head_dim", 128),
        attention_bias=theirs.flag("attention_bias", False),
    )


def from_config(config: ModelConfig) -> dict[str, Any]:
    """A Qwen3 config.json for our config; raise a CheckpointError if a setting has no counterpart."""
    values = llama.write_decoder(config, TITLE) | {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": config.attention_bias,
        "use_sliding_window": False,
    }
    return check_round_trip(config, to_config, values, TITLE)


FORMAT = Format(TITLE, to_config, from_config, TABLE, llama.IGNORED, base="model.")
