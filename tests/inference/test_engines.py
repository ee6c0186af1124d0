"""Translator and Writer on both engines: the same tokens, whatever the batch and the number of threads."""

from __future__ import annotations

import pytest

from regard.engine.choice import Engine, active_engine
from regard.inference.rescoring.noisy_channel import NoisyChannel
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.text.tokenizer import Tokenizers

pytestmark = pytest.mark.skipif(active_engine()[0] == "torch", reason="the native engine was not built")
TEXTS = ["the cat", "a dog sees the old king .", "the", "the wise king sleeps and the dog sleeps ."]
SEARCHES = [
    dict(beams=1),
    dict(beams=4, n_best=3),
    dict(beams=3, prefix="the cat", min_length=3),
    dict(beams=2, no_repeat_ngram_size=2, forbidden=["dog"]),
]


@pytest.fixture(scope="module")
def translators(toy_model, toy_tokenizer):
    model, both = toy_model(7), Tokenizers.joint(toy_tokenizer)
    return {
        "torch": Translator(model, both, engine="torch"),
        "native": Translator(model, both),
        "two threads": Translator(Engine(model, threads=2), both),
    }


def told(translation):
    """Everything that a search found."""
    return [(each.text, each.score, list(each.tokens.ids)) for each in (translation, *translation.others)]


@pytest.mark.parametrize("search", SEARCHES)
def test_translations_are_those_of_torch(translators, search):
    expected, found = (
        translators[name].translate(TEXTS, max_length=12, **search) for name in ("torch", "native")
    )
    for one, other in zip(expected, found, strict=True):
        assert [each[::2] for each in told(one)] == [each[::2] for each in told(other)]
        assert other.score == pytest.approx(one.score, abs=1e-4)


@pytest.mark.parametrize("search", SEARCHES[:2])
def test_a_translation_is_bit_equal_in_every_batch_and_with_every_number_of_threads(translators, search):
    together = translators["native"].translate(TEXTS, max_length=12, **search)
    alone = [translators["native"].translate(text, max_length=12, **search) for text in TEXTS]
    threads = translators["two threads"].translate(TEXTS[::-1], max_length=12, **search)[::-1]
    assert [*map(told, together)] == [*map(told, alone)] == [*map(told, threads)]


def test_what_needs_attention_weights_or_scores_works_beside_the_engine(translators):
    both = translators["torch"], translators["native"]
    aligned = [each.translate("the old cat", alignment=True, max_length=8).alignment for each in both]
    assert aligned[0].pairs == aligned[1].pairs
    ranked = [each.translate("the cat", rescorer=NoisyChannel(each, 0.5), n_best=2) for each in both]
    assert ranked[0].text == ranked[1].text
    one, other = (each.alternatives("the cat", 1, top=3) for each in both)
    assert [choice.text for choice in one] == [choice.text for choice in other]


@pytest.mark.parametrize("options", [dict(temperature=0), dict(temperature=0.9, top_k=5, seed=3)])
def test_completions_are_those_of_torch_and_bit_equal_in_every_batch(toy_model, toy_tokenizer, options):
    model = toy_model(5, family="decoder-only", positions="learned")
    torch, native = Writer(model, toy_tokenizer, engine="torch"), Writer(model, toy_tokenizer)
    expected, found = (each.complete(TEXTS, max_tokens=8, **options) for each in (torch, native))
    assert [each.text for each in expected] == [each.text for each in found]
    first = native.complete(TEXTS[0], max_tokens=8, **options)
    assert (first.text, first.score) == (found[0].text, found[0].score)
