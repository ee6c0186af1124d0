"""Every French word has a gloss: from the derivation where there is one, else by its form."""

from __future__ import annotations

import pytest

from regard.demo.corpus import split_words
from regard.demo.glossary import dictionary, gloss
from regard.demo.grammar import FAMILIES
from regard.demo.lectures import LECTURES


def glosses(text: str, english: str = "") -> dict[str, str]:
    return dict(gloss(text, english))


def test_every_word_of_every_family_has_one(everything):
    assert {pair.family for pair in everything} == set(FAMILIES)
    for pair in everything:
        assert [token for token, _ in gloss(pair)] == split_words(pair.french, "fr")
        assert all(meaning.strip() for _, meaning in gloss(pair)), pair


def test_the_dictionary_has_every_word_of_the_corpus(built):
    assert {word for pair in built.train for word, meaning in gloss(pair.french) if not meaning} == set()


def test_it_says_what_it_stands_for(built):
    for pair in (pair for pair in built.train if pair.family == "it"):
        (said,) = (meaning for token, meaning in gloss(pair) if token in ("il", "elle", "ils", "elles"))
        gender = "masculine" if " qu'il" in pair.french else "feminine"
        assert f", {gender}, as " in said
        assert said.split()[-2] in pair.source.lower()


def test_the_lectures_are_glossed_from_their_text_alone():
    tired, wide = LECTURES[0], LECTURES[1]
    assert glosses(tired.accepted[0], tired.source)["il"] == "it, masculine, as animal is"
    assert glosses(wide.accepted[0], wide.source)["elle"] == "it, feminine, as street is"
    fatima = next(one for one in LECTURES if one.source.startswith("Fatima"))
    assert glosses(fatima.accepted[0], fatima.source)["elle"] == "she, as Fatima is"
    for lecture in LECTURES:
        assert all(meaning for _, meaning in gloss(lecture.accepted[0], lecture.source)), lecture


@pytest.mark.parametrize(
    ("text", "word", "meaning"),
    [
        ("La rive est raide", "rive", "bank (river)"),
        ("La banque est fermée", "fermée", "closed, feminine"),
        ("Je vais au marché", "au", "to the"),
        ("Il porte le sac", "porte", "door or carries"),
        ("Aujourd'hui il pleut", "Aujourd'hui", "today"),
        ("L’animal dort", "L'", "the"),
        ("le zèbre dort", "zèbre", ""),
    ],
)
def test_a_word_is_looked_up_by_its_form(text, word, meaning):
    assert glosses(text)[word] == meaning


def test_where_two_nouns_would_do_none_is_chosen():
    text = "Le chien n'a pas traversé le pont parce qu'il était long"
    assert glosses(text, "The dog did not cross the bridge because it was long")["il"] == "he or it"


def test_glosses_are_short():
    assert max(map(len, dictionary().values())) < 60
