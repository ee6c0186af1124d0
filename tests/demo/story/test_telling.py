"""What is told: the numbers are the model's, strange words are marked, French words explained."""

from __future__ import annotations

import re
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from regard.demo.glossary import gloss
from regard.demo.lectures import LECTURES
from regard.demo.story.links import (
    TIRED,
    Finding,
    Scene,
    Without,
    decisive,
    find_heads,
    links_of,
    pronoun,
    scene,
    scenes_of,
)
from regard.demo.story.promises import translate
from regard.demo.story.samples import families, show_samples
from regard.demo.story.sentence import interlinear, literal, show_own, strange_words
from regard.demo.story.telling import six_steps, tell
from regard.demo.story.training import obtain, sentences_for
from regard.demo.story.writing import PROMPTS, tell_writing, word_by_word
from regard.inspection.by_hand.board import COLOURS, Board
from regard.inspection.effect import chance
from regard.inspection.trace import inspect


@pytest.fixture
def paper():
    """A board of 80 columns, and what was written on it."""
    written = StringIO()
    return Board(Console(file=written, width=80, theme=COLOURS, highlight=False)), written


@pytest.fixture(scope="module")
def scenes(demo):
    return list(scenes_of(demo.model, demo.facts))


def test_the_story_tells_the_models_own_translations(demo, paper):
    board, written = paper
    tell(board, demo)
    told = " ".join(written.getvalue().split())
    for answer in translate(demo.model, [lecture.source for lecture in LECTURES]):
        assert " ".join(answer.split()[:3]) in told
    assert f"{100 * demo.facts['exact_match']:.1f} % to the letter" in told
    assert told.count("✓") == demo.facts["lectures_right"]
    assert told.count("✓") + told.count("✗") == len(LECTURES)


def test_the_story_fits_eighty_columns_and_is_plain_where_no_terminal_is(demo, paper):
    board, written = paper
    tell(board, demo)
    assert max(map(len, written.getvalue().splitlines())) <= 80
    assert "\x1b" not in written.getvalue()


@pytest.mark.parametrize("word", ["noun", "adjective"])
def test_the_best_head_is_the_one_with_the_largest_mean_weight(demo, scenes, word):
    finding = find_heads(demo.model, scenes, scenes[:2], word)
    means = {}
    for head in range(demo.model.config.heads):
        found = []
        for each in scenes:
            source = each.seen.side("source")
            weights = each.seen.attention("encoder", 0, head)
            found.append(weights[source.find("it")[0], source.find(getattr(each.linked, word))[0]])
        means[head] = np.mean(found)
    assert len(scenes) > 2
    assert finding.heads[0].head == max(means, key=lambda head: means[head])
    assert finding.heads[0].weight == pytest.approx(max(means.values()), abs=1e-6)


def test_heads_are_tried_without(demo, scenes):
    finding = find_heads(demo.model, scenes, scenes[:2], "noun")
    off = [(each.kind, each.layer, each.head) for each in finding.shown]
    for each, told in zip(finding.without, scenes, strict=False):
        assert each.before == told.translation == translate(demo.model, [told.linked.text])[0]
        assert each.after == demo.model.translate(told.linked.text, beams=1, off=off).text


def test_the_decisive_head_is_the_one_that_the_pronoun_misses_most(demo):
    linked = scene(demo.model, TIRED).linked
    french = "L'animal n'a pas traversé la rue parce qu'il était trop fatigué"
    told = Scene(linked, inspect(demo.model, linked.text, french))
    found = decisive(told)
    assert found is not None
    assert told.seen.followed[found.position] == demo.model.tokenizers.target.encode("il")[0]
    left = {}
    for head in range(demo.model.config.heads):
        left[head] = chance(told.seen.again(off=[("cross", 0, head)]), "il", found.position)
    assert found.head == min(left, key=lambda head: left[head])
    assert (found.before, found.after) == (chance(told.seen, "il", found.position), left[found.head])
    assert decisive(Scene(linked, inspect(demo.model, linked.text, "Le chat dort."))) is None


def test_one_clean_head_is_shown_alone_and_a_few_where_none_is(demo, scenes):
    heads = find_heads(demo.model, scenes, [], "noun").heads
    clean = tuple(type(each)(**{**vars(each), "weight": 0.5}) for each in heads)
    muddy = tuple(type(each)(**{**vars(each), "weight": 0.49}) for each in heads)
    assert (Finding(clean, ()).is_clean, len(Finding(clean, ()).shown)) == (True, 1)
    assert (Finding(muddy, ()).is_clean, len(Finding(muddy, ()).shown)) == (False, 3)


def test_a_flip_is_another_pronoun():
    assert pronoun("L'animal n'a pas traversé la rue parce qu'elle était large") == "elle"
    assert pronoun("Il dort.") == "il"
    assert pronoun("Le chat dort.") == ""
    assert Without("", "parce qu'il dort", "parce qu'elle dort", None).flips
    assert not Without("", "parce qu'il dort", "car il mange", None).flips


def test_every_measured_sentence_ends_with_what_tells(make_place, tmp_path):
    links = links_of(sentences_for(make_place(tmp_path)))
    assert links
    for linked in links:
        words = re.findall(r"[\w']+", linked.text)
        assert words[-1] == linked.adjective
        assert words.index(linked.noun) < words.index("it") < words.index(linked.adjective)


def test_the_six_steps_are_the_models_numbers(scenes):
    seen = scenes[0].seen
    steps = seen.steps("encoder", 0, 1, "it")
    (key,) = seen.side("source").find(TIRED.noun)
    rows = [[cell.plain for cell in row] for row in six_steps(steps, key)]
    assert [row[0] for row in rows] == list("123456")
    query = seen.side("source").find("it")[0]
    assert rows[3][2].endswith(f"= {seen.attention('encoder', 0, 1)[query, key]:.3f}")
    assert rows[1][2] == f"q · k = {seen['encoder.0.attention.scores'][1, query, key]:.2f}"
    assert steps.agree


def test_strange_words_are_marked(demo, paper):
    board, written = paper
    show_own(board, demo.model, demo.facts, "The zebra’s cat didn’t see [b] zebra.")
    assert strange_words(demo.model, demo.facts, "The cat didn’t see it because it was big.") == []
    told = " ".join(written.getvalue().split())
    assert "The ‹zebra’s› cat didn’t see ‹[b]› ‹zebra.›" in told
    assert "Never met in training: zebra's, b, zebra." in told


def test_a_gloss_stands_under_its_word():
    lines = [line.plain for line in interlinear(gloss("parce qu'il était fatigué", ""), 30)]
    assert all(len(line) <= 30 for line in lines)
    above, below = lines[:2]
    assert above.index("qu'") == below.index("that")
    assert lines[2] == ""
    assert lines[-2].index("fatigué") == lines[-1].index("tired")


def test_il_is_glossed_by_its_noun():
    french = "L'animal n'a pas traversé la rue parce qu'il était trop fatigué"
    told = "\n".join(line.plain for line in interlinear(gloss(french, TIRED.text), 80))
    assert "it, masculine, as animal is" in told
    assert literal(french, TIRED.text) == (
        "the animal has not crossed the street because that it was too tired"
    )


def test_samples_show_every_family(make_place, tmp_path, paper):
    board, written = paper
    sentences = sentences_for(make_place(tmp_path))
    show_samples(board, sentences, 2)
    for family, pairs in families(sentences).items():
        assert f"{family}: {len(pairs):,} pairs" in written.getvalue()
    assert sum(map(len, families(sentences).values())) == 4000


def test_the_writing_story_completes_at_three_temperatures(make_place, tmp_path, paper):
    board, written = paper
    writer = obtain(make_place(tmp_path / "model", name="demo-writing"), show=False)
    tell_writing(board, writer)
    for prompt in PROMPTS:
        assert prompt in written.getvalue()
    for temperature in (" 0", "0.8", "1.5"):
        assert len(re.findall(rf"^ +{temperature}(?=  |$)", written.getvalue(), re.MULTILINE)) == len(PROMPTS)
    first = writer.model.next_words("The quick brown").top(1)[0]
    assert word_by_word(writer.model, "The quick brown")[0][1].plain == f"{100 * first.probability:.1f} %"
