"""BERT: a post-norm encoder with learned positions, segments and one of several heads."""

from __future__ import annotations

from typing import Any

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

TITLE = "BERT"
ARCHITECTURES = {
    "BertForMaskedLM": "masked",
    "BertForPreTraining": "masked",
    "BertForSequenceClassification": "classes",
    "BertModel": "pooled",
}

OURS, THEIRS = "encoder.blocks.{layer}.", "bert.encoder.layer.{layer}."
PROJECTIONS = tuple(THEIRS + f"attention.self.{x}.{{part}}" for x in ("query", "key", "value"))
TABLE = (
    Row("source.weight", "bert.embeddings.word_embeddings.weight"),
    Row("source.positions.weight", "bert.embeddings.position_embeddings.weight"),
    Row("source.segments", "bert.embeddings.token_type_embeddings.weight"),
    Row("source.norm.{part}", "bert.embeddings.LayerNorm.{part}"),
    Row(OURS + "attention.projections.{part}", PROJECTIONS, QUERY_KEY_VALUE),
    Row(OURS + "attention.output.{part}", THEIRS + "attention.output.dense.{part}"),
    Row(OURS + "around_attention.norm.{part}", THEIRS + "attention.output.LayerNorm.{part}"),
    Row(OURS + "feed_forward.expand.{part}", THEIRS + "intermediate.dense.{part}"),
    Row(OURS + "feed_forward.contract.{part}", THEIRS + "output.dense.{part}"),
    Row(OURS + "around_feed_forward.norm.{part}", THEIRS + "output.LayerNorm.{part}"),
    Row("head.transform.{part}", "cls.predictions.transform.dense.{part}"),
    Row("head.norm.{part}", "cls.predictions.transform.LayerNorm.{part}"),
    Row("head.words.bias", "cls.predictions.bias", when=lambda config: config.tie_head),
    Row("head.words.{part}", "cls.predictions.decoder.{part}"),
    Row("head.pooling.dense.{part}", "bert.pooler.dense.{part}"),
    Row("head.dense.{part}", "bert.pooler.dense.{part}"),
    Row("head.classify.{part}", "classifier.{part}"),
)
# Position ids, and heads of pre-training that the chosen output does not use.
IGNORED = (
    "bert.embeddings.position_ids",
    "bert.pooler.dense.*",
    "cls.predictions.*",
    "cls.seq_relationship.*",
)
# Dropout of the classifier, and settings that no version of the model reads.
HARMLESS = ("classifier_dropout", "directionality", "pooler_fc_size", "pooler_num_attention_heads",
            "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type")  # fmt: skip
OLDER = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))


def to_config(values: Any) -> ModelConfig:
    """Our config for a BERT config.json; the first architecture determines the output."""
    return read_config(TITLE, values, _read, HARMLESS)


def _read(theirs: ForeignConfig) -> ModelConfig:
    return read_encoder(theirs, theirs.architecture(ARCHITECTURES, "BertModel"))


def read_encoder(theirs: ForeignConfig, output: str) -> ModelConfig:
    """Read the values that BERT and RoBERTa configs share."""
    theirs.require("position_embedding_type", "absolute")
    theirs.require("is_decoder", False)
    return ModelConfig(
        family="encoder-only",
        output=output,
        classes=count_classes(theirs) if output == "classes" else 0,
        pooling="bert",
        vocabulary=theirs.size("vocab_size"),
        context=theirs.size("max_position_embeddings"),
        width=theirs.size("hidden_size"),
        layers=theirs.size("num_hidden_layers"),
        heads=theirs.size("num_attention_heads"),
        feed_forward_width=theirs.size("intermediate_size"),
        feed_forward=theirs.choice("hidden_act", ACTIVATIONS, "gelu"),
        norm_epsilon=theirs.number("layer_norm_eps", 1e-12),
        positions="learned",
        scale_embeddings=False,
        segments=theirs.size("type_vocab_size", 2),
        embedding_norm=True,
        head_bias=output == "masked",
        tie_head=theirs.flag("tie_word_embeddings", True),
        dropout=theirs.number("hidden_dropout_prob", 0.1),
        attention_dropout=theirs.number("attention_probs_dropout_prob", 0.1),
    )


def count_classes(theirs: ForeignConfig) -> int:
    """The number of labels, which transformers derives from their names; one label means a regression."""
    theirs.require("problem_type", "single_label_classification")
    labels = theirs.values.get("id2label")
    count = len(labels) if isinstance(labels, dict) else theirs.size("num_labels", 2)
    if count == 1:
        name = "id2label" if isinstance(labels, dict) else "num_labels"
        raise theirs.error(name, "is not supported: one label means a regression, and regard classifies")
    return count


def from_config(config: ModelConfig) -> dict[str, Any]:
    """A BERT config.json for our config; raise a CheckpointError if a setting has no counterpart."""
    values = write_encoder(config, ARCHITECTURES, TITLE) | {"model_type": "bert"}
    return check_round_trip(config, to_config, values, TITLE)


def write_encoder(config: ModelConfig, architectures: dict[str, str], title: str) -> dict[str, Any]:
    """The values that BERT and RoBERTa configs share."""
    return {
        "architectures": [their_name(config.output, architectures, title)],
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.feed_forward_width,
        "hidden_act": their_name(config.feed_forward, ACTIVATIONS, title),
        "layer_norm_eps": config.norm_epsilon,
        "type_vocab_size": config.segments,
        "tie_word_embeddings": config.tie_head,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
    } | label_tables(config.classes)


FORMAT = Format(TITLE, to_config, from_config, TABLE, IGNORED, base="bert.", older=OLDER)
