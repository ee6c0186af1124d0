"""Pegasus: Marian with pre-norm blocks and a final norm after each stack."""

from __future__ import annotations

from typing import Any

from regard.checkpoints import marian
from regard.checkpoints.foreign import ForeignConfig, check_round_trip, read_config
from regard.checkpoints.naming import Format, Row
from regard.model.config import ModelConfig

TITLE = "Pegasus"
TABLE = (
    *marian.TABLE,
    Row("encoder.norm.{part}", "model.encoder.layer_norm.{part}"),
    Row("decoder.norm.{part}", "model.decoder.layer_norm.{part}"),
)


def to_config(values: Any) -> ModelConfig:
    """Our config for a Pegasus config.json."""
    return read_config(TITLE, values, _read, marian.HARMLESS)


def _read(theirs: ForeignConfig) -> ModelConfig:
    theirs.require("normalize_before", True)
    theirs.require("add_final_layer_norm", True)
    theirs.architecture({"PegasusForConditionalGeneration": "words"}, "PegasusForConditionalGeneration")
    return marian.read_translation(theirs, residual="pre", shared=True)


def from_config(config: ModelConfig) -> dict[str, Any]:
    """A Pegasus config.json (its token ids come from the tokenizer), or a CheckpointError."""
    values = marian.write_translation(config, TITLE) | {
        "model_type": "pegasus",
        "architectures": ["PegasusForConditionalGeneration"],
    }
    # A missing bias is equivalent to a bias of zeros.
    return check_round_trip(config.changed(head_bias=True), to_config, values, TITLE)


FORMAT = Format(TITLE, to_config, from_config, TABLE, marian.IGNORED)
