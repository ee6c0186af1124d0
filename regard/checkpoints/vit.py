"""ViT: a pre-norm encoder of image patches with a class token, learned positions and a classifier.

preprocessor_config.json says how a picture becomes an image; `read_preprocessing` keeps it as metadata.
"""

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
from regard.checkpoints.naming import QUERY_KEY_VALUE, Format, Reshape, Row
from regard.checkpoints.untrusted_files import FolderFiles
from regard.errors import CheckpointError
from regard.model.config import ModelConfig, Patches

TITLE = "ViT"
ARCHITECTURES = {"ViTForImageClassification": "classes"}
PREPROCESSING = "preprocessor_config.json"
RESAMPLINGS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # the numbers of the library Pillow


def _split_kernel(whole: Any, config: ModelConfig) -> list[Any]:
    patches = config.patches
    if patches is None:
        raise CheckpointError(f"{TITLE} reads images; set patches")
    return [whole.reshape(whole.shape[0], patches.channels, patches.side, patches.side)]


KERNEL = Reshape(lambda parts: parts[0].reshape(parts[0].shape[0], -1), _split_kernel)  # of a convolution
FIRST = Reshape(lambda parts: parts[0][0], lambda whole, config: [whole[None]])
FIRST_OF_FIRST = Reshape(lambda parts: parts[0][0, 0], lambda whole, config: [whole[None, None]])

OURS, THEIRS = "encoder.blocks.{layer}.", "vit.encoder.layer.{layer}."
PROJECTIONS = tuple(THEIRS + f"attention.attention.{x}.{{part}}" for x in ("query", "key", "value"))
TABLE = (
    Row("source.patches.projection.weight", "vit.embeddings.patch_embeddings.projection.weight", KERNEL),
    Row("source.patches.projection.bias", "vit.embeddings.patch_embeddings.projection.bias"),
    Row("source.patches.class_token", "vit.embeddings.cls_token", FIRST_OF_FIRST),
    Row("source.positions.weight", "vit.embeddings.position_embeddings", FIRST),
    Row(OURS + "around_attention.norm.{part}", THEIRS + "layernorm_before.{part}"),
    Row(OURS + "attention.projections.{part}", PROJECTIONS, QUERY_KEY_VALUE),
    Row(OURS + "attention.output.{part}", THEIRS + "attention.output.dense.{part}"),
    Row(OURS + "around_feed_forward.norm.{part}", THEIRS + "layernorm_after.{part}"),
    Row(OURS + "feed_forward.expand.{part}", THEIRS + "intermediate.dense.{part}"),
    Row(OURS + "feed_forward.contract.{part}", THEIRS + "output.dense.{part}"),
    Row("encoder.norm.{part}", "vit.layernorm.{part}"),
    Row("head.classify.{part}", "classifier.{part}"),
)
# Settings of the pooler and of the decoder of pre-training, which a classifier does not have.
HARMLESS = ("encoder_stride", "pooler_act", "pooler_output_size")

# Names of classes, and settings of steps that are not taken.
HARMLESS_PREPROCESSING = (
    "_valid_processor_keys", "crop_size", "data_format", "default_to_square", "device", "disable_grouping",
    "do_convert_rgb", "feature_extractor_type", "image_mean", "image_processor_type", "image_std",
    "input_data_format", "processor_class", "rescale_factor", "return_tensors",
)  # fmt: skip


def to_config(values: Any) -> ModelConfig:
    """Our config for a ViT config.json."""
    return read_config(TITLE, values, _read, HARMLESS)


def _read(theirs: ForeignConfig) -> ModelConfig:
    theirs.require("qkv_bias", True)
    side, patch = theirs.size("image_size", 224), theirs.size("patch_size", 16)
    if side % patch:
        raise theirs.error("image_size", f"must be a multiple of patch_size ({patch})")
    return ModelConfig(
        family="encoder-only",
        output=theirs.architecture(ARCHITECTURES, "ViTForImageClassification"),
        classes=count_classes(theirs),
        pooling="cls",
        patches=Patches(side=patch, channels=theirs.size("num_channels", 3)),
        context=(side // patch) ** 2 + 1,
        width=theirs.size("hidden_size"),
        layers=theirs.size("num_hidden_layers"),
        heads=theirs.size("num_attention_heads"),
        feed_forward_width=theirs.size("intermediate_size"),
        feed_forward=theirs.choice("hidden_act", ACTIVATIONS, "gelu"),
        norm_epsilon=theirs.number("layer_norm_eps", 1e-12),
        residual="pre",
        positions="learned",
        scale_embeddings=False,
        dropout=theirs.number("hidden_dropout_prob", 0.0),
        attention_dropout=theirs.number("attention_probs_dropout_prob", 0.0),
    )


def from_config(config: ModelConfig) -> dict[str, Any]:
    """A ViT config.json for our config; raise a CheckpointError if a setting has no counterpart."""
    patches = config.patches or Patches(side=1)
    values = {
        "model_type": "vit",
        "architectures": [their_name(config.output, ARCHITECTURES, TITLE)],
        "image_size": round((config.context - 1) ** 0.5) * patches.side,
        "patch_size": patches.side,
        "num_channels": patches.channels,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.feed_forward_width,
        "hidden_act": their_name(config.feed_forward, ACTIVATIONS, TITLE),
        "layer_norm_eps": config.norm_epsilon,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
    } | label_tables(config.classes)
    return check_round_trip(config, to_config, values, TITLE)


def read_preprocessing(files: FolderFiles, values: dict[str, Any]) -> dict[str, Any]:
    """How a picture becomes the model's image, as metadata of a model folder; ViT's usual way if unsaid."""
    theirs = ForeignConfig(PREPROCESSING, files.json(PREPROCESSING) if PREPROCESSING in files else {})
    theirs.require("do_center_crop", False)
    theirs.require("do_resize", True)
    number = theirs.values["resample"] if theirs.has("resample") else 2
    if type(number) is not int or number not in RESAMPLINGS:
        raise theirs.error("resample", f"is not supported; it must be one of {list(RESAMPLINGS)}")
    rescale = theirs.flag("do_rescale", True)
    image: dict[str, Any] = {
        "side": _side(theirs, ForeignConfig(TITLE, values).size("image_size", 224)),
        "resampling": RESAMPLINGS[number],
        "scale": theirs.number("rescale_factor", 1 / 255) if rescale else 1.0,
    }
    if theirs.flag("do_normalize", True):
        image |= {
            name: theirs.values[f"image_{name}"] if theirs.has(f"image_{name}") else [0.5] * 3
            for name in ("mean", "std")
        }
    theirs.check_unread(HARMLESS_PREPROCESSING)
    return {"image": image}


def _side(theirs: ForeignConfig, expected: int) -> int:
    square = {"height": expected, "width": expected}
    if theirs.has("size") and theirs.values["size"] not in (expected, square):
        raise theirs.error("size", f"must be {expected} x {expected}, the image_size of the model")
    return expected


FORMAT = Format(TITLE, to_config, from_config, TABLE, base="vit.")
