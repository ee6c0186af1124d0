"""MarianMT: the paper's encoder-decoder, with all sines of the positions before all cosines."""

from __future__ import annotations

from typing import Any

from regard.checkpoints.foreign import ACTIVATIONS, ForeignConfig, check_round_trip, read_config, their_name
from regard.checkpoints.naming import ONE_ROW, QUERY_KEY_VALUE, Format, Row
from regard.model.config import ModelConfig

TITLE = "Marian"
ARCHITECTURES = {"MarianMTModel": "words"}


def _block(ours: str, theirs: str) -> tuple[Row, ...]:
    """The rows of an encoder block, or of a decoder block without cross-attention."""
    return (
        *_attention(ours + "attention.", theirs + "self_attn."),
        Row(ours + "around_attention.norm.{part}", theirs + "self_attn_layer_norm.{part}"),
        Row(ours + "feed_forward.expand.{part}", theirs + "fc1.{part}"),
        Row(ours + "feed_forward.contract.{part}", theirs + "fc2.{part}"),
        Row(ours + "around_feed_forward.norm.{part}", theirs + "final_layer_norm.{part}"),
    )


def _attention(ours: str, theirs: str) -> tuple[Row, Row]:
    stacked = tuple(theirs + f"{x}_proj.{{part}}" for x in "qkv")
    output = Row(ours + "output.{part}", theirs + "out_proj.{part}")
    return Row(ours + "projections.{part}", stacked, QUERY_KEY_VALUE), output


OURS, THEIRS = "decoder.blocks.{layer}.", "model.decoder.layers.{layer}."
TABLE = (
    Row("source.weight", "model.shared.weight", when=lambda config: config.share_embeddings),
    Row("source.weight", "model.encoder.embed_tokens.weight"),
    Row("target.weight", "model.decoder.embed_tokens.weight"),
    *_block("encoder.blocks.{layer}.", "model.encoder.layers.{layer}."),
    *_block(OURS, THEIRS),
    *_attention(OURS + "cross.", THEIRS + "encoder_attn."),
    Row(OURS + "around_cross.norm.{part}", THEIRS + "encoder_attn_layer_norm.{part}"),
    Row("head.weight", "lm_head.weight"),
    Row("head.bias", "final_logits_bias", ONE_ROW, zero_if_absent=True),
)
# Sinusoids, which are computed, and the shared embedding, which is unused if embeddings are separate.
# Dropout in training, a repeated number of layers, and settings of converters that no model reads.
HARMLESS = ("activation_dropout", "add_bias_logits", "classif_dropout", "classifier_dropout",
            "decoder_layerdrop", "encoder_layerdrop", "extra_pos_embeddings",
            "force_bos_token_to_be_generated", "num_hidden_layers")  # fmt: skip
IGNORED = ("model.*coder.embed_positions.weight", "model.shared.weight")


def to_config(values: Any) -> ModelConfig:
    """Our config for a Marian config.json."""
    return read_config(TITLE, values, _read, HARMLESS)


def _read(theirs: ForeignConfig) -> ModelConfig:
    theirs.require("normalize_before", False)
    theirs.require("add_final_layer_norm", False)
    theirs.architecture(ARCHITECTURES, "MarianMTModel")
    return read_translation(theirs, "post", theirs.flag("share_encoder_decoder_embeddings", True))


def read_translation(theirs: ForeignConfig, residual: str, shared: bool) -> ModelConfig:
    """Read the values that Marian and Pegasus configs share."""
    theirs.require("normalize_embedding", False)
    theirs.require("do_blenderbot_90_layernorm", False)
    theirs.require("static_position_embeddings", True)
    for name in ("attention_heads", "ffn_dim"):
        if theirs.size(f"encoder_{name}") != theirs.size(f"decoder_{name}"):
            raise theirs.error(f"decoder_{name}", f"must equal encoder_{name}")
    tied = theirs.flag("tie_word_embeddings", True)
    return ModelConfig(
        vocabulary=theirs.size("vocab_size"),
        target_vocabulary=theirs.size("decoder_vocab_size", theirs.size("vocab_size")),
        context=theirs.size("max_position_embeddings"),
        width=theirs.size("d_model"),
        layers=theirs.size("encoder_layers"),
        decoder_layers=theirs.size("decoder_layers"),
        heads=theirs.size("encoder_attention_heads"),
        feed_forward_width=theirs.size("encoder_ffn_dim"),
        feed_forward=theirs.choice("activation_function", ACTIVATIONS, "gelu"),
        residual=residual,
        positions="sinusoidal-halves",
        scale_embeddings=theirs.flag("scale_embedding", False),
        share_embeddings=shared and tied,
        tie_head=tied,
        head_bias=True,
        dropout=theirs.number("dropout", 0.1),
        attention_dropout=theirs.number("attention_dropout", 0.0),
    )


def from_config(config: ModelConfig) -> dict[str, Any]:
    """A Marian config.json (its token ids come from the tokenizer), or a CheckpointError."""
    values = write_translation(config, TITLE) | {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "decoder_vocab_size": config.output_vocabulary,
        "share_encoder_decoder_embeddings": config.share_embeddings,
    }
    # A missing bias is equivalent to a bias of zeros.
    return check_round_trip(config.changed(head_bias=True), to_config, values, TITLE)


def write_translation(config: ModelConfig, title: str) -> dict[str, Any]:
    """The values that Marian and Pegasus configs share."""
    return {
        "is_encoder_decoder": True,
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context,
        "d_model": config.width,
        "encoder_layers": config.layers,
        "decoder_layers": config.decoder_layers or config.layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.feed_forward_width,
        "decoder_ffn_dim": config.feed_forward_width,
        "activation_function": their_name(config.feed_forward, ACTIVATIONS, title),
        "scale_embedding": config.scale_embeddings,
        "tie_word_embeddings": config.tie_head,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
    }


FORMAT = Format(TITLE, to_config, from_config, TABLE, IGNORED)
