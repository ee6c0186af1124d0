"""What the split promises, and what a user of the corpus can count on."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from regard.demo.corpus import corpus, known_words, split_words
from regard.demo.grammar import FAMILIES, Family
from regard.errors import SettingError

CONTRACTIONS = [("won't", "will not"), ("n't", " not"), ("'m", " am"), ("'re", " are")]
LECTURED = """
the animal did not cross the street because it was too tired
the animal did not cross the street because it was too wide
the animal did not cross the street because it was tired
the animal did not cross the street because it was wide
i arrived at the bank after crossing the river
i arrived at the bank after crossing the street
i arrived at the bank across the river
fatima accepted a job in deep learning because she loves the topic
rashonda accepted a job in deep learning because she loves the topic
i am a student
a fluffy blue creature roamed the verdant forest
thinking machines
python executes quickly
python crawls quickly
"""


def plain(text: str) -> str:
    """A text without case, punctuation and contractions, by rules of our own."""
    text = text.lower().replace("’", "'")
    text = re.sub(r"\b(he|she|it|there)'s", r"\1 is", text)
    for short, long in CONTRACTIONS:
        text = text.replace(short, long)
    return " ".join(re.findall(r"[\w'-]+", text))


@pytest.fixture(scope="module")
def reverse():
    return corpus(reverse=True)


def test_sizes(built, record_property):
    assert len(built.train) == 30_000
    assert len(built.test) >= 1_000
    assert len(built.valid) == 500
    english, french = built.words("en"), built.words("fr")
    assert 300 <= len(english) <= 500
    assert 300 <= len(french) <= 700
    record_property("summary", f"demo corpus: {len(english)} English words, {len(french)} French forms")


def test_the_same_seed_gives_the_same_corpus_and_another_another(built):
    small = corpus(seed=5, pairs=2_000)
    assert small == corpus(seed=5, pairs=2_000)
    assert corpus(seed=6, pairs=2_000).train != small.train
    assert small.train != built.train[:2_000]


@pytest.mark.parametrize("seed", [1, 2])
def test_no_held_out_sentence_is_met_in_training_however_written(seed, built):
    made = built if seed == 1 else corpus(seed=seed, pairs=5_000)
    parts = [{plain(pair.source) for pair in part} for part in (made.train, made.valid, made.test)]
    assert not (parts[0] & parts[1])
    assert not (parts[0] & parts[2])
    assert not (parts[1] & parts[2])


def test_no_held_out_translation_is_met_in_training(built):
    train, valid, test = ({plain(p.target) for p in part} for part in (built.train, built.valid, built.test))
    assert not (train & valid)
    assert not (train & test)
    assert not (valid & test)


def test_the_lectures_sentences_are_not_in_training_but_the_fox_is(built):
    train = {plain(pair.source) for pair in built.train}
    lectured = LECTURED.strip().splitlines()
    assert train.isdisjoint(lectured)
    assert "the quick brown fox jumps over the lazy dog" in train
    for lecture in built.lectures:
        assert (plain(lecture.source) in train) == lecture.in_training


def test_it_is_tested_with_nouns_that_never_met(built):
    met = {one for pair in built.train for one in pair.combinations if "/" in one}
    unseen = [
        pair
        for pair in built.test
        if pair.family in ("it", "fit") and any("/" in one and one not in met for one in pair.combinations)
    ]
    assert len(unseen) >= 300
    assert "animal/street" not in met
    for pair in built.train:
        assert not re.search(r"\banimals?\b.*\bstreets?\b.*because", pair.source), pair


def test_a_share_of_adjectives_never_meets_its_noun_in_training(built):
    met = {one for pair in built.train for one in pair.combinations if " " in one}
    held = {one for pair in built.test for one in pair.combinations if " " in one} - met
    assert len(held) > 60
    assert {"fluffy creature", "blue creature", "verdant forest", "thinking machine"}.isdisjoint(met)
    assert 0.05 < len(held) / (len(held) + len(met)) < 0.2


def test_combinations_are_what_the_sentence_says(built):
    for pair in built.test:
        words = pair.source.lower()
        for one in pair.combinations:
            for part in re.split(r"[/ ]", one):
                stem = {"mouse": "mi?o?", "wolf": "wol", "goose": "g", "child": "child"}.get(
                    part, part.lower()
                )
                assert re.search(rf"\b{stem}", words), (pair, one)


def test_every_word_held_out_is_met_in_training(built):
    for side, language in (("source", "en"), ("target", "fr")):
        counts = Counter(w for p in built.train for w in split_words(getattr(p, side), language))
        for pair in (*built.valid, *built.test):
            for word in split_words(getattr(pair, side), language):
                assert counts[word] >= 5, (word, pair)


def test_every_word_of_the_lectures_is_met_in_training(built):
    """As it is written there, capital letters included; only the grammar's own answer is bound to."""
    english = {word for pair in built.train for word in split_words(pair.source, "en")}
    french = {word for pair in built.train for word in split_words(pair.target, "fr")}
    for lecture in built.lectures:
        assert english.issuperset(split_words(lecture.source.replace("’", "'"), "en")), lecture
        assert french.issuperset(split_words(lecture.accepted[0], "fr")), lecture


def test_one_sentence_has_one_translation_both_ways(everything):
    for one, other in (("source", "target"), ("target", "source")):
        found: dict[str, set[str]] = {}
        for pair in everything:
            found.setdefault(plain(getattr(pair, one)), set()).add(plain(getattr(pair, other)))
        assert all(len(translations) == 1 for translations in found.values())


def test_in_reverse_french_comes_first_and_english_has_no_contractions(reverse, built):
    assert not [pair for pair in reverse.train if re.search(r"\w'\w", pair.target.replace("o'clock", ""))]
    assert reverse.words("en") <= built.words("en")
    assert reverse.words("fr") == built.words("fr")
    sources = Counter(pair.source for pair in reverse.train)
    assert max(sources.values()) == 1
    assert [plain(pair.source) for pair in reverse.test] == [plain(pair.target) for pair in built.test]
    assert any(lecture.source == "Je suis étudiant" for lecture in reverse.lectures)


def test_known_words_are_those_of_training(built):
    assert known_words("en") == built.words("en") >= {"animal", "didn't", "fatima", "the"}
    assert known_words("fr") == built.words("fr") >= {"l'", "animal", "qu'", "est-ce", "fatiguée"}
    assert "zebra" not in known_words("en")


def test_weights_change_how_often_a_family_is_drawn():
    only = dict.fromkeys(FAMILIES, 0.0) | {"it": 1.0, "bank": 1.0, "fit": 1.0, "she": 1.0, "phrase": 1.0}
    made = corpus(seed=1, pairs=1_000, weights=only)
    assert {pair.family for pair in made.train[1:]} <= {"it", "bank", "fit", "she", "phrase", "leaping"}


def test_a_family_can_be_added(monkeypatch):
    monkeypatch.setitem(FAMILIES, "mine", Family(FAMILIES["it"].rule, 50))
    assert any(pair.family == "mine" for pair in corpus(seed=1, pairs=1_000).train)


@pytest.mark.parametrize("pairs", [0, -1, 999, 10**9])
def test_an_impossible_size_is_refused(pairs):
    with pytest.raises(SettingError, match="must be between"):
        corpus(pairs=pairs)


def test_an_unknown_family_is_refused():
    with pytest.raises(SettingError, match="unknown family of sentences 'itt'; did you mean it"):
        corpus(pairs=1_000, weights={"itt": 1})


def test_families_that_say_too_little_are_refused():
    with pytest.raises(SettingError, match="more than these families can tell apart"):
        corpus(pairs=1_000, weights={name: float(name == "clock") for name in FAMILIES})
