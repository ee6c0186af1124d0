"""GPT-2: a pre-norm decoder with learned positions and transposed matrices."""

from __future__ import annotations

from typing import Any

from regard.checkpoints.foreign import ACTIVATIONS, ForeignConfig, check_round_trip, read_config, their_name
from regard.checkpoints.naming import TRANSPOSED, Format, Row
from regard.model.config import ModelConfig

TITLE = "GPT-2"
ARCHITECTURES = {"GPT2LMHeadModel": "words", "GPT2Model": "words"}

OURS, THEIRS = "decoder.blocks.{layer}.", "transformer.h.{layer}."
TABLE = (
    Row("target.weight", "transformer.wte.weight"),
    Row("target.positions.weight", "transformer.wpe.weight"),
    Row(OURS + "around_attention.norm.{part}", THEIRS + "ln_1.{part}"),
    Row(OURS + "attention.projections.{part}", THEIRS + "attn.c_attn.{part}", TRANSPOSED),
    Row(OURS + "attention.output.{part}", THEIRS + "attn.c_proj.{part}", TRANSPOSED),
    Row(OURS + "around_feed_forward.norm.{part}", THEIRS + "ln_2.{part}"),
    Row(OURS + "feed_forward.expand.{part}", THEIRS + "mlp.c_fc.{part}", TRANSPOSED),
    Row(OURS + "feed_forward.contract.{part}", THEIRS + "mlp.c_proj.{part}", TRANSPOSED),
    Row("decoder.norm.{part}", "transformer.ln_f.{part}"),
    Row("head.weight", "lm_head.weight"),
)
# The causal mask, which older files store in every layer.
IGNORED = ("transformer.h.*.attn.bias", "transformer.h.*.attn.masked_bias")
# Dropout of the embeddings, the head of another class, the same context again, settings of an older model,
# and a way to compute.
HARMLESS = ("embd_pdrop", "n_ctx", "n_special", "predict_special_tokens", "reorder_and_upcast_attn",
            "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
            "summary_use_proj")  # fmt: skip


def to_config(values: Any) -> ModelConfig:
    """Our config for a GPT-2 config.json."""
    return read_config(TITLE, values, _read, HARMLESS)


def _read(theirs: ForeignConfig) -> ModelConfig:
    theirs.require("scale_attn_by_inverse_layer_idx", False)
    theirs.architecture(ARCHITECTURES, "GPT2LMHeadModel")
    return ModelConfig(
        family="decoder-only",
        vocabulary=theirs.size("vocab_size"),
        context=theirs.size("n_positions"),
        width=theirs.size("n_embd"),
        layers=theirs.size("n_layer"),
        heads=theirs.size("n_head"),
        feed_forward_width=theirs.size("n_inner", 4 * theirs.size("n_embd")),
        feed_forward=theirs.choice("activation_function", ACTIVATIONS, "gelu_new"),
        similarity="scaled-dot" if theirs.flag("scale_attn_weights", True) else "dot",
        norm_epsilon=theirs.number("layer_norm_epsilon", 1e-5),
        residual="pre",
        positions="learned",
        scale_embeddings=False,
        tie_head=theirs.flag("tie_word_embeddings", True),
        dropout=theirs.number("resid_pdrop", 0.1),
        attention_dropout=theirs.number("attn_pdrop", 0.1),
    )


def from_config(config: ModelConfig) -> dict[str, Any]:
    """A GPT-2 config.json for our config; raise a CheckpointError if a setting has no counterpart."""
    values = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": config.vocabulary,
        "n_positions": config.context,
        "n_embd": config.width,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.feed_forward_width,
        "activation_function": their_name(config.feed_forward, ACTIVATIONS, TITLE),
        "scale_attn_weights": config.similarity != "dot",
        "layer_norm_epsilon": config.norm_epsilon,
        "tie_word_embeddings": config.tie_head,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
    }
    return check_round_trip(config, to_config, values, TITLE)


FORMAT = Format(TITLE, to_config, from_config, TABLE, IGNORED, base="transformer.")
