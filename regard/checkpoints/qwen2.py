"""Qwen2: Llama with a bias of queries, keys and values, and none of the attention's output."""

from __future__ import annotations

from typing import Any

from regard.checkpoints import llama
from regard.checkpoints.foreign import ForeignConfig, check_round_trip, read_config
from regard.checkpoints.naming import ABSENT, Format, Row
from regard.model.config import ModelConfig

TITLE = "Qwen2"
ARCHITECTURES = {"Qwen2ForCausalLM": "words", "Qwen2Model": "words"}
BIAS = llama.OURS + "attention.output.bias"
TABLE = (
    *(row for row in llama.TABLE if not row.ours.startswith(llama.OURS + "attention.output.")),
    Row(llama.OURS + "attention.output.weight", llama.THEIRS + "self_attn.o_proj.weight"),
    Row(BIAS, (), ABSENT, zero_if_absent=True),
)
# The window of a sliding attention, which is refused.
HARMLESS = (*llama.HARMLESS, "max_window_layers", "sliding_window")


def to_config(values: Any) -> ModelConfig:
    """Our config for a Qwen2 config.json."""
    return read_config(TITLE, values, _read, HARMLESS)


def _read(theirs: ForeignConfig) -> ModelConfig:
    theirs.architecture(ARCHITECTURES, "Qwen2ForCausalLM")
    check_full_attention(theirs)
    return llama.read_decoder(theirs).changed(attention_bias=True)


def check_full_attention(theirs: ForeignConfig) -> None:
    """Raise if a layer attends to a window only."""
    theirs.require("use_sliding_window", False)
    theirs.require("use_mrope", False)
    layers = theirs.values["layer_types"] if theirs.has("layer_types") else []
    if not isinstance(layers, list) or any(kind != "full_attention" for kind in layers):
        raise theirs.error("layer_types", "is not supported; every layer must have full_attention")


def from_config(config: ModelConfig) -> dict[str, Any]:
    """A Qwen2 config.json for our config; raise a CheckpointError if a setting has no counterpart."""
    values = llama.write_decoder(config, TITLE) | {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "use_sliding_window": False,
    }
    return check_round_trip(config, to_config, values, TITLE)


FORMAT = Format(TITLE, to_config, from_config, TABLE, llama.IGNORED, base="model.")
