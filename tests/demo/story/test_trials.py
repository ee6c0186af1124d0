"""Heads off: what becomes of the sentences is what the model then writes, and more go off only if needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regard.demo.story import trials as room
from regard.demo.story.links import find_heads, least_linked
from regard.demo.story.trials import MOST_OFF, Without, try_without
from regard.inspection.analysis.ablation import chance


@pytest.fixture
def finding(scenes):
    """A head for each link, none of them clean."""
    return find_heads(scenes, "noun")


@pytest.fixture
def idle(scenes):
    """Every head, the least telling first."""
    return least_linked([find_heads(scenes, word) for word in ("noun", "adjective")])


def ablate(heads):
    return [(each.kind, each.layer, each.head) for each in heads]


def test_heads_are_tried_without(demo, scenes, finding, idle):
    trial = try_without(demo.model, scenes, finding, idle).shown
    assert trial.heads == finding.shown
    for each, told in zip(trial.sentences, scenes, strict=True):
        assert (each.text, each.before) == (told.linked.text, told.translation)
        assert each.after == demo.model.translate(told.linked.text, beams=1, ablate=ablate(trial.heads)).text
        without = told.seen.again(ablate=ablate(trial.heads))
        assert each.rivals is not None
        assert each.rivals.before[0] == chance(told.seen, "il", told.query("cross"))
        assert each.rivals.after[1] == chance(without, "elle", told.query("cross"))


def test_more_go_off_until_a_sentence_flips(demo, scenes, finding, idle, monkeypatch):
    clean = replace(finding, heads=(replace(finding.best, weight=0.9), *finding.heads[1:]))
    monkeypatch.setattr(room, "_flips", lambda told, heads: len(heads) >= 3)
    found = try_without(demo.model, scenes, clean, idle)
    assert found.shown.heads == clean.heads[:1]
    assert found.more is not None
    assert found.more.heads == clean.heads[:3]
    assert found.control is not None
    places = [(each.kind, each.layer, each.head) for each in idle]
    assert ablate(found.control.heads) == [each for each in places if each not in ablate(clean.heads[:3])][:3]


def test_they_end_where_enough_were_tried(demo, scenes, monkeypatch):
    monkeypatch.setattr(room, "_flips", lambda told, heads: False)
    adjective = find_heads(scenes, "adjective")
    found = try_without(demo.model, scenes, adjective, adjective.heads[::-1])
    assert found.more is not None
    assert len(found.more.heads) == MOST_OFF
    assert found.control is None  # eight heads in all: there are not as many others


def test_heads_that_are_missed_are_enough(scenes, finding, idle):
    class Turning:
        def translate(self, texts, *, beams, ablate):
            return [type("Found", (), {"text": "parce qu'elle était fatigué"}) for _ in texts]

    found = try_without(Turning(), scenes, finding, idle)  # pyright: ignore[reportArgumentType]
    assert (found.more, found.last) == (None, found.shown)
    assert found.control is not None
    assert len(found.control.heads) == len(finding.shown)
    assert [each.flips for each in found.shown.main] == [True, False]
    assert found.shown.flipped == 1


def test_a_flip_is_another_pronoun():
    assert Without("", "parce qu'il dort", "parce qu'elle dort").flips
    assert not Without("", "parce qu'il dort", "car il mange").flips
    assert not Without("", "parce qu'il dort", "parce que").flips
    assert not Without("", "parce que", "parce qu'il dort").flips


def test_a_flip_is_foreseen_by_the_likelier_pronoun(scenes, finding):
    for count in (1, 4, 8, 12):
        heads = finding.heads[:count]
        turned = []
        for told in scenes:
            place = told.query("cross")
            both = [told.seen, told.seen.again(ablate=ablate(heads))]
            likelier = [chance(seen, "il", place) > chance(seen, "elle", place) for seen in both]
            turned.append(likelier[0] != likelier[1])
        assert room._flips(scenes, heads) == any(turned)


def test_an_idle_head_has_no_strong_link_with_either_word(scenes, idle):
    links = [find_heads(scenes, word) for word in ("noun", "adjective")]
    weights = {}
    for head in (head for finding in links for head in finding.heads):
        weights.setdefault((head.kind, head.layer, head.head), []).append(head.weight)
    assert ablate(idle) == sorted(weights, key=lambda place: max(weights[place]))
    assert len(idle) == 12
