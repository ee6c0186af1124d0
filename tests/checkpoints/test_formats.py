"""Every format beside the real thing: answers, gradients, and each weight there and back again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from regard.checkpoints.formats import FORMATS
from regard.model.masks import Mask
from regard.model.transformer import build_model

TOLERANCE = 1e-5
LENGTHS = torch.tensor([9, 4, 1])  # real tokens of each row
PAD = 0
PADS = (PAD, 1)  # RoBERTa counts positions by the padding's id, which is 1

GPT2 = dict(vocab_size=23, n_positions=17, n_embd=12, n_layer=2, n_head=3, attn_pdrop=0.0)
BERT = dict(
    vocab_size=23,
    max_position_embeddings=17,
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
)
MARIAN = dict(
    vocab_size=23,
    max_position_embeddings=17,
    d_model=12,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=3,
    decoder_attention_heads=3,
    encoder_ffn_dim=20,
    decoder_ffn_dim=20,
    pad_token_id=PAD,
    decoder_start_token_id=PAD,
)
LLAMA = dict(BERT, hidden_size=24, num_attention_heads=6, num_key_value_heads=2, rms_norm_eps=1e-5)
DISTILBERT = dict(vocab_size=23, max_position_embeddings=17, dim=12, n_layers=2, n_heads=3, hidden_dim=20)
ROBERTA = dict(BERT, max_position_embeddings=19, type_vocab_size=1, pad_token_id=1)
UNTIED = dict(tie_word_embeddings=False)
SEPARATE = dict(share_encoder_decoder_embeddings=False)
LLAMA3 = dict(
    rope_type="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=16,
)


@dataclass(frozen=True)
class Case:
    """A class of theirs, its config's class, and values for that."""

    name: str
    architecture: str
    config: str
    values: dict[str, Any] = field(repr=False)


def cases(architecture: str, config: str, values: dict[str, Any], **variants: dict[str, Any]) -> list[Case]:
    """The plain one and its variants."""
    named = {"plain": {}} | variants
    return [Case(f"{architecture}-{n}", architecture, config, values | v) for n, v in named.items()]


CASES = [
    *cases(
        "GPT2LMHeadModel", "GPT2Config", GPT2,
        untied=UNTIED, odd=dict(n_embd=15, n_inner=7, n_head=5, n_layer=1),
        exact_gelu=dict(activation_function="gelu"), relu=dict(activation_function="relu"),
        unscaled=dict(scale_attn_weights=False, n_layer=3),
    ),
    *cases(
        "BertForMaskedLM", "BertConfig", BERT,
        untied=UNTIED, silu=dict(hidden_act="silu"), tanh=dict(hidden_act="gelu_new", num_hidden_layers=3),
        odd=dict(hidden_size=15, num_attention_heads=5, intermediate_size=7),
        segments=dict(type_vocab_size=3, layer_norm_eps=1e-6),
    ),
    *cases("BertModel", "BertConfig", BERT, relu=dict(hidden_act="relu")),
    *cases("BertForSequenceClassification", "BertConfig", BERT, three=dict(num_labels=3)),
    *cases(
        "MarianMTModel", "MarianConfig", MARIAN,
        scaled=dict(scale_embedding=True, activation_function="swish"), separate=SEPARATE,
        vocabularies=dict(SEPARATE, decoder_vocab_size=31), untied=dict(UNTIED, **SEPARATE),
        uneven=dict(encoder_layers=3, decoder_layers=1, encoder_ffn_dim=7, decoder_ffn_dim=7),
        relu=dict(activation_function="relu"),
    ),
    *cases(
        "PegasusForConditionalGeneration", "PegasusConfig", MARIAN,
        scaled=dict(scale_embedding=True, activation_function="relu"), untied=UNTIED,
        uneven=dict(encoder_layers=1, decoder_layers=3),
        heads=dict(d_model=20, encoder_attention_heads=5, decoder_attention_heads=5),
    ),
    *cases(
        "LlamaForCausalLM", "LlamaConfig", LLAMA,
        tied=dict(tie_word_embeddings=True), biases=dict(attention_bias=True, mlp_bias=True),
        head_width=dict(head_dim=6), one_group=dict(num_key_value_heads=1),
        full=dict(num_key_value_heads=6, hidden_act="gelu"),
        linear=dict(rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=500.0)),
        llama3=dict(rope_parameters=dict(LLAMA3, rope_theta=100.0), max_position_embeddings=64, head_dim=8),
        older=dict(rope_theta=500.0, rope_scaling=dict(type="linear", factor=2.0)),
        dynamic=dict(rope_parameters=dict(rope_type="dynamic", factor=4.0, rope_theta=500.0)),
    ),
    *cases("MistralForCausalLM", "MistralConfig", dict(LLAMA, sliding_window=None)),
    *cases("Qwen2ForCausalLM", "Qwen2Config", LLAMA, tied=dict(tie_word_embeddings=True)),
    *cases("Qwen3ForCausalLM", "Qwen3Config", dict(LLAMA, head_dim=6, rms_norm_eps=1e-6)),
    *cases("DistilBertForMaskedLM", "DistilBertConfig", DISTILBERT, relu=dict(activation="relu")),
    *cases("DistilBertForSequenceClassification", "DistilBertConfig", DISTILBERT),
    *cases("RobertaForMaskedLM", "RobertaConfig", ROBERTA, untied=UNTIED),
    *cases("RobertaForSequenceClassification", "RobertaConfig", ROBERTA, three=dict(num_labels=3)),
    *cases("XLMRobertaForSequenceClassification", "XLMRobertaConfig", ROBERTA),
    *cases("RobertaModel", "RobertaConfig", ROBERTA),
]  # fmt: skip
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def batch(vocabulary: int, left: bool = False, pad: int = PAD) -> tuple[Tensor, Tensor]:
    """Rows of unequal length; a padding's id stands nowhere else: their embeddings drop its gradient."""
    ids = torch.randint(PADS[-1] + 1, vocabulary, (len(LENGTHS), int(LENGTHS.max())))
    exists = torch.arange(ids.shape[1]) < LENGTHS[:, None]
    exists = exists.flip(1) if left else exists
    return ids.masked_fill(~exists, pad), exists


def answers(twins: Any, left: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """What each of them says to the same batch, and where that counts."""
    ids, exists = batch(twins.config.vocabulary, left, getattr(twins.theirs.config, "pad_token_id", 0) or PAD)
    mask, attended = Mask(keys=exists), {"attention_mask": exists.long()}
    if left:
        attended["position_ids"] = mask.positions(ids.shape[1])
    if twins.config.family == "encoder-decoder":
        target, real = (x[:, :6] for x in batch(twins.config.target_vocabulary))
        theirs = twins.theirs(ids, **attended, decoder_input_ids=target, decoder_attention_mask=real.long())
        return theirs.logits, twins.ours(ids, target, mask, Mask(keys=real)), real[..., None]
    if twins.config.family == "decoder-only":
        return twins.theirs(ids, **attended).logits, twins.ours(ids, mask), exists[..., None]
    segments = torch.randint(0, twins.config.segments, ids.shape) if twins.config.segments else None
    typed = {} if segments is None else {"token_type_ids": segments}
    theirs = twins.theirs(ids, **typed, **attended)
    ours = twins.ours(ids, mask, segments)
    answer = theirs.pooler_output if twins.config.output == "pooled" else theirs.logits
    return answer, ours, exists[..., None] if ours.dim() == 3 else torch.ones(())


@every_case
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_answers_and_gradients_are_theirs(case: Case, kernel: str, twins, deviations) -> None:
    pair = twins(case.architecture, case.config, case.values, kernel)
    answer, gradient = deviations(pair, *answers(pair))
    assert answer < TOLERANCE
    assert gradient < TOLERANCE


DOUBLE = [case for case in CASES if "rms_norm_eps" not in case.values]


@pytest.mark.parametrize("case", DOUBLE, ids=lambda case: case.name)
def test_what_is_left_is_rounding(case: Case, twins, deviations) -> None:
    """In double precision nothing is left; their RMSNorm computes in single precision in any case."""
    pair = twins(case.architecture, case.config, case.values)
    for model in (pair.theirs, pair.ours):
        model.double()
    answer, gradient = deviations(pair, *answers(pair))
    assert answer < 1e-12
    assert gradient < 1e-12


@pytest.mark.parametrize(
    ("architecture", "config", "values"),
    [("GPT2LMHeadModel", "GPT2Config", GPT2), ("LlamaForCausalLM", "LlamaConfig", LLAMA)],
)
def test_padding_on_the_left_too(architecture: str, config: str, values: dict, twins, deviations) -> None:
    pair = twins(architecture, config, values)
    answer, gradient = deviations(pair, *answers(pair, left=True))
    assert answer < TOLERANCE
    assert gradient < TOLERANCE


def test_vectors_of_a_bert_without_a_head(twins) -> None:
    pair = twins("BertModel", "BertConfig", BERT)
    config = pair.config.changed(output="vectors")
    ours = build_model(config).eval()
    ours.load_state_dict(pair.format.ours(pair.theirs.state_dict(), config))
    ids, exists = batch(config.vocabulary)
    theirs = pair.theirs(ids, attention_mask=exists.long()).last_hidden_state
    apart = ((theirs - ours(ids, Mask(keys=exists))) * exists[..., None]).abs().max()
    assert apart < TOLERANCE * theirs.abs().max()
    back = pair.format.theirs(ours.state_dict(), config)
    assert set(pair.theirs.state_dict()) - set(back) == {"pooler.dense.weight", "pooler.dense.bias"}


@every_case
def test_weights_come_back_bit_by_bit(case: Case, twins) -> None:
    pair = twins(case.architecture, case.config, case.values)
    theirs = pair.theirs.state_dict()
    back = pair.format.theirs(pair.ours.state_dict(), pair.config, repeat_tied=True)
    unread = set(theirs) - set(back)
    assert unread <= UNREAD
    assert back.keys() == theirs.keys() - unread
    assert all(torch.equal(weight, theirs[name]) for name, weight in back.items())


# Sinusoids, and what transformers holds but never uses where nothing is tied.
UNREAD = {
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
    "model.shared.weight",
    "cls.predictions.bias",
    "lm_head.bias",  # of RoBERTa
}


@every_case
def test_our_weights_survive_the_way_there_and_back(case: Case, twins) -> None:
    pair = twins(case.architecture, case.config, case.values)
    ours = pair.ours.state_dict()
    back = pair.format.ours(pair.format.theirs(ours, pair.config), pair.config)
    assert back.keys() == ours.keys()
    assert all(torch.equal(weight, ours[name]) for name, weight in back.items())


@every_case
def test_tied_weights_are_written_once_and_stay_one(case: Case, twins) -> None:
    pair = twins(case.architecture, case.config, case.values)
    written = pair.format.theirs(pair.ours.state_dict(), pair.config)
    parameters = dict(pair.theirs.named_parameters())
    assert written.keys() - {"final_logits_bias"} <= parameters.keys()
    assert parameters.keys() - written.keys() <= UNREAD
    model = build_model(pair.config)
    model.load_state_dict(pair.format.ours(written, pair.config))
    assert _tied(model) == _tied(pair.ours)
    assert bool(_tied(model)) == bool(pair.config.tie_head and pair.config.output in ("words", "masked"))


def _tied(model: torch.nn.Module) -> list[list[str]]:
    groups: dict[int, list[str]] = {}
    for name, weight in model.state_dict().items():
        groups.setdefault(weight.data_ptr(), []).append(name)
    return sorted(names for names in groups.values() if len(names) > 1)


@every_case
def test_the_files_they_write_are_read(case: Case, twins, tmp_path) -> None:
    pair = twins(case.architecture, case.config, case.values)
    pair.theirs.save_pretrained(tmp_path)
    config = pair.format.to_config(json.loads((tmp_path / "config.json").read_text(encoding="utf-8")))
    assert config == pair.config
    found = pair.format.ours(load_file(tmp_path / "model.safetensors"), config)
    assert all(torch.equal(found[name], weight) for name, weight in pair.ours.state_dict().items())


@every_case
def test_what_we_write_is_the_same_model_to_them(case: Case, twins, transformers) -> None:
    pair = twins(case.architecture, case.config, case.values)
    written = json.loads(json.dumps(pair.format.from_config(pair.config)))
    assert FORMATS.find(written["model_type"]) is pair.format
    assert written["architectures"] == [case.architecture]
    tokens = {n: v for n, v in case.values.items() if n.endswith("token_id") and n not in written}
    again = getattr(transformers, case.architecture)(getattr(transformers, case.config)(**written, **tokens))
    weights = pair.format.theirs(pair.ours.state_dict(), pair.config)
    assert not again.load_state_dict(weights, strict=False).unexpected_keys
    again.tie_weights()
    torch.manual_seed(0)
    first, _, counts = answers(pair)
    torch.manual_seed(0)
    second, _, _ = answers(replace(pair, theirs=again.eval()))
    assert torch.equal(first * counts, second * counts)
