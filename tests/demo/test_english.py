"""The English of the corpus, and how the two sides are written alike, judged by rules of our own."""

from __future__ import annotations

import re

import pytest

FAULTS = {
    "a before a vowel": r"\b[Aa] (?!useful)[aeiou]",
    "an before a consonant": r"\b[Aa]n (?:[^aeiou]|useful)",
    "he do": r"(?<!Does )(?<!Did )(?<!Will )\b(?:[Hh]e|[Ss]he|[Ii]t) (?:do|have|are|were|go|love|read|eat)\b",
    "they does": r"\b(?:I|[Yy]ou|[Ww]e|[Tt]hey) (?:does|has|is|was(?<!I was)|goes|loves|eats)\b",
    "a double past": r"\b(?:did not|didn't|does not|doesn't|will|won't) \w+(?:ed|ought)\b(?<!need)",
    "not contracted rightly": r"n 't| n't|\bwilln't|\bamn't",
    "a wrong plural": r"\b(?:mouses|gooses|wolfs|childs|foxs|fishes|mans|womans)\b",
    "odd signs": r"[’“”]|  | \.|\.\.|haves",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_english(everything, fault):
    assert [pair.english for pair in everything if re.search(FAULTS[fault], pair.english)] == []


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ("a before a vowel", "I am a engineer."),
        ("an before a consonant", "an useful book"),
        ("he do", "She have a cat."),
        ("they does", "They has a cat."),
        ("a double past", "He didn't crossed it."),
        ("not contracted rightly", "He did n't go."),
        ("a wrong plural", "two grey mouses"),
        ("odd signs", "Emma haves a cat."),
    ],
)
def test_a_planted_fault_is_found(fault, wrong):
    assert re.search(FAULTS[fault], wrong)


def test_both_sides_are_written_alike(everything):
    for pair in everything:
        for mark in ".?":
            assert pair.english.endswith(mark) == pair.french.endswith(mark), pair
        assert pair.english[0].isupper() == pair.french[0].isupper(), pair


def test_a_full_stop_follows_a_capital(everything):
    for pair in everything:
        if pair.english.endswith((".", "?")):
            assert pair.english[0].isupper(), pair
            assert pair.french[0].isupper(), pair


def test_ways_of_writing_are_mixed(built):
    stopped = sum(pair.english.endswith((".", "?")) for pair in built.train) / len(built.train)
    lower = sum(pair.english[0].islower() for pair in built.train) / len(built.train)
    assert 0.65 < stopped < 0.9
    assert 0.05 < lower < 0.2


def test_sentences_are_neither_long_nor_all_of_one_length(built):
    lengths = [len(pair.english.split()) for pair in built.train]
    assert min(lengths) == 2
    assert max(lengths) <= 16
    assert 7.5 < sum(lengths) / len(lengths) < 10


def test_questions_are_questions_in_both_languages(everything):
    asked = [pair for pair in everything if pair.english.endswith("?")]
    assert len(asked) > 500
    for pair in asked:
        assert re.match(r"(Do|Does|Did|Will|Is|Are|Was|Were|Where) ", pair.english), pair
        assert re.match(r"(Est-ce qu(e |')|Où )", pair.french), pair
