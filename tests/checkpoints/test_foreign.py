"""Configs from strangers: what is absurd or unsupported is refused in one line, at once."""

from __future__ import annotations

import time
from math import prod
from typing import Any

import pytest

from regard.checkpoints.formats import FORMATS
from regard.checkpoints.naming import WeightNames
from regard.errors import CheckpointError, RegardError
from regard.model.config import ModelConfig, RotaryScaling
from regard.model.weight_shapes import weight_shapes
from tests.checkpoints.published_configs import PUBLISHED

TRANSLATION = dict(
    vocab_size=23, max_position_embeddings=17, d_model=12, encoder_layers=2, decoder_layers=2,
    encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=20, decoder_ffn_dim=20,
)  # fmt: skip
HIDDEN = dict(
    vocab_size=23, max_position_embeddings=17, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
    intermediate_size=20,
)  # fmt: skip
HALVES = dict(positions="sinusoidal-halves")
CLASSES = dict(architectures=["BertForSequenceClassification"])
SOUND: dict[str, dict[str, Any]] = {
    "gpt2": dict(vocab_size=23, n_positions=17, n_embd=12, n_layer=2, n_head=3),
    "bert": HIDDEN,
    "marian": TRANSLATION,
    "pegasus": TRANSLATION,
    "llama": HIDDEN,
    "mistral": HIDDEN,
    "qwen2": HIDDEN,
    "qwen3": HIDDEN | dict(head_dim=4),
    "distilbert": dict(
        vocab_size=23, max_position_embeddings=17, dim=12, n_layers=2, n_heads=3, hidden_dim=20
    ),
    "roberta": HIDDEN,
    "xlm-roberta": HIDDEN,
    "vit": dict(
        image_size=8, patch_size=4, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=20,
    ),
}  # fmt: skip


def weight_names(name: str, values: Any) -> list[WeightNames]:
    """The config read, and the model's shape built, since some mistakes show only there."""
    return FORMATS.find(name).weight_names(FORMATS.find(name).to_config(values))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("gpt2", dict(scale_attn_by_inverse_layer_idx=True), r"inverse_layer_idx \(True\) is not"),
        ("gpt2", dict(add_cross_attention=True), r"add_cross_attention \(True\)"),
        ("gpt2", dict(activation_function="gelu_10"), r"\('gelu_10'\) is not supported; did you"),
        ("gpt2", dict(activation_function=["relu"]), r"activation_function \(\['relu'\]\)"),
        ("gpt2", dict(architectures=["GPT2DoubleHeadsModel"]), r"architectures \('GPT2DoubleHeadsModel'\)"),
        ("gpt2", dict(architectures=[{"a": 1}]), r"architectures \(\{'a': 1\}\)"),
        ("gpt2", dict(n_embd="12"), r"n_embd \('12'\) must be an integer"),
        ("gpt2", dict(n_embd=12.0), r"n_embd \(12\.0\)"),
        ("gpt2", dict(n_layer=True), r"n_layer \(True\)"),
        ("gpt2", dict(n_head=0), r"n_head \(0\)"),
        ("gpt2", dict(n_head=5), r"heads \(5\) must divide width \(12\)"),
        ("gpt2", dict(n_layer=1001), r"1,001 layers are not supported; at most 1,000 are"),
        ("pegasus", dict(encoder_layers=501, decoder_layers=500), r"1,001 layers"),
        ("gpt2", dict(vocab_size=-3), r"vocab_size \(-3\)"),
        ("gpt2", dict(vocab_size=2**40), r"vocab_size \(1099511627776\)"),
        ("gpt2", dict(vocab_size=2**39), r"vocabulary \(549755813888\)"),
        ("gpt2", dict(vocab_size=10**5000), r"vocab_size \(a huge int\)"),
        ("gpt2", dict(n_positions=None), r"n_positions is missing"),
        ("gpt2", dict(layer_norm_epsilon=float("nan")), r"layer_norm_epsilon \(nan\)"),
        ("gpt2", dict(layer_norm_epsilon=-1.0), r"norm_epsilon \(-1\.0\)"),
        ("gpt2", dict(layer_norm_epsilon="1e-5"), r"layer_norm_epsilon \('1e-5'\)"),
        ("gpt2", dict(resid_pdrop=1.5), r"dropout \(1\.5\)"),
        ("gpt2", dict(tie_word_embeddings="yes"), r"tie_word_embeddings \('yes'\)"),
        ("bert", dict(position_embedding_type="relative_key"), r"position_embedding_type \('relative_key'\)"),
        ("bert", dict(is_decoder=True), r"is_decoder \(True\)"),
        ("bert", dict(architectures=["BertForQuestionAnswering"]), r"\('BertForQuestionAnswering'\) is not"),
        ("bert", dict(architectures=["BertForSequenceClassification"], id2label={}), r"classes \(0\)"),
        ("bert", dict(type_vocab_size=0), r"type_vocab_size \(0\)"),
        ("marian", dict(decoder_attention_heads=2), r"decoder_attention_heads \(2\) must equal encoder"),
        ("marian", dict(decoder_ffn_dim=21), r"decoder_ffn_dim \(21\) must equal encoder"),
        ("marian", dict(normalize_before=True), r"normalize_before \(True\)"),
        ("marian", dict(static_position_embeddings=False), r"static_position_embeddings \(False\)"),
        ("marian", dict(decoder_vocab_size=31), r"share_embeddings = false"),
        ("marian", dict(d_model=15), r"width \(15\) must be even"),
        ("pegasus", dict(normalize_before=False), r"normalize_before \(False\)"),
        ("pegasus", dict(decoder_layers=10**9), r"decoder_layers \(1000000000\)"),
        ("llama", dict(num_key_value_heads=2), r"key_value_heads \(2\) must divide heads \(3\)"),
        ("llama", dict(head_dim=3), r"key width \(3\) must be even"),
        ("llama", dict(hidden_act="gelu_new"), r"hidden_act \('gelu_new'\)"),
        ("llama", dict(rope_scaling=dict(type="yarn", factor=2.0)), r"type \('yarn'\)"),
        (
            "llama",
            dict(rope_scaling=dict(type="dynamic", factor=2.0, original_max_position_embeddings=8)),
            r"original_max_position_embeddings \(8\)",
        ),
        ("llama", dict(rope_scaling=dict(type="linear")), r"factor is missing"),
        ("llama", dict(rope_scaling=[1]), r"rope_scaling \(\[1\]\) must be a table"),
        ("llama", dict(rope_scaling=dict(type="linear", factor=float("inf"))), r"factor \(inf\)"),
        ("llama", dict(rope_parameters=dict(rope_type="default", rope_theta=0)), r"rotary_theta \(0\.0\)"),
        ("llama", dict(rope_parameters=dict(full_attention={})), r"contains 'full_attention', which is not"),
        ("llama", dict(rope_parameters=dict(partial_rotary_factor=0.5)), r"contains 'partial_rotary_factor'"),
        ("llama", dict(rope_interleaved=True), r"rope_interleaved \(True\)"),
        ("llama", dict(quantization_config=dict(bits=4)), r"quantization_config .* is not a known"),
        ("gpt2", dict(an_option_of_tomorrow=3), r"an_option_of_tomorrow \(3\) is not a known setting"),
        ("mistral", dict(attention_bias=True), r"attention_bias \(True\)"),
        ("mistral", dict(sliding_window=0), r"sliding_window \(0\)"),
        ("qwen2", dict(use_sliding_window=True), r"use_sliding_window \(True\)"),
        ("qwen2", dict(layer_types=["sliding_attention"]), r"layer_types .* full_attention"),
        ("qwen3", dict(rms_norm_eps=1e-5), r"rms_norm_eps \(1e-05\)"),
        ("roberta", dict(pad_token_id=3), r"pad_token_id \(3\)"),
        ("roberta", dict(pad_token_id=0), r"pad_token_id \(0\) is not supported; it must be 1"),
        ("roberta", dict(max_position_embeddings=2), r"max_position_embeddings \(2\) must be above 2"),
        ("roberta", dict(architectures=["RobertaForMaskedLM"], hidden_act="relu"), r"hidden_act \('relu'\)"),
        ("bert", dict(CLASSES, problem_type="regression"), r"problem_type \('regression'\)"),
        ("bert", dict(CLASSES, id2label={"0": "LABEL_0"}), r"id2label .* one label means a regression"),
        ("bert", dict(CLASSES, num_labels=1), r"num_labels \(1\) .* one label means a regression"),
        ("pegasus", dict(do_blenderbot_90_layernorm=True), r"do_blenderbot_90_layernorm \(True\)"),
    ],
)  # fmt: skip
def test_refused(name: str, changes: dict[str, Any], message: str) -> None:
    began = time.perf_counter()
    with pytest.raises(RegardError, match=message) as caught:
        weight_names(name, SOUND[name] | changes)
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize("name", FORMATS)
def test_without_the_changes_it_is_sound(name: str) -> None:
    assert weight_names(name, SOUND[name])


PARAMETERS = {  # as published; RoBERTa without two unused positions, Qwen2 with a bias of zeros per layer
    "gpt2": 124_439_808, "gpt2-medium": 354_823_168, "distilgpt2": 81_912_576,
    "bert-base-uncased": 109_514_298, "bert-base-multilingual-cased": 177_974_523,
    "all-MiniLM-L6-v2": 22_713_216, "distilbert-base-uncased": 66_985_530, "distilbert-sst-2": 66_955_010,
    "roberta-base": 124_697_433 - 2 * 768, "xlm-roberta-base": 278_295_186 - 2 * 768,
    "opus-mt-en-fr": 74_669_178, "pegasus-xsum": 568_796_007, "Llama-2-7b": 6_738_415_616,
    "Meta-Llama-3-8B": 8_030_261_248, "Llama-3.2-1B": 1_235_814_400, "SmolLM2-135M": 134_515_008,
    "Mistral-7B-v0.1": 7_241_732_096, "Qwen2-0.5B": 494_032_768 + 24 * 896,
    "Qwen2.5-0.5B": 494_032_768 + 24 * 896, "Qwen3-0.6B": 596_049_920, "vit-base-patch16-224": 85_800_963,
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_key_of_a_published_config_is_known(name: str) -> None:
    values = PUBLISHED[name]
    config = FORMATS.find(values["model_type"]).to_config(values)
    assert sum(prod(next(iter(names.values()))) for names in weight_shapes(config)) == PARAMETERS[name]


@pytest.mark.parametrize(
    ("changes", "context"),
    [({}, 4096), (dict(sliding_window=None), 9000), (dict(sliding_window=5000), 5000)],
)
def test_the_window_of_mistral_limits_the_context(changes: dict[str, Any], context: int) -> None:
    values = HIDDEN | dict(max_position_embeddings=9000) | changes
    assert FORMATS.find("mistral").to_config(values).context == context


@pytest.mark.parametrize("values", [None, [], "gpt2", 3])
def test_a_config_is_a_table(values: Any) -> None:
    with pytest.raises(CheckpointError, match="must be a table of values, not"):
        FORMATS["gpt2"].to_config(values)


@pytest.mark.parametrize("name", FORMATS)
def test_code_and_addresses_in_a_config_are_never_looked_at(name: str) -> None:
    hostile = {
        "auto_map": {"AutoModel": "evil.Model"},
        "trust_remote_code": True,
        "_name_or_path": "http://x",
    }
    assert FORMATS.find(name).to_config(SOUND[name] | hostile) == FORMATS.find(name).to_config(SOUND[name])


LLAMA3 = dict(
    factor=8.0, low_freq_factor=2.0, high_freq_factor=5.0, original_max_position_embeddings=64
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "theta", "scaling"),
    [
        ({}, 10_000.0, None),
        (dict(rope_theta=500, rope_scaling=None), 500.0, None),
        (dict(rope_parameters=dict(rope_type="default", rope_theta=500.0)), 500.0, None),
        (
            dict(rope_scaling=dict(type="linear", factor=2)),
            10_000.0,
            RotaryScaling(kind="linear", factor=2.0),
        ),
        (
            dict(rope_theta=7.0, rope_scaling=dict(LLAMA3, rope_type="llama3")),
            7.0,
            RotaryScaling(kind="llama3", factor=8.0, low=2.0, high=5.0, original_context=64),
        ),
        (
            dict(rope_parameters=dict(LLAMA3, rope_type="llama3", rope_theta=7.0)),
            7.0,
            RotaryScaling(kind="llama3", factor=8.0, low=2.0, high=5.0, original_context=64),
        ),
    ],
)
def test_rotary_settings_old_and_new(changes: dict, theta: float, scaling: RotaryScaling | None) -> None:
    config = FORMATS["llama"].to_config(HIDDEN | changes)
    assert config.rotary_theta == theta
    assert config.rotary_scaling == scaling


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        (
            "gpt2",
            ModelConfig.named("tiny"),
            r"family \(encoder-decoder\) cannot be written as GPT-2, which has dec",
        ),
        ("gpt2", ModelConfig.named("gpt-2", norm="rms"), r"norm \(rms\)"),
        ("gpt2", ModelConfig.named("gpt-2", value_width=7), r"value_width \(7\)"),
        ("gpt2", ModelConfig.named("gpt-2", feed_forward="swiglu"), r"swiglu has no counterpart in GPT-2"),
        ("gpt2", ModelConfig.named("llama-2-7b"), r"swiglu has no counterpart"),
        ("bert", ModelConfig.named("bert-base", output="vectors"), r"vectors has no counterpart in BERT"),
        ("bert", ModelConfig.named("bert-base", head_bias=False), r"head_bias \(False\)"),
        ("bert", ModelConfig.named("bert-base", segments=0), r"type_vocab_size \(0\)"),
        (
            "marian",
            ModelConfig.named("tiny"),
            r"positions \(sinusoidal\) cannot be written as Marian, which has",
        ),
        ("marian", ModelConfig.named("tiny", **HALVES, tie_head=False), r"share_embeddings \(True\) cannot"),
        ("pegasus", ModelConfig.named("tiny", **HALVES), r"residual \(post\)"),
        ("llama", ModelConfig.named("llama-3-8b", similarity="cosine"), r"similarity \(cosine\)"),
        ("llama", ModelConfig.named("llama-3-8b", dropout=0.1), r"dropout \(0\.1\)"),
    ],
)
def test_what_they_cannot_hold_is_not_written(name: str, config: ModelConfig, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        FORMATS.find(name).from_config(config)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("gpt2", "gpt-2"),
        ("gpt2", "gpt-2-xl"),
        ("gpt2", "gpt-3"),
        ("bert", "bert-base"),
        ("bert", "bert-large"),
        ("llama", "llama-2-7b"),
        ("llama", "llama-3-8b"),
    ],
)
def test_the_famous_sizes_can_be_written(name: str, size: str) -> None:
    config = ModelConfig.named(size)
    assert len(weight_names(name, FORMATS.find(name).from_config(config))) == len(
        FORMATS.find(name).weight_names(config)
    )


def test_a_paper_model_with_half_waves_is_a_marian() -> None:
    config = ModelConfig.named("base", **HALVES)
    values = FORMATS["marian"].from_config(config)
    assert values["encoder_layers"] == values["decoder_layers"] == 6
    assert FORMATS["marian"].to_config(values).head_bias
