"""ModelConfig: what it refuses, how it says so, and the sizes it knows by name."""

import json
import time

import pytest

from regard.errors import SettingError
from regard.model.config import SIZES, ModelConfig, RotaryScaling


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(heads=7, width=512), r"heads \(7\) must divide width \(512\); try 8"),
        (dict(heads=8, key_value_heads=3), r"key_value_heads \(3\) must divide heads \(8\); try [24]"),
        (dict(width=0), r"width \(0\)"),
        (dict(layers=-1), r"layers \(-1\)"),
        (dict(heads=0), r"heads \(0\)"),
        (dict(vocabulary=1 << 40), r"vocabulary \(1099511627776\)"),
        (dict(dropout=float("nan")), r"dropout \(nan\)"),
        (dict(dropout=1.0), r"dropout \(1.0\)"),
        (dict(width="512"), r"width \('512'\)"),
        (dict(heads=True), r"heads \(True\)"),
        (dict(widht=512), r"unknown setting 'widht'; did you mean width\?"),
        (dict(family="decoder"), r"family"),
        (dict(width=12, heads=4, positions="rotary"), r"key width \(3\) must be even"),
        (dict(width=7, heads=7, positions="sinusoidal-halves"), r"width \(7\) must be even"),
        (dict(output="classes", family="encoder-only"), r"classes \(0\) must be 1 or more"),
        (dict(output="masked"), r"output \(masked\) needs family encoder-only"),
        (dict(target_vocabulary=7), r"need share_embeddings = false"),
        (dict(family="decoder-only", decoder_layers=2), r"need family encoder-decoder"),
        (dict(family="decoder-only", segments=2), r"need an encoder"),
        (dict(vocabulary=0), r"vocabulary is missing"),
    ],
)
def test_an_impossible_setting_is_refused_in_one_line(settings, message):
    with pytest.raises(SettingError, match=message) as caught:
        ModelConfig(**{"vocabulary": 100, **settings})
    assert "\n" not in str(caught.value)


def test_absurd_values_are_refused_at_once():
    started = time.perf_counter()
    for value in (2**40, -1, 1e30, float("inf"), "many", None, [8], {"a": 1}):
        with pytest.raises(SettingError):
            ModelConfig(vocabulary=100, width=value)
    assert time.perf_counter() - started < 1


def test_a_config_survives_json():
    config = ModelConfig.named("llama-3-8b", rotary_scaling=RotaryScaling(kind="llama3", factor=8.0))
    assert ModelConfig.read(json.loads(config.model_dump_json())) == config


def test_a_file_that_holds_something_else_is_refused():
    with pytest.raises(SettingError, match="must be a table of settings, not list"):
        ModelConfig.read([1, 2])


def test_a_changed_copy_is_checked_as_a_whole():
    config = ModelConfig.named("tiny")
    assert config.changed(heads=8).heads == 8
    with pytest.raises(SettingError, match="must divide width"):
        config.changed(heads=7)


def test_the_defaults_are_the_papers_base_model():
    base = ModelConfig.named("base")
    assert (base.layers, base.width, base.feed_forward_width, base.heads) == (6, 512, 2048, 8)
    assert (base.key_size, base.value_size, base.dropout) == (64, 64, 0.1)
    big = ModelConfig.named("big")
    assert (big.layers, big.width, big.feed_forward_width, big.heads, big.dropout) == (6, 1024, 4096, 16, 0.3)


def test_every_known_size_is_a_valid_config():
    assert {"tiny", "small", "base", "big", "gpt-2", "gpt-2-xl", "gpt-3", "bert-base", "bert-large"} <= set(
        SIZES
    )
    for name in SIZES:
        assert ModelConfig.named(name).width


def test_an_unknown_size_names_the_nearest():
    with pytest.raises(SettingError, match=r"unknown size 'gpt2'; did you mean gpt-2\?"):
        ModelConfig.named("gpt2")


def test_rotary_scaling_needs_a_span():
    with pytest.raises(SettingError, match="must be above low"):
        RotaryScaling(kind="llama3", factor=8.0, low=4.0, high=4.0)
