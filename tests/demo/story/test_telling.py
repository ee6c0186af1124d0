"""What is told: the numbers are the model's, strange words are marked, French words explained."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from io import StringIO

import pytest
import typer
from rich.console import Console

from regard.cli.app import app
from regard.demo.glossary import gloss
from regard.demo.lectures import LECTURES, REVERSED
from regard.demo.story import language_model, telling
from regard.demo.story.corpus_files import families, show_samples
from regard.demo.story.language_model import PROMPTS, tell_language_model, word_by_word
from regard.demo.story.links import TIRED, Finding, bank_meanings, find_heads
from regard.demo.story.looks import share, show_finding, show_resolution, show_switch, show_trials
from regard.demo.story.promises import translate
from regard.demo.story.referents import Resolution, Switch
from regard.demo.story.sentence import interlinear, literal, show_own, strange_words
from regard.demo.story.telling import six_steps, tell
from regard.demo.story.training import obtain, sentences_for
from regard.demo.story.trials import Trial, Trials, Without
from regard.inspection.render.board import COLOURS, Board


@pytest.fixture
def paper():
    """A board of 80 columns, and what was written on it."""
    written = StringIO()
    return Board(Console(file=written, width=80, theme=COLOURS, highlight=False)), written


def test_the_story_tells_the_models_own_translations(demo, paper):
    board, written = paper
    tell(board, demo)
    told = " ".join(written.getvalue().split())
    for answer in translate(demo.model, [lecture.source for lecture in LECTURES]):
        assert " ".join(answer.split()[:3]) in told
    assert f"{100 * demo.facts['exact_match']:.1f} % to the letter" in told
    assert told.count("✓") == demo.facts["lectures_right"]
    assert told.count("✓") + told.count("✗") == len(LECTURES)


def test_the_words_that_matter_stand_out_and_what_is_the_same_is_told_once():
    shown = telling._with_bold("it was a bit too wide", ("it", "wide"))
    assert [shown.plain[span.start : span.end] for span in shown.spans] == ["it", "wide"]
    assert telling._with_bold("nothing", ("",)).spans == []
    first, second = (gloss(text) for text in ("parce qu'il était fatigué", "parce qu'elle était large"))
    assert [token for token, _ in telling._from_divergence(first, second)] == ["…", "elle", "était", "large"]
    assert telling._from_divergence(first, second[1:]) == second[1:]


def test_the_story_fits_eighty_columns_and_is_plain_where_no_terminal_is(demo, paper):
    board, written = paper
    tell(board, demo)
    assert max(map(len, written.getvalue().splitlines())) <= 80
    assert "\x1b" not in written.getvalue()


def test_the_bank_is_told_with_both_chances(demo, paper):
    board, written = paper
    tell(board, demo)
    told = [line.split("  ") for line in written.getvalue().splitlines()]
    rows = [[cell.strip() for cell in line if cell.strip()] for line in told]
    for each in bank_meanings(demo.model):
        assert [each.ending, *map(share, each.chances.values())] in rows


def finding_of(scenes, weight):
    heads = find_heads(scenes, "adjective").heads
    return Finding("adjective", tuple(type(each)(**{**vars(each), "weight": weight}) for each in heads), 2)


def test_a_clean_head_is_named_and_several_are_said_to_be_no_such_thing(scenes, paper):
    board, written = paper
    show_finding(board, clean := finding_of(scenes, 0.72), scenes)
    best = clean.best
    told = " ".join(written.getvalue().split())
    assert f"Of 8 heads, {best.kind} layer {best.layer} head {best.head} does it best" in told
    assert "72 % of its look" in told
    assert told.count("The animal didn't cross the street") == 2
    written.truncate(0)
    show_finding(board, finding_of(scenes, 0.2), scenes)
    told = " ".join(written.getvalue().split())
    assert "No head does it by itself" in told
    assert told.count("The animal didn't cross the street") == 6


def test_a_head_that_finds_the_referent_is_told_with_its_counts(demo, paper):
    board, written = paper
    show_resolution(board, demo.model, Resolution("bank", 0, 1, 30, 28, 29, 27, 0.8))
    told = " ".join(written.getvalue().split())
    assert "In encoder layer 0 head 1, “bank” attends most to what was crossed in 57 of 60 sentences" in told
    assert "In 27 of 30 pairs both sentences are right" in told
    assert all(place in told for place in ("river", "street"))
    show_resolution(board, demo.model, Resolution("it", 0, 1, 30, 30, 0, 0, 0.5))
    told = " ".join(written.getvalue().split())
    assert "No encoder head finds its noun in every kind of sentence. In encoder layer 0 head 1, “it”" in told
    assert "its noun in 30 of 60 sentences" in told


def test_only_a_head_that_switches_is_told(demo, paper):
    board, written = paper
    show_switch(board, demo.model, Switch(0, 1, "second", 30, 20, 10))
    assert written.getvalue() == ""
    show_switch(board, demo.model, Switch(0, 1, "second", 30, 29, 1))
    told = " ".join(written.getvalue().split())
    assert "the second noun in 29 of 30 sentences in which it is that noun, and in 1 of 30" in told


def test_a_look_back_is_shown_over_the_french_so_far(scenes, paper):
    board, written = paper
    back = [each for each in find_heads(scenes, "noun").heads if each.kind == "decoder"]
    show_finding(board, Finding("noun", (replace(back[0], weight=0.9), *back[1:]), 2), scenes)
    told = " ".join(written.getvalue().split())
    assert "looks back at its own French and gives the noun and its article 90 % of its look" in told
    assert told.count("<start> L' animal n' a pas traversé la rue parce qu'") == 2
    assert "était" not in told


def test_what_the_heads_are_needed_for_is_told(scenes, paper):
    heads = finding_of(scenes, 0.72).heads
    il, elle = "parce qu'il était fatigué", "parce qu'elle était fatigué"
    kept = Without("because it was tired", il, il)
    turned = Without("because it was tired", il, elle)
    board, written = paper
    show_trials(board, Trials(Trial(heads[:1], (turned, kept))))
    told = " ".join(written.getvalue().split())
    assert "Is it needed? The same without this head: … was tired: il → elle, it flips" in told
    assert "spared" not in told
    assert "In all, 1 of the 2 sentences flips without it." in told
    spared = Trial(heads[:1], (kept, kept))
    show_trials(board, Trials(spared, Trial(heads[:2], (turned, kept)), Trial(heads[6:], (kept, kept))))
    told = " ".join(written.getvalue().split())
    assert "It can be spared" in told
    assert f"({heads[1].kind}.0.{heads[1].head})" in told
    assert "In all, 1 of the 2 sentences flips without these 2, and 0 without the 2 that look least" in told
    show_trials(board, Trials(spared, Trial(heads[:2], (kept, kept))))
    assert "none of the 2 sentences flips" in " ".join(written.getvalue().split())


@pytest.mark.parametrize(
    "call", [call for steps in (*telling.NEXT.values(), language_model.NEXT) for call, _ in steps]
)
def test_what_to_try_next_can_be_typed(call, monkeypatch, tmp_path):
    monkeypatch.setattr("regard.demo.story.model_store.trained_folder", lambda name: tmp_path)
    _, command, *arguments = shlex.split(call)
    typer.main.get_command(app).commands[command].make_context(command, arguments)  # pyright: ignore


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


def test_the_way_back_is_told_with_the_models_own_words(make_place, tmp_path, paper):
    board, written = paper
    found = obtain(make_place(tmp_path / "model", name="demo-reverse"), show=False)
    tell(board, found)
    told = " ".join(written.getvalue().split())
    assert "Two words become one" in told
    assert "What it is" not in told
    for answer in translate(found.model, [lecture.source for lecture in REVERSED]):
        assert " ".join(answer.split()[:2]) in told
    assert told.count("✓") + told.count("✗") == len(REVERSED)
    assert max(map(len, written.getvalue().splitlines())) <= 80


def test_samples_show_every_family(make_place, tmp_path, paper):
    board, written = paper
    sentences = sentences_for(make_place(tmp_path))
    show_samples(board, sentences, 2)
    for family, pairs in families(sentences).items():
        assert f"{family}: {len(pairs):,} pairs" in written.getvalue()
    assert sum(map(len, families(sentences).values())) == 4000


def test_the_writing_story_completes_at_three_temperatures(make_place, tmp_path, paper):
    board, written = paper
    writer = obtain(make_place(tmp_path / "model", name="demo-language-model"), show=False)
    tell_language_model(board, writer)
    for prompt in PROMPTS:
        assert prompt in written.getvalue()
    for temperature in (" 0", "0.8", "1.5"):
        assert len(re.findall(rf"^ +{temperature}(?=  |$)", written.getvalue(), re.MULTILINE)) == len(PROMPTS)
    first = writer.model.next_words("The quick brown").top(1)[0]
    assert word_by_word(writer.model, "The quick brown")[0][1].plain == f"{100 * first.probability:.1f} %"
