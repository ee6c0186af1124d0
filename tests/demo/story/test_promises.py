"""What is promised, how it is counted, and when it is missed."""

from __future__ import annotations

import pytest

import regard
from regard.demo.lectures import LECTURES
from regard.demo.story.promises import PROMISES, Verdict, counted, judge, translate
from regard.demo.story.training import sentences_for
from regard.engine.choice import active_engine
from regard.inference.translator import Translator

ANSWERS = [lecture.accepted[0] for lecture in LECTURES]


def test_right_answers_all_count():
    assert counted(LECTURES, ANSWERS) == [True] * len(LECTURES)


def test_a_pair_counts_only_where_both_are_right():
    always_il = [answer.replace("qu'elle était", "qu'il était") for answer in ANSWERS]
    right = counted(LECTURES, always_il)
    assert [lecture.pair for lecture, is_right in zip(LECTURES, right, strict=True) if not is_right] == [
        "it, too", "it, too", "it", "it", "it, curly", "it, curly",
    ]  # fmt: skip


def test_a_single_sentence_falls_alone():
    answers = ["Je suis fatigué" if answer == "Je suis étudiant" else answer for answer in ANSWERS]
    assert counted(LECTURES, answers).count(False) == 1


@pytest.mark.parametrize(
    ("changes", "complaints"),
    [
        ({}, []),
        ({"exact_match": 0.9899}, ["exact match is 98.99 %, and 99 % is promised"]),
        ({"lectures_right": 15}, ["2 of the lectures' 17 sentences are not right"]),
        ({"seconds": 181.0}, ["it took 181 seconds, and 180 are promised"]),
    ],
)
def test_a_missed_promise_is_said(changes, complaints):
    kept = {"exact_match": 0.99, "lectures_right": 17, "lectures_total": 17, "seconds": 180.0}
    assert Verdict(**{**kept, **changes}).missed(PROMISES["demo"]) == complaints


def test_the_judgement_is_of_the_models_own_translations(demo, make_place):
    sentences = sentences_for(make_place(demo.folder))
    found = translate(demo.model, [pair.source for pair in sentences.test])
    right = [text == pair.target for text, pair in zip(found, sentences.test, strict=True)]
    judged = judge(demo.model, sentences)
    assert judged.exact_match == demo.facts["exact_match"] == sum(right) / len(right)
    assert judged.tested == demo.facts["tested"] == len(sentences.test)
    assert judged.lectures_total == len(LECTURES)


def test_text_as_it_stands_on_a_slide_works(demo):
    slides = ["The animal didn’t cross the street", "It isn’t “tired”", "the\u00a0cat"]
    typed = ["The animal didn't cross the street", 'It isn\'t "tired"', "the cat"]
    assert translate(demo.model, slides) == translate(demo.model, typed)
    encode = demo.model.tokenizers.source.encode
    assert [encode(text) for text in slides] == [encode(text) for text in typed]


class Parrot(Translator):
    """A translator that knows every answer."""

    def __init__(self, sentences):
        self.known = {pair.source: pair.target for pair in sentences.test}
        self.known |= {lecture.source: lecture.accepted[-1] for lecture in sentences.lectures}

    def translate(self, text, *, beams=4, **_):
        assert beams == 1
        return [type("Found", (), {"text": self.known[one]}) for one in text]


def test_a_model_that_knows_everything_is_judged_so(make_place, tmp_path):
    sentences = sentences_for(make_place(tmp_path))
    judged = judge(Parrot(sentences), sentences)
    assert (judged.exact_match, judged.lectures_right) == (1.0, judged.lectures_total)


@pytest.mark.skipif(active_engine()[0] == "torch", reason="the native engine was not built")
@pytest.mark.parametrize("beams", [1, 4])
def test_int8_translates_at_least_99_percent_of_the_test_to_the_same_text(beams, built):
    sources = [pair.source for pair in built.test]
    plain, rounded = (
        [found.text for found in regard.load("demo", dtype=dtype).translate(sources, beams=beams)]
        for dtype in ("float32", "int8")
    )
    same = sum(one == other for one, other in zip(plain, rounded, strict=True))
    assert same >= 0.99 * len(sources) >= 1000
