"""The three families: what may influence what, what padding changes, how deep they can be."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import SettingError, ShapeError
from regard.model.config import ModelConfig
from regard.model.masks import Mask
from regard.model.transformer import (
    DecoderOnly,
    EncoderDecoder,
    EncoderOnly,
    build_model,
    count_parameters,
)

V = 30
SMALL = dict(vocabulary=V, width=16, layers=2, heads=4, feed_forward_width=24)
SHAPES = {
    "paper": dict(),
    "gpt": dict(residual="pre", feed_forward="gelu-tanh", positions="learned", scale_embeddings=False),
    "llama": dict(
        residual="pre", feed_forward="swiglu", norm="rms", positions="rotary", key_value_heads=2,
        attention_bias=False, feed_forward_bias=False, tie_head=False,
    ),
    "marian": dict(feed_forward="silu", positions="sinusoidal-halves", head_bias=True),
    "odd": dict(key_width=6, value_width=3, similarity="cosine", positions="none"),
    "bahdanau": dict(similarity="additive"),
}  # fmt: skip
shapes = st.sampled_from(sorted(SHAPES))


def make(shape, **changes):
    torch.manual_seed(0)
    model = build_model(ModelConfig(**{**SMALL, **SHAPES[shape], **changes})).eval()
    for parameter in model.parameters():  # beyond the first step, where biases and norms are plain
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def close(a, b, relative=1e-5):
    return (a - b).abs().max() <= relative * b.abs().max()


@given(shape=shapes, seed=st.integers(0, 99), place=st.integers(0, 6))
@settings(max_examples=30)
def test_changing_a_token_leaves_earlier_logits_bit_equal(shape, seed, place):
    model = make(shape, family="decoder-only")
    ids = torch.randint(0, V, (2, 7), generator=torch.Generator().manual_seed(seed))
    changed = ids.clone()
    changed[:, place] = (changed[:, place] + 1) % V
    with torch.no_grad():
        before, after = model(ids), model(changed)
    assert torch.equal(before[:, :place], after[:, :place])
    assert not torch.equal(before[:, place], after[:, place])


@given(shape=shapes, seed=st.integers(0, 99), place=st.integers(0, 4))
@settings(max_examples=20)
def test_a_decoder_with_memory_does_not_look_ahead_either(shape, seed, place):
    model = make(shape)
    generator = torch.Generator().manual_seed(seed)
    source, target = (
        torch.randint(0, V, (2, 6), generator=generator),
        torch.randint(0, V, (2, 5), generator=generator),
    )
    changed = target.clone()
    changed[:, place] = (changed[:, place] + 1) % V
    with torch.no_grad():
        assert torch.equal(model(source, target)[:, :place], model(source, changed)[:, :place])


@given(shape=shapes, left=st.integers(0, 3), right=st.integers(0, 3), filler=st.integers(0, V - 1))
@settings(max_examples=30)
def test_padding_on_either_side_changes_nothing(shape, left, right, filler):
    ids = torch.randint(0, V, (2, 5), generator=torch.Generator().manual_seed(1))
    padded = torch.nn.functional.pad(ids, (left, right), value=filler)
    mask = Mask(keys=torch.nn.functional.pad(torch.ones(2, 5, dtype=torch.bool), (left, right)))
    inner = slice(left, left + 5)
    with torch.no_grad():
        writer, reader = make(shape, family="decoder-only"), make(shape, family="encoder-only")
        assert close(writer(padded, mask)[:, inner], writer(ids))
        assert close(reader(padded, mask)[:, inner], reader(ids))
        translator = make(shape)
        assert close(translator(padded, padded, mask, mask)[:, inner], translator(ids, ids))


@pytest.mark.parametrize("output", ["classes", "pooled"])
@pytest.mark.parametrize("pooling", ["cls", "mean", "bert"])
def test_padding_does_not_change_what_a_sequence_is_pooled_to(output, pooling):
    classes = dict(classes=3) if output == "classes" else {}
    model = make("paper", family="encoder-only", output=output, pooling=pooling, **classes)
    ids = torch.randint(0, V, (2, 5))
    mask = Mask(keys=torch.nn.functional.pad(torch.ones(2, 5, dtype=torch.bool), (2, 1)))
    found = model(torch.nn.functional.pad(ids, (2, 1), value=7), mask)
    assert found.shape == (2, 3 if classes else 16)
    assert close(found, model(ids))


def test_without_positions_a_sentence_is_a_bag_of_words():
    model = make("paper", family="encoder-only", positions="none")
    ids, order = torch.randint(0, V, (2, 6)), torch.randperm(6)
    assert close(model(ids[:, order]), model(ids)[:, order])
    ordered = make("paper", family="encoder-only")
    assert not close(ordered(ids[:, order]), ordered(ids)[:, order])


def test_positions_cannot_be_told_from_a_shifted_start_by_rotary_alone():
    model = make("llama", family="decoder-only")
    ids = torch.randint(0, V, (1, 5))
    mask = Mask(keys=torch.tensor([[False, False, True, True, True]]))
    assert close(model(ids, mask)[:, 2:], model(ids[:, 2:]))


def test_an_encoder_takes_vectors_instead_of_ids():
    reader = make("paper", family="encoder-only", vectors=12, vocabulary=0, output="classes", classes=5)
    patches = torch.randn(2, 9, 12)
    assert reader(patches).shape == (2, 5)
    padding = Mask(keys=torch.arange(9)[None] < torch.tensor([[9], [6]]))
    broken = patches.clone()
    broken[1, 6:] = float("nan")
    assert torch.equal(reader(broken, padding), reader(patches, padding))
    translator = make("paper", vectors=12, target_vocabulary=V, vocabulary=0, share_embeddings=False)
    assert translator(patches, torch.randint(0, V, (2, 4))).shape == (2, 4, V)
    with pytest.raises(ShapeError, match="takes vectors of width 12"):
        reader(torch.randint(0, V, (2, 9)))


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only", "encoder-only"])
def test_ids_are_whole_numbers_of_two_axes(family):
    model, ids = make("paper", family=family), torch.tensor([[1, 2, 3]])
    given = (lambda ids: (ids, ids)) if family == "encoder-decoder" else (lambda ids: (ids,))
    assert torch.equal(model(*given(ids.int())), model(*given(ids)))
    for wrong in (ids.float(), ids.double(), ids.half(), ids.bool(), ids.short(), torch.rand(1, 3, 5)):
        with pytest.raises(ShapeError, match=r"must be integer ids \(call \.long\(\)\)"):
            model(*given(wrong))
    for wrong in (ids[0], ids[None]):
        with pytest.raises(ShapeError, match=r"ids of shape .* must be B Q"):
            model(*given(wrong))


def test_an_encoder_of_ids_also_takes_vectors_of_its_own_width():
    model = make("paper", family="encoder-only")
    ids = torch.randint(0, V, (2, 4))
    vectors = model.source.weight[ids] * 4
    assert close(model(vectors), model(ids))


def test_tied_weights_are_one_storage():
    tied, own = make("paper"), make("paper", share_embeddings=False, tie_head=False)
    assert tied.head.weight is tied.target.weight is tied.source.weight
    assert len({own.head.weight, own.target.weight, own.source.weight}) == 3
    assert count_parameters(own) - count_parameters(tied) == 2 * V * 16


def test_the_head_is_hidden_times_embedding():
    model = make("marian", family="decoder-only")
    hidden = torch.randn(2, 3, 16)
    assert torch.allclose(model.head(hidden), hidden @ model.target.weight.T + model.head.bias, atol=1e-5)


def test_separate_vocabularies():
    model = make("paper", target_vocabulary=11, share_embeddings=False)
    assert model(torch.randint(0, V, (2, 5)), torch.randint(0, 11, (2, 4))).shape == (2, 4, 11)


def test_segments_and_embedding_norm_count():
    plain = make("paper", family="encoder-only", segments=2, embedding_norm=True)
    ids, segments = torch.randint(0, V, (2, 5)), torch.tensor([[0, 0, 1, 1, 1]] * 2)
    assert torch.equal(plain(ids), plain(ids, segments=torch.zeros_like(segments)))
    assert not torch.equal(plain(ids), plain(ids, segments=segments))


def test_a_decoder_may_have_layers_of_its_own_number():
    model = make("paper", decoder_layers=1)
    assert (len(model.encoder.blocks), len(model.decoder.blocks)) == (2, 1)


def test_learned_positions_refuse_too_long_a_sequence():
    model = make("gpt", family="decoder-only", context=4)
    with pytest.raises(ShapeError, match="a sequence of 5 tokens exceeds the 4 learned positions"):
        model(torch.randint(0, V, (1, 5)))


@pytest.mark.parametrize("residual", ["pre", "post"])
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
def test_a_deep_stack_starts_with_gradients_of_one_size(residual, family):
    torch.manual_seed(0)
    config = ModelConfig(
        vocabulary=50, width=64, layers=24, heads=4, feed_forward_width=128, residual=residual
    )
    model = build_model(config.changed(family=family))
    ids = torch.randint(0, 50, (4, 12))
    logits = model(ids, ids) if family == "encoder-decoder" else model(ids)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.roll(-1, 1).flatten()).backward()
    sizes = [block.attention.projections.weight.grad.norm() for block in model.decoder.blocks]
    assert logits.std() < 3
    assert max(sizes) / min(sizes) < 30


def test_the_three_families():
    assert isinstance(build_model(ModelConfig(**SMALL)), EncoderDecoder)
    assert isinstance(build_model(ModelConfig(**SMALL, family="decoder-only")), DecoderOnly)
    assert isinstance(build_model(ModelConfig(**SMALL, family="encoder-only")), EncoderOnly)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("tiny", 2_605_056), ("gpt-2", 124_439_808), ("gpt-2-medium", 354_823_168),
        ("gpt-2-large", 774_030_080), ("gpt-2-xl", 1_557_611_200), ("gpt-3", 174_604_259_328),
        ("bert-base", 109_514_298), ("bert-large", 335_174_458), ("llama-2-7b", 6_738_415_616),
        ("llama-3-8b", 8_030_261_248),
    ],
)  # fmt: skip
def test_the_famous_sizes_have_their_famous_counts(name, parameters):
    assert count_parameters(build_model(ModelConfig.named(name), device="meta")) == parameters


def test_a_model_that_cannot_fit_is_refused_before_it_is_made():
    with pytest.raises(SettingError, match=r"174\.6 billion parameters need 698 GB"):
        build_model(ModelConfig.named("gpt-3"))


def test_a_general_matrix_may_hide_anything():
    model = make("paper", family="encoder-only", layers=1)
    ids = torch.randint(0, V, (1, 4))
    alone = Mask(matrix=torch.eye(4, dtype=torch.bool))
    changed = ids.clone()
    changed[0, 3] = (changed[0, 3] + 1) % V
    assert torch.equal(model(ids, alone)[:, :3], model(changed, alone)[:, :3])
    assert not torch.equal(model(ids, alone), model(ids, replace(alone, matrix=None)))
