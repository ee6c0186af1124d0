"""RoBERTa and XLM-RoBERTa: BERT with other heads, whose positions begin at 2."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from regard.checkpoints import bert
from regard.checkpoints.foreign import ForeignConfig, check_round_trip, read_config
from regard.checkpoints.naming import Format, Reshape, Row, zeros_like_rows
from regard.model.config import ModelConfig

TITLE = "RoBERTa"
PADDING = 1  # the id of padding; its position and the one before it are never used
UNUSED = PADDING + 1
POSITIONS = Reshape(lambda parts: parts[0][UNUSED:], lambda whole, config: [zeros_like_rows(whole, UNUSED)])
ARCHITECTURES = {
    "RobertaForMaskedLM": "masked",
    "RobertaForSequenceClassification": "classes",
    "RobertaModel": "pooled",
}
TABLE = (
    Row("source.positions.weight", "roberta.embeddings.position_embeddings.weight", POSITIONS),
    *(
        replace(row, theirs=tuple(name.replace("bert.", "roberta.", 1) for name in row.names))
        for row in bert.TABLE
        if row.ours != "source.positions.weight" and not row.ours.startswith("head.")
    ),
    Row("head.transform.{part}", "lm_head.dense.{part}"),
    Row("head.norm.{part}", "lm_head.layer_norm.{part}"),
    Row("head.words.bias", "lm_head.bias", when=lambda config: config.tie_head),
    Row("head.words.{part}", "lm_head.decoder.{part}"),
    Row("head.pooling.dense.{part}", "classifier.dense.{part}"),
    Row("head.classify.{part}", "classifier.out_proj.{part}"),
    Row("head.dense.{part}", "roberta.pooler.dense.{part}"),
)
IGNORED = ("roberta.embeddings.position_ids", "roberta.pooler.dense.*", "lm_head.*")
OLDER = bert.OLDER


def to_config(values: Any, prefix: str = "") -> ModelConfig:
    """Our config for a RoBERTa config.json; the first architecture determines the output."""
    return read_config(prefix + TITLE, values, partial(_read, prefix), bert.HARMLESS)


def _read(prefix: str, theirs: ForeignConfig) -> ModelConfig:
    known = {prefix + name: output for name, output in ARCHITECTURES.items()}
    output = theirs.architecture(known, f"{prefix}RobertaModel")
    if theirs.has("pad_token_id") and theirs.values["pad_token_id"] != PADDING:
        raise theirs.error("pad_token_id", f"is not supported; it must be {PADDING}")
    if output == "masked":
        theirs.require("hidden_act", "gelu")  # their head has no other activation
    config = bert.read_encoder(theirs, output)
    if config.context <= UNUSED:
        raise theirs.error("max_position_embeddings", f"must be above {UNUSED}")
    return config.changed(context=config.context - UNUSED)


def from_config(config: ModelConfig, prefix: str = "") -> dict[str, Any]:
    """A RoBERTa config.json for our config; raise a CheckpointError if a setting has no counterpart."""
    known = {prefix + name: output for name, output in ARCHITECTURES.items()}
    values = bert.write_encoder(config.changed(context=config.context + UNUSED), known, prefix + TITLE)
    values |= {"model_type": f"{prefix}roberta".lower().replace("xlm", "xlm-"), "pad_token_id": PADDING}
    return check_round_trip(config, partial(to_config, prefix=prefix), values, prefix + TITLE)


def _format(prefix: str) -> Format:
    read, write = partial(to_config, prefix=prefix), partial(from_config, prefix=prefix)
    return Format(prefix + TITLE, read, write, TABLE, IGNORED, base="roberta.", older=OLDER)


FORMAT, MULTILINGUAL = _format(""), _format("XLM")
