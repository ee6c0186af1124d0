"""Cutting a long text: nothing is lost or invented, and every part fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.inference.sentences import split_to_fit


def parts_of(text, most):
    return split_to_fit(text, lambda part: len(part) <= most)


def sentences_of(text):
    """The sentences themselves: with two spaces between them, none are put together."""
    whole = [part.text for part in split_to_fit(text.replace(" ", "  "), lambda part: True)]
    return [part.replace("  ", " ") for part in whole]


@given(st.text("ab .!?\n\t。！»é\u00a0\u3000", max_size=60), st.integers(1, 12))
def test_parts_and_gaps_join_to_the_text(text, most):
    parts = parts_of(text, most)
    assert "".join(part.text + part.gap for part in parts) == text.strip()
    assert all(len(part.text) <= most for part in parts)
    assert all(not part.gap.strip() for part in parts)
    assert all(part.text.strip() for part in parts)


def test_sentences_end_where_people_end_them():
    text = 'He said "no." And left!  Why?\nA line. 你好。再见！ End'
    expected = ['He said "no."', "And left!", "Why?", "A line.", "你好。再见！", "End"]
    assert sentences_of(text) == expected
    one_each = split_to_fit("你好。再见！", lambda part: len(part) <= 3)
    assert [part.text for part in one_each] == ["你好。", "再见！"]


@pytest.mark.parametrize("marks", ["?!", "！！", "...", "?!?!", "。。。", "！？", "!!!”", "?!”)", "……！」"])
def test_marks_that_stand_together_stay_together(marks):
    assert sentences_of(f"What{marks}\u3000So it is.") == [f"What{marks}", "So it is."]
    assert parts_of(f"Oh{marks} Yes, it is so.", 14)[0].text == f"Oh{marks}"


@pytest.mark.parametrize(
    "text", ["Wow ! ! ! No.", "Wow !\u00a0!\u3000！ No.", "Wow.\n…\n!!! No.", "Wow. ?! … No."]
)
def test_marks_are_no_sentence_of_their_own(text):
    assert [part.text[-3:] for part in split_to_fit(text.replace(" No", "\nNo"), lambda part: True)][
        -1
    ] == "No."
    assert all(any(map(str.isalpha, part.text)) for part in parts_of(text, 12))


@pytest.mark.parametrize(
    "space", ["\u00a0", "\u3000", "\u2003", "\u00a0\n\u00a0", " \u3000\n", "\u3000\u3000"]
)
def test_any_white_space_is_a_gap(space):
    parts = split_to_fit(f"{space}One.{space}Two。{space}Three{space}", lambda part: len(part) <= 5)
    assert [part.text for part in parts] == ["One.", "Two。", "Three"]
    assert [part.gap for part in parts] == [space, space, ""]


@pytest.mark.parametrize(
    "sentence",
    [
        "Mr. Smith met Mrs. Jones.",
        "It is 5 p.m. in the U.S. now.",
        "See J. R. R. Tolkien, e.g. his letters.",
        "Pi is 3.14 and e 2.72.",
        "It is No. 5 on p. 7.",
        "Das ist z. B. Dr. Meier.",
        "円周率は３．１４です。",
        "He has a Ph.D. from MIT.",
    ],
)
def test_a_stop_that_belongs_to_a_word_ends_no_sentence(sentence):
    assert sentences_of(f"Before. {sentence} After that.") == ["Before.", sentence, "After that."]


def test_words_like_abbreviations_end_sentences():
    assert sentences_of("He said no. It was 12. Then 1999. She drew a fig. The end.") == [
        "He said no.", "It was 12.", "Then 1999.", "She drew a fig.", "The end.",
    ]  # fmt: skip


def test_a_part_has_as_many_sentences_as_fit():
    text = "One. Two. Three.  Four. Five.\nSix. 七。八。九。"
    assert [part.text for part in parts_of(text, 100)] == [
        "One. Two. Three.",
        "Four. Five.",
        "Six. 七。八。九。",
    ]
    assert [part.text for part in parts_of(text, 9)] == [
        "One. Two.", "Three.", "Four.", "Five.", "Six. 七。八。", "九。",
    ]  # fmt: skip


def test_a_long_sentence_is_cut_between_words():
    assert [part.text for part in parts_of("one two three four", 9)] == ["one two", "three", "four"]
    assert [part.text for part in parts_of("a" * 10, 4)] == ["aa", "aaa", "aa", "aaa"]
