"""The contenders do the same work: equal shapes, equal sizes."""

import pytest

from regard.bench import model as bench
from regard.bench.peers import TorchDecoder, TorchTransformer, gpt2, marian
from regard.bench.shapes import LANGUAGE_MODELS, TRANSLATION, translation_batch
from regard.model.transformer import build_model, count_parameters


@pytest.mark.parametrize("name", sorted(TRANSLATION))
def test_translation_peers_have_our_size(name):
    pytest.importorskip("transformers")
    config = TRANSLATION[name]
    ours = count_parameters(build_model(config))
    tables = 2 * 512 * config.width  # sinusoids that Marian keeps as parameters
    assert count_parameters(marian(config)) in (ours, ours + tables)
    final_norms = 2 * 2 * config.width
    assert count_parameters(TorchTransformer(config)) == ours + final_norms


@pytest.mark.parametrize("name", sorted(LANGUAGE_MODELS))
def test_language_peers_have_our_size(name):
    pytest.importorskip("transformers")
    config, _ = LANGUAGE_MODELS[name]
    ours = count_parameters(build_model(config))
    assert count_parameters(gpt2(config)) == ours
    assert count_parameters(TorchDecoder(config)) == ours


def test_a_batch_has_the_stated_tokens():
    batch = translation_batch(10_000)
    assert 4050 < batch.tokens < 4130
    assert batch.source.shape == (292, 15)


def test_the_four_shapes_and_their_operations():
    cases = {case.name: case for case in bench.cases()}
    assert set(cases) == {"mt-tiny", "mt-base-small", "lm-small", "lm-large"}
    assert 7e6 < cases["mt-tiny"].operations / cases["mt-tiny"].amount < 9e6
