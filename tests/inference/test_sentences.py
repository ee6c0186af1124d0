"""Cutting a long text: nothing is lost, and every part fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.inference.sentences import split_to_fit


def parts_of(text, most):
    return split_to_fit(text, lambda part: len(part) <= most)


@given(st.text("ab .!?\n\t。»é", max_size=60), st.integers(1, 12))
def test_parts_and_gaps_join_to_the_text(text, most):
    parts = parts_of(text, most)
    assert "".join(part.text + part.gap for part in parts) == text
    assert all(len(part.text) <= most for part in parts)
    assert all(not part.gap.strip() for part in parts)
    assert all(part.text.strip() for part in parts_of(text.strip(), most))


def test_sentences_end_where_people_end_them():
    text = 'He said "no." And left!  Why?\nA line. 你好。再见！ End'
    sentences = [part.text for part in parts_of(text, 100)]
    assert sentences == ['He said "no."', "And left!", "Why?", "A line.", "你好。", "再见！", "End"]


def test_a_long_sentence_is_cut_between_words():
    assert [part.text for part in parts_of("one two three four", 9)] == ["one two", "three", "four"]
    assert [part.text for part in parts_of("a" * 10, 4)] == ["aa", "aaa", "aa", "aaa"]
