"""Tokens and words: labels, places in the text, merging."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import RegardError
from regard.inspection.record.tokens import Side, merge_words
from regard.text.tokenizer import Tokenizer

TEXT = "The animal didn't cross the street."


def test_every_token_has_its_place_and_its_word(pieces):
    side = Side.of_text("source", pieces, TEXT, last=[pieces.end])
    written = [token for token in side.tokens if token.start is not None]
    assert "".join(TEXT[token.start : token.end] for token in written) == TEXT
    assert [word.text for word in side.words] == [
        "The",
        "animal",
        "didn't",
        "cross",
        "the",
        "street",
        ".",
        "<end>",
    ]
    assert [token.special for token in side.tokens[-2:]] == [None, "end"]
    assert len(side) > len(side.words)
    for number, word in enumerate(side.words):
        assert {side.tokens[place].word for place in word.positions} == {number}


def test_a_special_token_is_a_word_of_its_own(words):
    side = Side.of_text("source", words, "The [MASK] street", [words.start], [words.end], with_mask=True)
    assert side.labels() == ["<start>", "The", "<mask>", "street", "<end>"]
    assert [token.special for token in side.tokens] == ["start", None, "mask", None, "end"]
    assert side.tokens[2].start == 4


def test_ids_that_no_text_would_have_are_labelled_all_the_same(pieces):
    letters = [pieces.encode(letter)[0] for letter in "animal"]
    assert letters != pieces.encode("animal")
    side = Side.of_ids("target", pieces, [*letters, pieces.unknown, pieces.pad], first=[pieces.start])
    assert side.labels() == ["<start>", *"animal", "<unknown>"]
    assert [word.positions for word in side.words][:2] == [(0,), (1, 2, 3, 4, 5, 6)]


@given(st.lists(st.integers(0, 274), max_size=12))
def test_any_ids_have_labels_and_words(ids):
    tokenizer = _pieces()
    side = Side.of_ids("target", tokenizer, [n % tokenizer.vocabulary for n in ids], first=[tokenizer.start])
    kept = [n % tokenizer.vocabulary for n in ids if n % tokenizer.vocabulary != tokenizer.pad]
    assert side.ids.tolist() == [tokenizer.start, *kept]
    assert sorted(place for word in side.words for place in word.positions) == list(range(len(side)))
    assert all(side.labels())
    assert all(side.labels(words=True))


_learned: list[Tokenizer] = []


def _pieces() -> Tokenizer:
    if not _learned:
        _learned.append(Tokenizer.train([TEXT], vocabulary=275))
    return _learned[0]


def test_merging_sums_keys_and_averages_queries(pieces):
    side = Side.of_text("source", pieces, TEXT)
    weights = np.random.default_rng(0).dirichlet(np.ones(len(side)), size=(2, len(side)))
    merged = merge_words(weights, side, side)
    assert merged.shape == (2, len(side.words), len(side.words))
    for head in range(2):
        for i, query in enumerate(side.words):
            for j, key in enumerate(side.words):
                rows = [sum(weights[head, q, k] for k in key.positions) for q in query.positions]
                assert merged[head, i, j] == pytest.approx(sum(rows) / len(rows))
    assert merged.sum(-1) == pytest.approx(1.0)


def test_a_word_is_found_by_name_or_number(words):
    side = Side.of_text("source", words, "The animal didn't cross the street.")
    assert side.find("animal") == side.find(1) == side.find("Animal") == (1,)
    assert side.find("the") == (4,)  # its own spelling comes first
    assert side.find(-1) == (len(side) - 1,)
    with pytest.raises(RegardError, match="no word 'anmal' in the source; did you mean animal"):
        side.find("anmal")
    with pytest.raises(RegardError, match="no token 99 in the source; it has 7, counted from 0"):
        side.find(99)


def test_a_word_in_pieces_is_found_as_a_whole(pieces):
    side = Side.of_text("source", pieces, TEXT)
    assert side.find("street") == side.find(5, words=True)
    assert len(side.find("street")) > 1
    with pytest.raises(RegardError, match="no word 50 in the source"):
        side.find(50, words=True)


@pytest.mark.parametrize("kind", ["word", "bpe", "character"])
def test_a_word_knows_where_it_stands_in_the_text(kind):
    text = "😀 a cat and a dog"
    tokenizer = Tokenizer.train([text] * 3, kind=kind, vocabulary=300)
    side = Side.of_text("source", tokenizer, text, last=[tokenizer.end])
    spans = {side.span(word) for word in side.words if not word.special and word.text.strip("␣")}
    assert {text[slice(*span)] for span in spans if span} >= {"a", "cat", "and", "dog"}
    assert len([span for span in spans if span and text[slice(*span)] == "a"]) == 2
    assert side.span(side.words[-1]) is None
