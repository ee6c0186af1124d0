"""Files of format 1 are read with the names and values of format 2."""

from __future__ import annotations

import pytest

from regard.checkpoints.format1 import FORMAT, read_config, read_event, read_recipe, read_training
from regard.errors import CheckpointError

RECIPE = {
    "objective": "writing",
    "data": {"text": "a", "held_out": 0.1, "most_held_out": 7},
    "tokenizer": {"kind": "bpe"},
    "model": {"width": 8, "residual": "pre", "pooling": "tanh"},
    "training": {"steps": 3, "tokens": 4096, "accumulate": 2, "rate": 0.1, "both_ways": "always"},
    "validation": {"best": "loss", "backwards": 0.5},
}


def test_a_recipe_has_the_names_and_tables_of_format_2():
    assert read_recipe("recipe.toml", RECIPE) == {
        "format": FORMAT,
        "task": "language-modeling",
        "data": {"text": "a", "validation_split": 0.1, "max_validation_examples": 7},
        "tokenizer": {"kind": "bpe"},
        "model": {"width": 8},
        "architecture": {"residual": "pre", "pooling": "bert"},
        "training": {"steps": 3, "batch_tokens": 2048, "gradient_accumulation": 2},
        "optimizer": {"learning_rate": 0.1},
        "augment": {"bidirectional_epochs": "all"},
        "validation": {"monitor": "loss", "channel_weight": 0.5},
    }


@pytest.mark.parametrize(("tokens", "accumulated"), [(4096, 1), (4096, 3), (100, 7), (25000, 48)])
def test_a_step_has_as_many_tokens_as_before(tokens, accumulated):
    training = {"tokens": tokens, "accumulate": accumulated}
    now = read_recipe("recipe.toml", {**RECIPE, "training": training})["training"]
    assert now["gradient_accumulation"] == accumulated
    assert round(now["batch_tokens"] * accumulated) == tokens


def test_a_model_that_training_starts_from_has_its_tokenizer():
    now = read_recipe("recipe.toml", {**RECIPE, "model": {"from": "there", "pooling": "first"}})
    assert (now["model"], now["tokenizer"]) == ({"init_from": "there"}, {})
    assert now["architecture"] == {"pooling": "cls"}


def test_a_config_names_its_task():
    told = {"format": 1, "purpose": "masked", "model": {"pooling": "tanh", "width": 8}}
    now = read_config("config.json", told)
    assert (now["task"], now["model"]) == ("masked-language-modeling", {"pooling": "bert", "width": 8})


def test_training_state_has_nested_settings_and_the_identity_of_today():
    told = {
        "format": 1,
        "settings": {"steps": 3, "clip": None, "warmup": 2, "keep_last": 4, "patience": None},
        "source": {"data": "0ab1 respelled 0.2 until 1 both ways always", "epoch": 1, "tokens": 96},
        "run": {"recipe": RECIPE, "text": {}},
    }
    now = read_training("training.json", told)
    assert now["settings"] == {
        "steps": 3,
        "max_grad_norm": None,
        "schedule": {"warmup_steps": 2},
        "checkpoints": {"keep_checkpoints": 4},
        "validation": {"early_stopping_patience": None},
    }
    assert now["source"]["data"] == "0ab1 bpe_dropout 0.2 until 1 bidirectional all"
    assert now["run"]["recipe"]["task"] == "language-modeling"


@pytest.mark.parametrize("read", [read_config, read_training, read_recipe])
def test_a_newer_format_is_refused_and_the_own_one_unchanged(read):
    told = {"format": FORMAT, "model": {}}
    assert read("file", told) is told
    with pytest.raises(CheckpointError, match="file has format 3, and this version reads up to 2; update"):
        read("file", {"format": FORMAT + 1})


def test_metrics_of_format_1_have_the_names_of_today():
    event = {"event": "step", "step": 3, "rate": 0.1, "watched": "bleu"}
    assert read_event(event) == {"event": "step", "step": 3, "learning_rate": 0.1, "monitored": "bleu"}
