"""The lectures' sentences: all of them are listed, and the grammar itself gives the first answer."""

from __future__ import annotations

from random import Random

import pytest

from regard.demo.corpus import corpus
from regard.demo.grammar import FAMILIES
from regard.demo.lectures import LECTURES, REVERSED, Lecture
from regard.demo.sentences import same

# A sentence of each slide, and the family that makes such sentences.
EXPECTED = {
    "The animal didn't cross the street because it was too tired": "il était trop fatigué",
    "The animal didn't cross the street because it was too wide": "elle était trop large",
    "The animal didn't cross the street because it was tired": "il était fatigué",
    "The animal didn't cross the street because it was wide": "elle était large",
    "The animal didn’t cross the street because it was too tired": "il était trop fatigué",
    "The animal didn’t cross the street because it was too wide": "elle était trop large",
    "I arrived at the bank after crossing the river": "la rive",
    "I arrived at the bank after crossing the street": "la banque",
    "I arrived at the bank across the river": "de la rivière",
    "Fatima accepted a job in deep learning because she loves the topic": "parce qu'elle",
    "Rashonda accepted a job in deep learning because she loves the topic": "parce qu'elle",
    "I am a student": "Je suis étudiant",
    "The quick brown fox jumps over the lazy dog": "le chien paresseux",
    "a fluffy blue creature roamed the verdant forest": "bleue",
    "Thinking Machines": "Machines pensantes",
    "Python executes quickly": "Python s'exécute",
    "Python crawls quickly": "rampe",
}


def test_every_sentence_is_listed_with_its_answers():
    assert {lecture.source for lecture in LECTURES} == set(EXPECTED)
    for lecture in LECTURES:
        assert EXPECTED[lecture.source] in lecture.accepted[0]
        assert len(set(lecture.accepted)) == len(lecture.accepted)


def test_pairs_are_marked():
    marked: dict[str, list[Lecture]] = {}
    for lecture in (one for one in LECTURES if one.pair):
        marked.setdefault(lecture.pair, []).append(lecture)
    assert sorted(marked) == ["Python", "bank", "it", "it, curly", "it, too"]
    for both in marked.values():
        assert len(both) == 2
        assert not both[0].accepts(both[1].accepted[0])
        assert not both[1].accepts(both[0].accepted[0])


def test_case_punctuation_and_curly_signs_do_not_matter_and_words_do():
    lecture = LECTURES[0]
    assert lecture.accepts("l’animal n’a pas traversé la rue parce qu’il était trop fatigué.")
    assert not lecture.accepts("L'animal n'a pas traversé la rue parce qu'elle était trop fatiguée.")
    assert not lecture.accepts("")


def test_the_open_sentence_accepts_both_readings():
    openly = next(one for one in LECTURES if one.source.endswith("across the river"))
    for bank in ("rive", "banque"):
        for arrived in ("arrivé", "arrivée"):
            assert openly.accepts(f"Je suis {arrived} à la {bank} de l'autre côté de la rivière.")


def test_in_reverse_the_two_readings_are_pairs_too():
    assert {one.pair for one in REVERSED} == {"", "it, too", "bank"}
    assert corpus(pairs=1_000, reverse=True).lectures == REVERSED


@pytest.mark.parametrize(
    ("source", "family", "draws"),
    [
        ("The animal didn't cross the street because it was too wide", "it", 100_000),
        ("I arrived at the bank across the river", "bank", 20_000),
        ("I am a student", "identity", 5_000),
        ("Thinking Machines", "title", 5_000),
        ("Python crawls quickly", "python", 5_000),
        ("Fatima accepted a job in deep learning because she loves the topic", "she", 200_000),
        ("a fluffy blue creature roamed the verdant forest", "roaming", 200_000),
    ],
)
def test_the_first_answer_is_what_the_grammar_says(source, family, draws):
    lecture = next(one for one in LECTURES if one.source == source)
    draw = Random(0)
    for _ in range(draws):
        sentence = FAMILIES[family].rule(draw)
        if sentence.key() == same(source):
            assert same(sentence.pair(family, "written").target) == same(lecture.accepted[0])
            return
    pytest.fail(f"{source} was not drawn in {draws}")
