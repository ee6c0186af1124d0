"""DistilBERT: BERT without segments and without a pooler; its classifier has a ReLU in place of the tanh."""

from __future__ import annotations

from typing import Any

from regard.checkpoints.bert import count_classes
from regard.checkpoints.foreign import (
    ACTIVATIONS,
    ForeignConfig,
    check_round_trip,
    label_tables,
    read_config,
    their_name,
)
from regard.checkpoints.naming import QUERY_KEY_VALUE, Format, Row
from regard.model.config import ModelConfig

TITLE = "DistilBERT"
ARCHITECTURES = {
    "DistilBertForMaskedLM": "masked",
    "DistilBertForSequenceClassification": "classes",
    "DistilBertModel": "vectors",
}
OURS, THEIRS = "encoder.blocks.{layer}.", "distilbert.transformer.layer.{layer}."
PROJECTIONS = tuple(THEIRS + f"attention.{x}_lin.{{part}}" for x in "qkv")
TABLE = (
    Row("source.weight", "distilbert.embeddings.word_embeddings.weight"),
    Row("source.positions.weight", "distilbert.embeddings.position_embeddings.weight"),
    Row("source.norm.{part}", "distilbert.embeddings.LayerNorm.{part}"),
    Row(OURS + "attention.projections.{part}", PROJECTIONS, QUERY_KEY_VALUE),
    Row(OURS + "attention.output.{part}", THEIRS + "attention.out_lin.{part}"),
    Row(OURS + "around_attention.norm.{part}", THEIRS + "sa_layer_norm.{part}"),
    Row(OURS + "feed_forward.expand.{part}", THEIRS + "ffn.lin1.{part}"),
    Row(OURS + "feed_forward.contract.{part}", THEIRS + "ffn.lin2.{part}"),
    Row(OURS + "around_feed_forward.norm.{part}", THEIRS + "output_layer_norm.{part}"),
    Row("head.transform.{part}", "vocab_transform.{part}"),
    Row("head.norm.{part}", "vocab_layer_norm.{part}"),
    Row("head.words.{part}", "vocab_projector.{part}"),
    Row("head.pooling.dense.{part}", "pre_classifier.{part}"),
    Row("head.classify.{part}", "classifier.{part}"),
)
# Position ids, and heads of pre-training that the chosen output does not use.
IGNORED = ("distilbert.embeddings.position_ids", "vocab_*")
# Dropout of heads; how positions were initialised; ties, which tie_word_embeddings determines.
HARMLESS = ("qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_")


def to_config(values: Any) -> ModelConfig:
    """Our config for a DistilBERT config.json; the first architecture determines the output."""
    return read_config(TITLE, values, _read, HARMLESS)


def _read(theirs: ForeignConfig) -> ModelConfig:
    output = theirs.architecture(ARCHITECTURES, "DistilBertModel")
    return ModelConfig(
        family="encoder-only",
        output=output,
        classes=count_classes(theirs) if output == "classes" else 0,
        pooling="distilbert",
        vocabulary=theirs.size("vocab_size"),
        context=theirs.size("max_position_embeddings"),
        width=theirs.size("dim"),
        layers=theirs.size("n_layers"),
        heads=theirs.size("n_heads"),
        feed_forward_width=theirs.size("hidden_dim"),
        feed_forward=theirs.choice("activation", ACTIVATIONS, "gelu"),
        norm_epsilon=1e-12,
        positions="learned",
        scale_embeddings=False,
        embedding_norm=True,
        head_bias=output == "masked",
        tie_head=theirs.flag("tie_word_embeddings", True),
        dropout=theirs.number("dropout", 0.1),
        attention_dropout=theirs.number("attention_dropout", 0.1),
    )


def from_config(config: ModelConfig) -> dict[str, Any]:
    """A DistilBERT config.json for our config; raise a CheckpointError if a setting has no counterpart."""
    values: dict[str, Any] = {
        "model_type": "distilbert",
        "architectures": [their_name(config.output, ARCHITECTURES, TITLE)],
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context,
        "dim": config.width,
        "n_layers": config.layers,
        "n_heads": config.heads,
        "hidden_dim": config.feed_forward_width,
        "activation": their_name(config.feed_forward, ACTIVATIONS, TITLE),
        "tie_word_embeddings": config.tie_head,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
    } | label_tables(config.classes)
    return check_round_trip(config, to_config, values, TITLE)


FORMAT = Format(TITLE, to_config, from_config, TABLE, IGNORED, base="distilbert.")
