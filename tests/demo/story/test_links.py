"""Which heads link "it" with its words: the numbers are the model's, the order is theirs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from regard.cli.app import run
from regard.demo.lectures import LECTURES
from regard.demo.story.links import (
    BEFORE,
    SENSES,
    TIRED,
    UNFINISHED,
    WIDE,
    Finding,
    Scene,
    bank_meanings,
    expected_order,
    find_heads,
    links_of,
    pronoun,
    scenes_of,
)
from regard.demo.story.promises import translate
from regard.demo.story.training import sentences_for
from regard.inspection.analysis.compare import compare
from regard.inspection.inspection import inspect


def test_a_scene_is_of_the_models_own_translation(demo):
    scenes = scenes_of(demo.model, demo.facts)
    assert [each.linked for each in scenes[:2]] == [TIRED, WIDE]
    assert len(scenes) == 2 + len(demo.facts["links"]) > 2
    assert [each.translation for each in scenes] == translate(
        demo.model, [each.linked.text for each in scenes]
    )


def test_it_looks_in_the_encoder_and_the_pronoun_as_it_is_written(demo, scenes):
    for told, word in zip(scenes, ("il", "elle"), strict=True):
        place = told.query("encoder")
        assert told.seen.tokens("source")[place].text == "it"
        assert told.seen.followed[told.query("cross")] == demo.model.tokenizers.target.encode(word)[0]
    silent = Scene(TIRED, inspect(demo.model, TIRED.text, "Le chat dort."))
    assert silent.query("cross") is None


def test_the_french_noun_is_looked_at_with_its_article(demo, scenes):
    for told, words in zip(scenes, (["L'", "animal"], ["la", "rue"]), strict=True):
        labels = told.seen.side("target").labels()
        assert [labels[place] for place in told.keys("decoder", "noun")] == words
        assert told.keys("cross", "noun") == told.seen.side("source").find(told.linked.noun)
    silent = Scene(TIRED, inspect(demo.model, TIRED.text, "Il dort."))
    assert silent.keys("decoder", "noun") == ()
    assert "decoder" not in {each.kind for each in find_heads([silent], "noun").heads}


@pytest.mark.parametrize(
    ("word", "kinds"), [("noun", ["encoder", "cross", "decoder"]), ("adjective", ["encoder", "cross"])]
)
def test_the_best_head_is_the_one_with_the_largest_mean_weight(demo, scenes, word, kinds):
    finding = find_heads(scenes, word)
    means = {}
    for kind in kinds:
        for head in range(demo.model.config.heads):
            found = []
            for each in scenes:
                row = each.seen.attention(kind, 0, head)[each.query(kind)]
                found.append(sum(row[key] for key in each.keys(kind, word)))
            means[kind, head] = np.mean(found)
    assert len(finding.heads) == len(means)
    best = max(means, key=lambda place: means[place])
    assert (finding.best.kind, finding.best.head) == best
    assert finding.best.weight == pytest.approx(means[best], abs=1e-6)
    assert [each.weight for each in finding.heads] == sorted(each.weight for each in finding.heads)[::-1]
    even = {"encoder": 1 / 12, "cross": 1 / 12, "decoder": 2 / 11}  # of the tokens that can be seen
    for each in finding.heads:
        assert each.uniform == pytest.approx(even[each.kind], abs=1e-6)


def test_where_no_pronoun_is_written_only_reading_counts(demo, scenes):
    silent = Scene(TIRED, inspect(demo.model, TIRED.text, "Le chat dort."))
    assert {each.kind for each in find_heads([silent], "noun").heads} == {"encoder"}
    mixed = [each for each in find_heads([silent, *scenes], "noun").heads if each.kind == "cross"]
    assert {len(each.each) for each in mixed} == {2}


def test_one_clean_head_is_shown_alone_and_a_few_where_none_is(scenes):
    heads = find_heads(scenes, "noun").heads
    clean = tuple(type(each)(**{**vars(each), "weight": 0.5}) for each in heads)
    muddy = tuple(type(each)(**{**vars(each), "weight": 0.49}) for each in heads)
    assert (Finding("noun", clean, 2).is_clean, len(Finding("noun", clean, 2).shown)) == (True, 1)
    assert (Finding("noun", muddy, 2).is_clean, len(Finding("noun", muddy, 2).shown)) == (False, 3)


def test_the_pronoun_of_a_translation():
    assert pronoun("L'animal n'a pas traversé la rue parce qu'elle était large") == "elle"
    assert pronoun("Il dort.") == "il"
    assert pronoun("Le chat dort.") == ""


def test_every_measured_sentence_ends_with_what_tells(make_place, tmp_path):
    links = links_of(sentences_for(make_place(tmp_path)))
    assert links
    for linked in links:
        words = re.findall(r"[\w']+", linked.text)
        assert words[-1] == linked.adjective
        assert words.index(linked.noun) < words.index("it") < words.index(linked.adjective)


def test_a_lectures_expectation_is_counted_over_every_head(demo, scenes):
    highest = whole = cases = 0
    for each in scenes:
        words = each.linked.text.split()
        for head in range(demo.model.config.heads):
            row = each.seen["encoder.0.attention.scores"][head, words.index("it"), : len(words)]
            order = [words[place] for place in np.argsort(-row)]
            highest += order[0] == each.linked.noun
            whole += order[:2] == [each.linked.noun, "it"]
            cases += 1
    found = expected_order(scenes)
    assert (found.cases, found.noun_highest, found.whole) == (cases, highest, whole)
    assert found.by_chance == pytest.approx(cases / len(TIRED.text.split()))


def test_an_order_as_expected_is_found(scenes, monkeypatch):
    told = scenes[0]
    wanted = np.zeros((demo_heads := told.seen.heads, 20, 20))
    wanted[0, :, told.seen.side("source").find("animal")[0]] = 2
    wanted[0, :, told.seen.side("source").find("it")[0]] = 1
    wanted[1, :, told.seen.side("source").find("animal")[0]] = 2
    wanted[1, :, told.seen.side("source").find("tired")[0]] = 1
    wanted[2:, :, told.seen.side("source").find("street")[0]] = 1
    monkeypatch.setattr(type(told.seen), "__getitem__", lambda self, name: wanted)
    found = expected_order([told])
    assert (found.cases, found.noun_highest, found.whole) == (demo_heads, 2, 1)


def test_an_open_meaning_has_both_chances(demo):
    found = bank_meanings(demo.model)
    assert [each.ending for each in found] == ["…", "river", "street"]
    sources = [lecture.source for lecture in LECTURES]
    target = demo.model.tokenizers.target
    for each in found:
        text = UNFINISHED if each.ending == "…" else f"{UNFINISHED} {each.ending}"
        assert each.ending == "…" or text in sources
        place = len(target.encode(BEFORE))
        told = demo.model.alternatives(text, place, translation=f"{BEFORE} rive", top=target.vocabulary)
        chances = {choice.text.strip(): choice.probability for choice in told}
        for word in SENSES:
            assert each.chances[word] == pytest.approx(chances[word], rel=1e-4)


def test_the_open_meaning_can_be_seen_by_hand(demo, capsys):
    """The command and the Python of docs/demo.md."""
    page = (Path(__file__).parents[3] / "docs" / "demo.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^regard inspect demo (.+--compare.+)$", page, re.MULTILINE)
    assert run(["inspect", str(demo.folder), *shlex.split(command)]) == 0
    assert "After “suis arrivé à la”" in capsys.readouterr().out
    texts = (UNFINISHED, f"{UNFINISHED} river")
    both = compare(*(inspect(demo.model, text, BEFORE) for text in texts))
    shown = {each.text: (each.first, each.second) for each in both.next(top=demo.model.config.vocabulary)}
    still_open, river, _ = bank_meanings(demo.model)
    for word in SENSES:
        assert shown[word] == pytest.approx((still_open.chances[word], river.chances[word]), rel=1e-6)
