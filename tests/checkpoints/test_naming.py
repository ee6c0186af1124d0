"""Tables of names: both directions, every name accounted for, numpy and torch alike."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from regard.checkpoints.formats import FORMATS
from regard.checkpoints.naming import Format, Row
from regard.errors import CheckpointError, SettingError
from regard.model.config import ModelConfig
from regard.model.transformer import build_model

SMALL: dict[str, Any] = dict(vocabulary=11, context=7, width=8, layers=1, heads=2, feed_forward_width=12)
LLAMA = ModelConfig(
    **SMALL, family="decoder-only", key_value_heads=1, feed_forward="swiglu", norm="rms", residual="pre",
    positions="rotary", attention_bias=False, feed_forward_bias=False, scale_embeddings=False,
)  # fmt: skip
MARIAN = ModelConfig(**SMALL, positions="sinusoidal-halves", head_bias=True, decoder_layers=2)
BERT = ModelConfig.named("bert-base", **SMALL)
GPT2 = ModelConfig.named("gpt-2", **SMALL)
EVERY = {"llama": LLAMA, "marian": MARIAN, "bert": BERT, "gpt2": GPT2}
QUERY = "model.layers.0.self_attn.q_proj.weight"


def written(name: str, repeat_tied: bool = False) -> dict[str, Any]:
    """Random weights of a small model by their names, as numpy arrays."""
    torch.manual_seed(0)
    ours = {key: weight.numpy() for key, weight in build_model(EVERY[name]).state_dict().items()}
    return FORMATS.find(name).theirs(ours, EVERY[name], repeat_tied)


@pytest.mark.parametrize("name", EVERY)
def test_numpy_and_torch_are_carried_alike(name: str) -> None:
    form, arrays = FORMATS.find(name), written(name, repeat_tied=True)
    tensors = {key: torch.from_numpy(np.ascontiguousarray(weight)) for key, weight in arrays.items()}
    from_numpy, from_torch = form.ours(arrays, EVERY[name]), form.ours(tensors, EVERY[name])
    assert from_numpy.keys() == from_torch.keys() == build_model(EVERY[name]).state_dict().keys()
    assert all(isinstance(weight, np.ndarray) for weight in from_numpy.values())
    assert all(np.array_equal(weight, from_torch[key].numpy()) for key, weight in from_numpy.items())


def test_query_key_and_value_are_stacked_in_that_order() -> None:
    weights = written("llama")
    whole = FORMATS["llama"].ours(weights, LLAMA)["decoder.blocks.0.attention.projections.weight"]
    parts = [weights[QUERY.replace("q_proj", f"{x}_proj")] for x in "qkv"]
    assert [len(part) for part in parts] == [8, 4, 4]
    assert np.array_equal(whole, np.vstack(parts))


def test_a_missing_weight_is_named() -> None:
    weights = written("llama")
    del weights[QUERY]
    with pytest.raises(CheckpointError, match=rf"Llama config; missing: {QUERY}$"):
        FORMATS["llama"].ours(weights, LLAMA)


def test_an_extra_weight_is_named() -> None:
    weights = written("gpt2") | {"transformer.h.1.ln_1.weight": np.ones(8)}
    with pytest.raises(CheckpointError, match=r"extra: transformer\.h\.1\.ln_1\.weight$"):
        FORMATS["gpt2"].ours(weights, GPT2)


def test_a_wrong_shape_is_named_even_where_the_stack_would_fit() -> None:
    weights = written("llama")
    key = QUERY.replace("q_proj", "k_proj")
    weights[QUERY], weights[key] = weights[key], weights[QUERY]  # the sum of their rows stays the same
    with pytest.raises(
        CheckpointError, match=rf"{QUERY} is 4 x 8, not 8 x 8, .*k_proj.weight is 8 x 8, not 4 x 8$"
    ):
        FORMATS["llama"].ours(weights, LLAMA)


def test_many_complaints_stay_one_line() -> None:
    with pytest.raises(CheckpointError) as caught:
        FORMATS["bert"].ours({"strange": np.ones(3)}, BERT)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 500
    assert "and 21 more; extra: strange" in line


def test_our_own_side_is_checked_too() -> None:
    ours = build_model(GPT2).state_dict()
    ours["decoder.norm.weight"] = ours["decoder.norm.weight"][1:]
    ours["spare"] = ours.pop("decoder.norm.bias")
    expected = r"missing: decoder\.norm\.bias; wrong: decoder\.norm\.weight is 7, not 8; extra: spare$"
    with pytest.raises(CheckpointError, match=expected):
        FORMATS["gpt2"].theirs(ours, GPT2)


def test_tied_weights_that_differ_are_refused() -> None:
    weights = written("marian", repeat_tied=True)
    weights["lm_head.weight"] = weights["lm_head.weight"] + 1
    with pytest.raises(CheckpointError, match=r"lm_head\.weight differs from model\.shared\.weight"):
        FORMATS["marian"].ours(weights, MARIAN)


EMBEDDINGS = [
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
]


@pytest.mark.parametrize("kept", EMBEDDINGS)
def test_any_name_of_a_tied_weight_is_enough(kept: str) -> None:
    weights = written("marian", repeat_tied=True)
    for name in EMBEDDINGS:
        if name != kept:
            del weights[name]
    ours = FORMATS["marian"].ours(weights, MARIAN)
    assert ours["source.weight"] is ours["target.weight"] is ours["head.weight"] is weights[kept]


def test_an_untied_head_is_not_made_up() -> None:
    with pytest.raises(CheckpointError, match=r"missing: lm_head\.weight$"):
        FORMATS["llama"].ours(written("llama"), LLAMA.changed(tie_head=False))


def test_a_bias_that_they_lack_is_zero_and_one_that_we_lack_is_not_written() -> None:
    weights = written("marian")
    assert weights.pop("final_logits_bias").shape == (1, 11)
    assert not FORMATS["marian"].ours(weights, MARIAN)["head.bias"].any()
    plain = MARIAN.changed(head_bias=False)
    assert "final_logits_bias" not in FORMATS["marian"].theirs(build_model(plain).state_dict(), plain)


@pytest.mark.parametrize(
    ("name", "ignored"),
    [
        ("gpt2", "transformer.h.0.attn.bias"),
        ("gpt2", "h.0.attn.masked_bias"),
        ("bert", "bert.embeddings.position_ids"),
        ("bert", "bert.pooler.dense.weight"),
        ("bert", "cls.seq_relationship.bias"),
        ("marian", "model.encoder.embed_positions.weight"),
        ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq"),
    ],
)
def test_what_a_format_lists_is_ignored(name: str, ignored: str) -> None:
    FORMATS.find(name).ours(written(name) | {ignored: np.ones((1, 3))}, EVERY[name])


def test_older_spellings_are_understood() -> None:
    bert, gpt2 = written("bert"), written("gpt2")
    for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        bert = {name.replace(new, old): weight for name, weight in bert.items()}
    bare = {name.removeprefix("transformer."): weight for name, weight in gpt2.items()}
    assert "wte.weight" in bare
    for name, weights in (("bert", bert), ("gpt2", bare)):
        expected = FORMATS.find(name).ours(written(name), EVERY[name])
        found = FORMATS.find(name).ours(weights, EVERY[name])
        assert all(np.array_equal(found[key], expected[key]) for key in expected)


def test_two_spellings_of_one_weight_are_refused() -> None:
    weights = written("gpt2")
    weights["wte.weight"] = weights["transformer.wte.weight"]
    with pytest.raises(CheckpointError, match=r"transformer\.wte\.weight occurs twice"):
        FORMATS["gpt2"].ours(weights, GPT2)


def test_a_weight_without_a_row_has_no_place() -> None:
    form = Format("Half", lambda values: GPT2, lambda config: {}, (Row("target.weight", "embedding"),))
    with pytest.raises(CheckpointError, match=r"target\.positions\.weight has no counterpart in Half"):
        form.theirs(build_model(GPT2).state_dict(), GPT2)


def test_an_unknown_model_type_shows_the_known_ones() -> None:
    with pytest.raises(SettingError, match=r"unknown model_type 'lama'; did you mean llama\?"):
        FORMATS.find("lama")


def test_no_torch_is_loaded_to_read_a_config() -> None:
    code = "import sys, regard.checkpoints.formats; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=300).returncode == 0
