"""Tokens broken into those they were merged from: the text stays, other tokens break in every epoch."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import SettingError
from regard.text.batches import labelled_batches, masked_batches, parallel_batches, window_batches
from regard.text.pair import Tokenizers
from regard.text.respelling import Speller, halves_of, respelling
from regard.text.sequences import Data, Sequences
from regard.text.tokenizer import Tokenizer

TEXTS = [f"the {size} animal did not cross the {way}" for size in ("small", "tired") for way in ("street",)]


@pytest.fixture
def encoded(bpe):
    return Sequences.of([bpe.encode(text) for text in TEXTS * 40])


@pytest.fixture
def make(bpe, encoded):
    """A maker of batches of each kind, with a share broken up."""
    pairs = Data({"source": encoded, "target": encoded})
    labelled = Data({"text": encoded, "label": Sequences.of([[i % 2] for i in range(len(encoded))])})
    both = Tokenizers.joint(bpe)

    def of(kind, share=0.3, seed=7, longest=500):
        made = {
            "parallel": lambda: parallel_batches(pairs, both, tokens=256, seed=seed),
            "labelled": lambda: labelled_batches(labelled, bpe, tokens=256, seed=seed),
            "masked": lambda: masked_batches(labelled, bpe, tokens=256, seed=seed),
            "window": lambda: window_batches(labelled, bpe, context=16, tokens=256, seed=seed),
        }[kind]()
        return respelling(made, share, both, longest, seed)

    return of


def read(batch):
    return batch.source if hasattr(batch, "source") else batch.input


def test_the_halves_of_a_token_spell_it(bpe):
    halves = halves_of(bpe)
    merged = np.flatnonzero(halves[:, 0] >= 0)
    assert len(merged) > 20
    assert all(bpe.decode([number]) == bpe.decode(halves[number]) for number in merged)


def test_the_text_stays_and_has_more_tokens_the_larger_the_share(bpe, encoded):
    texts, lengths = [encoded[i] for i in range(len(encoded))], []
    for share in (0.0, 0.1, 0.5, 0.99):
        found = Speller(bpe).respell(texts, share, 500, np.random.default_rng(3))
        assert [bpe.decode(ids) for ids in found] == [bpe.decode(ids) for ids in texts]
        lengths.append(sum(map(len, found)))
    assert lengths[0] == sum(map(len, texts))
    assert lengths == sorted(set(lengths))


def test_about_that_share_breaks_at_first(bpe):
    token = int(np.flatnonzero(halves_of(bpe)[:, 0] >= 0)[-1])
    found = Speller(bpe).respell([np.array([token])] * 4000, 0.2, 50, np.random.default_rng(1))
    assert np.mean([len(ids) > 1 for ids in found]) == pytest.approx(0.2, abs=0.03)


def test_a_text_that_would_grow_too_long_stays(bpe, encoded):
    longest = len(encoded[0]) + 1
    found = Speller(bpe).respell([encoded[0]] * 50, 0.5, longest, np.random.default_rng(1))
    assert all(len(ids) < longest for ids in found)
    assert Speller(bpe).respell([], 0.5, longest, np.random.default_rng(1)) == []


@pytest.mark.parametrize("kind", ["parallel", "labelled"])
def test_batches_say_the_same_in_other_pieces(make, kind, bpe):
    grown = 0
    for broken, whole in zip(make(kind), make(kind, share=0), strict=True):
        assert [bpe.decode(row) for row in read(broken)] == [bpe.decode(row) for row in read(whole)]
        grown += read(broken).shape[1] > read(whole).shape[1]
        if kind == "labelled":
            assert (broken.labels == whole.labels).all()
        else:
            assert [bpe.decode(row) for row in broken.target_in] == [
                bpe.decode(row) for row in broken.target_out
            ]
            assert (broken.target_in[:, 1:] == broken.target_out[:, :-1])[broken.target_keys[:, 1:]].all()
    assert grown


@pytest.mark.parametrize("kind", ["parallel", "labelled"])
def test_it_is_the_same_after_going_on_from_the_middle(make, kind):
    straight, taken_up = make(kind), make(kind)
    straight.next()
    taken_up.restore(straight.state())
    a, b = straight.next(), taken_up.next()
    assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_other_tokens_break_in_another_epoch_and_with_another_seed(make):
    def lengths(batches):
        return [int(batch.source_keys.sum()) for batch in batches]

    batches = make("parallel")
    first, second = lengths(batches), lengths(batches)
    assert first != second
    assert lengths(make("parallel", seed=8)) != first


@pytest.mark.parametrize("kind", ["masked", "window"])
def test_other_kinds_of_batches_are_refused(make, kind):
    with pytest.raises(SettingError, match="cannot be respelled; leave respell at 0"):
        make(kind).next()


def test_a_tokenizer_without_merges_is_refused():
    words = Tokenizers.joint(Tokenizer.learn(TEXTS, kind="word"))
    ids = Sequences.of([words.source.encode(text) for text in TEXTS])
    batches = parallel_batches(Data({"source": ids, "target": ids}), words)
    with pytest.raises(SettingError, match="merges nothing; take kind bpe, or leave it at 0"):
        respelling(batches, 0.1, words, 100, 1)
