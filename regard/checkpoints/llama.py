"""Llama: a decoder with RMS pre-norm, rotary positions, a gated feed-forward and grouped-query attention."""

from __future__ import annotations

from typing import Any

from regard.checkpoints.foreign import (
    GATED_ACTIVATIONS,
    ForeignConfig,
    check_round_trip,
    read_config,
    their_name,
)
from regard.checkpoints.naming import GATE_AND_INNER, QUERY_KEY_VALUE, Format, Row
from regard.model.config import ModelConfig, RotaryScaling

TITLE = "Llama"
ARCHITECTURES = {"LlamaForCausalLM": "words", "LlamaModel": "words"}
# Dynamic scaling begins beyond max_position_embeddings, which is the context here.
SCALINGS = {"default": None, "dynamic": None, "linear": "linear", "llama3": "llama3"}

ROTARY = ("rope_type", "type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor",
          "original_max_position_embeddings")  # fmt: skip

OURS, THEIRS = "decoder.blocks.{layer}.", "model.layers.{layer}."
PROJECTIONS = tuple(THEIRS + f"self_attn.{x}_proj.{{part}}" for x in "qkv")
EXPANSIONS = (THEIRS + "mlp.gate_proj.{part}", THEIRS + "mlp.up_proj.{part}")
TABLE = (
    Row("target.weight", "model.embed_tokens.weight"),
    Row(OURS + "around_attention.norm.{part}", THEIRS + "input_layernorm.{part}"),
    Row(OURS + "attention.projections.{part}", PROJECTIONS, QUERY_KEY_VALUE),
    Row(OURS + "attention.output.{part}", THEIRS + "self_attn.o_proj.{part}"),
    Row(OURS + "around_feed_forward.norm.{part}", THEIRS + "post_attention_layernorm.{part}"),
    Row(OURS + "feed_forward.expand.{part}", EXPANSIONS, GATE_AND_INNER),
    Row(OURS + "feed_forward.contract.{part}", THEIRS + "mlp.down_proj.{part}"),
    Row("decoder.norm.{part}", "model.norm.{part}"),
    Row("head.weight", "lm_head.weight"),
)
# Rotary frequencies in older files; they are computed from the config.
# The parts of a matrix product, and a mark of converters.
HARMLESS = ("pretraining_tp", "is_llama_config")
IGNORED = ("model.layers.*.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq")


def to_config(values: Any) -> ModelConfig:
    """Our config for a Llama config.json."""
    return read_config(TITLE, values, _read, HARMLESS)


def _read(theirs: ForeignConfig) -> ModelConfig:
    theirs.architecture(ARCHITECTURES, "LlamaForCausalLM")
    biases = dict(
        attention_bias=theirs.flag("attention_bias", False), feed_forward_bias=theirs.flag("mlp_bias", False)
    )
    return read_decoder(theirs).changed(**biases)


def read_decoder(theirs: ForeignConfig) -> ModelConfig:
    """Read the values that Llama and its relatives share; without biases."""
    theirs.require("rope_interleaved", False)
    rotary = theirs.part("rope_parameters" if theirs.has("rope_parameters") else "rope_scaling", ROTARY)
    context = theirs.size("max_position_embeddings")
    return ModelConfig(
        family="decoder-only",
        vocabulary=theirs.size("vocab_size"),
        context=context,
        width=theirs.size("hidden_size"),
        layers=theirs.size("num_hidden_layers"),
        heads=theirs.size("num_attention_heads"),
        key_value_heads=theirs.size("num_key_value_heads", theirs.size("num_attention_heads")),
        key_width=theirs.size("head_dim") if theirs.has("head_dim") else None,
        feed_forward_width=theirs.size("intermediate_size"),
        feed_forward=theirs.choice("hidden_act", GATED_ACTIVATIONS, "silu"),
        norm="rms",
        norm_epsilon=theirs.number("rms_norm_eps", 1e-6),
        residual="pre",
        positions="rotary",
        rotary_theta=rotary.number("rope_theta", theirs.number("rope_theta", 10_000.0)),
        rotary_scaling=_scaling(rotary, context),
        attention_bias=False,
        feed_forward_bias=False,
        scale_embeddings=False,
        tie_head=theirs.flag("tie_word_embeddings", False),
        attention_dropout=theirs.number("attention_dropout", 0.0),
    )


def _scaling(rotary: ForeignConfig, context: int) -> RotaryScaling | None:
    kind = rotary.choice("rope_type" if rotary.has("rope_type") else "type", SCALINGS, "default")
    if kind is None:
        if rotary.size("original_max_position_embeddings", context) != context:
            raise rotary.error("original_max_position_embeddings", f"is not supported; it must be {context}")
        return None
    if kind == "linear":
        return RotaryScaling(kind=kind, factor=rotary.number("factor"))
    return RotaryScaling(
        kind=kind,
        factor=rotary.number("factor"),
        low=rotary.number("low_freq_factor"),
        high=rotary.number("high_freq_factor"),
        original_context=rotary.size("original_max_position_embeddings", context),
    )


def from_config(config: ModelConfig) -> dict[str, Any]:
    """A Llama config.json for our config; raise a CheckpointError if a setting has no counterpart."""
    values = write_decoder(config, TITLE) | {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": config.attention_bias,
        "mlp_bias": config.feed_forward_bias,
    }
    return check_round_trip(config, to_config, values, TITLE)


def write_decoder(config: ModelConfig, title: str) -> dict[str, Any]:
    """The values that Llama and its relatives share."""
    return {
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.groups,
        "head_dim": config.key_size,
        "intermediate_size": config.feed_forward_width,
        "hidden_act": their_name(config.feed_forward, GATED_ACTIVATIONS, title),
        "rms_norm_eps": config.norm_epsilon,
        "rope_theta": config.rotary_theta,
        "rope_scaling": config.rotary_scaling and _rope_scaling(config.rotary_scaling),
        "tie_word_embeddings": config.tie_head,
        "attention_dropout": config.attention_dropout,
    }


def _rope_scaling(scaling: RotaryScaling) -> dict[str, Any]:
    """The rope_scaling table in the form that all versions of transformers read."""
    values = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind == "linear":
        return values
    return values | {
        "low_freq_factor": scaling.low,
        "high_freq_factor": scaling.high,
        "original_max_position_embeddings": scaling.original_context,
    }


FORMAT = Format(TITLE, to_config, from_config, TABLE, IGNORED, base="model.")
