"""The encoder head from a word to its referent: chosen on some new sentences, judged on others."""

from __future__ import annotations

import re

import numpy as np
import pytest

from regard.demo.corpus import built_in, is_held_out
from regard.demo.lexicon import NOUNS
from regard.demo.people import MEN, NAMES, WOMEN
from regard.demo.senses import STREETS, WATERS
from regard.demo.sentences import same
from regard.demo.story.contrasts import DRAWN, contrasts
from regard.demo.story.referents import (
    MEASURED,
    PAIRS,
    Row,
    Switch,
    choose_head,
    choose_switch,
    judge_head,
    judge_switch,
    resolutions,
    resolve,
)


@pytest.mark.parametrize("word", DRAWN)
def test_contrasts_are_new_distinct_and_name_both_words_once(word):
    found = [reference for pair in contrasts(built_in(), word, 20) for reference in pair]
    texts = [same(reference.text) for reference in found]
    assert len(set(texts)) == 40
    assert not {same(pair.source) for pair in built_in().train} & set(texts)
    for reference in found:
        words = re.findall(r"[\w']+", reference.text)
        assert words.count(reference.word) == words.count(reference.referent) == 1


def test_the_nouns_of_it_have_two_genders_and_never_met_in_training():
    for tired, wide in contrasts(built_in(), "it", 20):
        assert NOUNS[tired.referent].gender != NOUNS[wide.referent].gender
        assert is_held_out(f"{tired.referent}/{wide.referent}")
        assert tired.text.partition(" because ")[0] == wide.text.partition(" because ")[0]


def test_the_other_words_refer_to_what_they_can_mean():
    for first, second in contrasts(built_in(), "she", 10):
        assert first.referent == second.referent in WOMEN
        assert all(sum(man in one.text for man in MEN) == 1 for one in (first, second))
    for river, street in contrasts(built_in(), "bank", 10):
        assert (river.referent in WATERS, street.referent in STREETS) == (True, True)
    assert set(NAMES) == {*WOMEN, *MEN}


def test_no_position_has_the_referent_in_most_sentences():
    def places(word):
        pairs = contrasts(built_in(), word, 60)
        texts = [[(re.findall(r"[\w']+", one.text), one.referent) for one in pair] for pair in pairs]
        return [tuple(words.index(referent) for words, referent in pair) for pair in texts]

    assert set(places("she")) == {(0, 2)}
    bank = [two.text for pair in contrasts(built_in(), "bank", 60) for two in pair]
    assert sum(text.endswith("bank.") for text in bank) >= 10
    assert max(places("bank").count(place) for place in set(places("bank"))) < 0.75 * 60


def rows(*places: int, referents=(0, 1)) -> list[Row]:
    """A pair of sentences and one layer with a head that attends to `places`, and one that attends to 2."""
    weights = [np.eye(4)[[[place, 2]]] for place in places]
    return [Row(weight, referent) for weight, referent in zip(weights, referents, strict=True)]


def test_a_head_is_right_where_its_row_is_largest_at_the_referent():
    judged = judge_head("it", 0, 0, [rows(0, 1), rows(0, 0), rows(3, 3)])
    assert (judged.right, judged.sentences, judged.is_clear) == (3, 6, False)
    assert judge_head("it", 0, 0, [rows(0, 1), rows(0, 0)]).is_clear
    assert (judged.first, judged.second, judged.flips, judged.pairs) == (2, 1, 1, 3)
    assert judged.weight == 0.5
    assert judge_head("it", 0, 1, [rows(0, 1)]).right == 0


def test_the_head_with_the_most_right_rows_is_chosen_and_of_equals_the_heavier():
    assert choose_head([rows(0, 1)]) == (0, 0)
    assert choose_head([rows(2, 2, referents=(2, 2)), rows(0, 0, referents=(2, 2))]) == (0, 1)
    light, heavy = np.array([0.4, 0.3, 0.3]), np.array([0.6, 0.2, 0.2])
    assert choose_head([[Row(np.stack([[light, heavy]]), 0)]]) == (0, 1)


def test_a_switch_attends_to_a_noun_only_where_it_is_that_noun():
    rests = [rows(2, 1), rows(2, 1)]  # head 0 attends to the second noun in second sentences only
    assert choose_switch(rests) == (0, 0, 1)
    found = judge_switch(0, 0, 1, [rows(2, 1), rows(1, 1), rows(2, 2), rows(3, 1)])
    assert (found.noun, found.pairs, found.chosen, found.otherwise) == ("second", 4, 3, 1)
    assert not found.is_clear
    assert judge_switch(0, 0, 1, rests).is_clear
    fixed = [rows(1, 1)] * 4
    assert judge_switch(0, 0, 1, fixed).chosen - judge_switch(0, 0, 1, fixed).otherwise == 0


def test_the_head_is_judged_on_other_sentences_than_it_is_chosen_on(demo, monkeypatch):
    from regard.demo.story import referents

    chosen, judged = [], []
    monkeypatch.setattr(referents, "_rows", lambda _, contrast: contrast)
    monkeypatch.setattr(referents, "choose_head", lambda rows: chosen.extend(rows) or (0, 0))
    monkeypatch.setattr(referents, "judge_head", lambda *values: judged.extend(values[3]))
    resolve(demo.model, built_in(), "it", pairs=8)
    assert len(chosen) == len(judged) == 8
    assert not set(chosen) & set(judged)


def test_the_measurements_are_stored_with_the_model(demo):
    assert [found.word for found in resolutions(demo.facts)] == list(MEASURED)
    assert {found.sentences for found in resolutions(demo.facts)} == {2 * PAIRS}
    assert Switch(**demo.facts["switch"]).pairs == PAIRS


def test_a_model_is_measured_by_its_own_attention(demo):
    found = resolve(demo.model, built_in(), "she", pairs=2)
    assert (found.sentences, found.pairs) == (4, 2)
    assert 0 < found.weight < 1
    assert found.word == "she"
