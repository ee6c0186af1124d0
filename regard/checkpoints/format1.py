"""Files of format 1, read as format 2: config.json, training.json, recipe.toml and metrics.jsonl.

Format 2 has other names of settings, tasks and poolings, one table of a recipe for each concern, and counts
the tokens of a micro-batch, not of a whole step. Loads no torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from regard.errors import CheckpointError

FORMAT = 2

_TASKS = {"writing": "language-modeling", "masked": "masked-language-modeling"}
_POOLINGS = {"first": "cls", "tanh": "bert"}
_MODEL = ("size", "layers", "width", "heads", "feed_forward_width", "context", "dropout")

# Each setting of [training] with its table and its name now; the others stay in [training].
_TRAINING = {
    "accumulate": "training.gradient_accumulation",
    "workers": "training.replicas",
    "clip": "training.max_grad_norm",
    "smoothing": "training.label_smoothing",
    "agree": "training.r_drop",
    "optimizer": "optimizer.name",
    "rate": "optimizer.learning_rate",
    "betas": "optimizer.betas",
    "epsilon": "optimizer.epsilon",
    "weight_decay": "optimizer.weight_decay",
    "embedding_decay": "optimizer.embedding_decay",
    "momentum": "optimizer.momentum",
    "matrix_rate": "optimizer.muon_lr_scale",
    "body_rate": "optimizer.backbone_lr_scale",
    "head_rate": "optimizer.head_lr_scale",
    "schedule": "schedule.name",
    "warmup": "schedule.warmup_steps",
    "final_rate": "schedule.min_lr_ratio",
    "average": "averaging.name",
    "average_decay": "averaging.ema_decay",
    "average_last": "averaging.last",
    "average_every": "averaging.every",
    "hide": "augment.word_dropout",
    "respell": "augment.bpe_dropout",
    "respell_epochs": "augment.bpe_dropout_epochs",
    "both_ways": "augment.bidirectional_epochs",
    "save_every": "checkpoints.save_every",
    "keep_last": "checkpoints.keep_checkpoints",
    "keep_weights_every": "checkpoints.snapshot_every",
    "validate_every": "validation.validate_every",
    "patience": "validation.early_stopping_patience",
}
_DATA = {"held_out": "validation_split", "most_held_out": "max_validation_examples"}
_VALIDATION = {"best": "monitor", "backwards": "channel_weight"}
_METRICS = {"rate": "learning_rate", "watched": "monitored"}


def check_format(file: object, number: Any) -> None:
    """Refuse a file without a format number, or of a newer format."""
    if type(number) is not int or number < 1:
        raise CheckpointError(f"{file} has no format number; it was not written by regard")
    if number > FORMAT:
        raise CheckpointError(
            f"{file} has format {number}, and this version reads up to {FORMAT}; update regard"
        )


def read_event(event: dict[str, Any]) -> dict[str, Any]:
    """A line of metrics.jsonl as format 2 has it."""
    return {_METRICS.get(name, name): value for name, value in event.items()}


def read_config(file: object, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a config.json as format 2 has them."""
    check_format(file, values.get("format"))
    if values["format"] > 1:
        return values
    purpose, model = values.get("purpose", ""), values.get("model")
    task = _TASKS.get(purpose, purpose) if isinstance(purpose, str) else purpose
    return {**values, "task": task, "model": _model(model) if isinstance(model, dict) else model}


def read_training(file: object, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a training.json as format 2 has them."""
    check_format(file, values.get("format"))
    if values["format"] > 1:
        return values
    upgraded = dict(values)
    if isinstance(settings := values.get("settings"), dict):
        tables = _tables(settings)
        upgraded["settings"] = {**tables.pop("training", {}), **tables}
    if isinstance(source := values.get("source"), dict):
        upgraded["source"] = {**source, "data": _identity(source.get("data"))}
    if isinstance(run := values.get("run"), dict) and isinstance(run.get("recipe"), dict):
        upgraded["run"] = {**run, "recipe": read_recipe(file, run["recipe"])}
    return upgraded


def read_recipe(file: object, values: dict[str, Any]) -> dict[str, Any]:
    """The tables of a run's recipe.toml as format 2 has them; in format 1 it has no format number."""
    if "format" in values:
        check_format(file, values["format"])
        return values
    objective, model = values.get("objective"), _table(values, "model")
    training = _table(values, "training")
    if "from" in model:
        model["init_from"] = model.pop("from")
    sized = {key: value for key, value in model.items() if key in (*_MODEL, "init_from")}
    tables = _tables(training)
    accumulated = training.get("accumulate", 1)
    tokens = training.get("tokens", 4096)
    tables.setdefault("training", {})["batch_tokens"] = _divided(tokens, accumulated)
    tables["training"].pop("tokens", None)
    validation = {_VALIDATION.get(key, key): value for key, value in _table(values, "validation").items()}
    return {
        "format": FORMAT,
        "task": _TASKS.get(str(objective), objective),
        "data": {_DATA.get(key, key): value for key, value in _table(values, "data").items()},
        # Early versions wrote a [tokenizer] beside the model that a run starts from.
        "tokenizer": {} if "init_from" in sized else _table(values, "tokenizer"),
        "model": sized,
        "architecture": _model({key: value for key, value in model.items() if key not in sized}),
        **tables,
        "validation": {**tables.get("validation", {}), **validation},
    }


def _table(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = values.get(name, {})
    return dict(table) if isinstance(table, dict) else {}


def _tables(training: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of [training] by their tables now."""
    tables: dict[str, dict[str, Any]] = {}
    for key, value in training.items():
        table, _, name = _TRAINING.get(key, f"training.{key}").partition(".")
        tables.setdefault(table, {})[name] = "all" if (key, value) == ("both_ways", "always") else value
    return tables


def _model(config: dict[str, Any]) -> dict[str, Any]:
    """Settings of ModelConfig with the pooling's name now."""
    pooling = config.get("pooling")
    return {**config, "pooling": _POOLINGS.get(pooling, pooling)} if isinstance(pooling, str) else config


def _divided(tokens: Any, accumulated: Any) -> Any:
    """The tokens of a micro-batch; a fraction where accumulation does not divide the tokens of a step."""
    if type(tokens) is not int or type(accumulated) is not int or accumulated < 1:
        return tokens
    return tokens // accumulated if tokens % accumulated == 0 else tokens / accumulated


def _identity(data: Any) -> Any:
    """The identity of a data set with the names of augmentations now."""
    if not isinstance(data, str):
        return data
    data = data.replace(" respelled ", " bpe_dropout ").replace(" both ways always", " bidirectional all")
    return re.sub(r" both ways (\d+)", r" bidirectional \1", data)
