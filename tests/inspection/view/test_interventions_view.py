"""Interventions, rival words, two sentences side by side: the arithmetic behind the panels."""

from __future__ import annotations

import numpy as np
import pytest

from regard.inspection.analysis.interventions import TOLERANCE

ROW = [0.1, 0.4, 0.2, 0.0, 0.3]
WORDS = [{"positions": [0]}, {"positions": [1, 2]}, {"positions": [3]}, {"positions": [4]}]
PLACE = {"kind": "cross", "layer": 0, "head": 1, "query": 2}


def test_weight_moves_from_one_word_to_another(run):
    row = run(
        "tabs/inspect/interventions.js",
        "it.moveWeight(asked.row, asked.words, 1, 2, 0.3)",
        row=ROW,
        words=WORDS,
    )
    np.testing.assert_allclose(row, [0.1, 0.2, 0.1, 0.3, 0.3])  # pieces keep their proportion


def test_no_more_is_moved_than_there_is(run):
    row = run(
        "tabs/inspect/interventions.js",
        "it.moveWeight(asked.row, asked.words, 1, 0, 5)",
        row=ROW,
        words=WORDS,
    )
    np.testing.assert_allclose(row, [0.7, 0, 0, 0, 0.3])
    assert (
        run(
            "tabs/inspect/interventions.js",
            "it.moveWeight(asked.row, asked.words, 1, 1, 0.2)",
            row=ROW,
            words=WORDS,
        )
        == ROW
    )


def test_a_typed_weight_scales_the_others(run):
    told = run(
        "tabs/inspect/interventions.js", "it.setWeight(asked.row, asked.words, 3, 0.65)", row=ROW, words=WORDS
    )
    np.testing.assert_allclose(told["row"], [0.05, 0.2, 0.1, 0.0, 0.65])
    assert told["factor"] == pytest.approx(0.5)


def test_what_a_word_with_everything_gives_up_goes_to_the_others_alike(run):
    words = [{"positions": [0]}, {"positions": [1]}, {"positions": [2]}, {"positions": [3], "hidden": True}]
    told = run(
        "tabs/inspect/interventions.js", "it.setWeight([1, 0, 0, 0], asked.words, 0, 0.5)", words=words
    )
    assert told == {"row": [0.5, 0.25, 0.25, 0], "factor": None}


@pytest.mark.parametrize("weight", [-1, 0, 0.123, 1, 7])
def test_every_row_is_one_that_the_model_takes(run, weight):
    told = run(
        "tabs/inspect/interventions.js",
        "it.setWeight(asked.row, asked.words, 1, asked.weight)",
        row=ROW,
        words=WORDS,
        weight=weight,
    )
    assert min(told["row"]) >= 0
    assert abs(sum(told["row"]) - 1) < TOLERANCE / 1e6


def test_a_row_as_it_was_is_no_intervention(run):
    intervention = {**PLACE, "row": [0.5, 0.5]}
    asked = {"intervention": intervention, "other": {**intervention, "head": 3}}
    assert run(
        "tabs/inspect/interventions.js",
        "it.withIntervention([asked.other], asked.intervention, [0.5, 0.5])",
        **asked,
    ) == [asked["other"]]
    assert run(
        "tabs/inspect/interventions.js",
        "it.withIntervention([asked.intervention], asked.intervention, [0.4, 0.6])",
        **asked,
    ) == [intervention]


def test_the_same_part_moves_in_every_head(run):
    rows = [{**PLACE, "head": 0, "row": [0.8, 0.2]}, {**PLACE, "head": 1, "row": [0.4, 0.6]}]
    words = [{"positions": [0]}, {"positions": [1]}]
    moved = run(
        "tabs/inspect/interventions.js",
        "it.moveEverywhere([], asked.rows, asked.words, 0, 1, 0.5)",
        rows=rows,
        words=words,
    )
    np.testing.assert_allclose([intervention["row"] for intervention in moved], [[0.4, 0.6], [0.2, 0.8]])
    again = run(
        "tabs/inspect/interventions.js",
        "it.moveEverywhere(asked.moved, asked.rows, asked.words, 0, 1, 0)",
        moved=moved,
        rows=rows,
        words=words,
    )
    assert again == moved


def test_where_two_outputs_part(run):
    tokens = [[{"id": 1}, {"id": 5}, {"id": 7}], [{"id": 1}, {"id": 5}, {"id": 8}, {"id": 9}]]
    assert run("core/rivals.js", "it.forkOf(...asked.tokens)", tokens=tokens) == {
        "position": 1,
        "words": [7, 8],
    }
    assert run("core/rivals.js", "it.forkOf(asked.tokens[0], asked.tokens[0])", tokens=tokens) is None


def test_rivals_where_nothing_is_known_of_them(run):
    logits = [[5.0, 0, 0], [2.0, 1.9, 0], [0, 4.0, 3.0]]
    assert run("core/rivals.js", "it.closestRace(asked.logits)", logits=logits) == {
        "position": 1,
        "words": [0, 1],
    }


def test_the_position_that_changed_most(run):
    before, after = [[3.0, 0, 0], [3.0, 0, 0]], [[2.9, 0, 0], [0, 0, 3.0]]
    told = run("core/rivals.js", "it.widestChange(asked.before, asked.after)", before=before, after=after)
    assert (told["position"], told["words"]) == (1, [0, 2])


def test_words_that_differ(run):
    texts = ["a rue parce qu'il était fatigué", "a rue parce qu'elle était très large"]
    first, second = run("tabs/compare/comparing.js", "it.differing(...asked.texts)", texts=texts)
    assert [word["text"] for word in first if word["differs"]] == ["qu'il", "fatigué"]
    assert [word["text"] for word in second if word["differs"]] == ["qu'elle", "très", "large"]
    assert " ".join(word["text"] for word in second) == texts[1]


@pytest.mark.parametrize(("wanted", "number"), [("animal", 0), (None, 2), ("gone", 1)])
def test_the_word_to_watch(run, wanted, number):
    words = [{"text": "Animal"}, {"text": "it"}, {"text": "tired"}, {"text": "<end>", "special": "end"}]
    assert (
        run(
            "tabs/compare/comparing.js",
            "it.wordToWatch(asked.words, asked.wanted)",
            words=words,
            wanted=wanted,
        )
        == number
    )


def test_what_changed_most_is_said(run):
    change = {"first": [0.7, 0.2, 0.1], "second": [0.2, 0.7, 0.1], "distance": 0.5}
    say = "it.changeSentence(asked.change, ['animal', 'street', 'end'], 'it', asked.causal, 'Head 1')"
    told = run("tabs/compare/comparing.js", say, change=change, causal=False)
    assert told.startswith("Head 1 changed most: 50 % of what “it” looks at went elsewhere")
    assert told.endswith("from “animal” to “street”.")
    assert "sees later ones" in run(
        "tabs/compare/comparing.js", say, change={**change, "distance": 0.0}, causal=True
    )


def test_what_is_changed_by_hand_survives_the_address(run):
    given = {"x": [[1, 0], [0, 1]], "wq": [[1], [1]]}
    cells = {"x.0.1": "-2", "wq.1.0": "0.5"}
    line = run("tabs/by_hand/problem.js", "it.writeCells(asked.cells)", cells=cells)
    assert (
        run("tabs/by_hand/problem.js", "it.readCells(asked.line, asked.given)", line=line, given=given)
        == cells
    )
    assert (
        run("tabs/by_hand/problem.js", "it.readCells('x.9.9:1,y.0.0:2,x.0.0', asked.given)", given=given)
        == {}
    )
    told = run(
        "tabs/by_hand/problem.js",
        "it.withCells(asked.given, asked.cells)",
        given=given,
        cells={**cells, "x.0.0": "?"},
    )
    assert told["given"] == {"x": [[1, -2], [0, 1]], "wq": [[1], [0.5]]}
    assert list(told["faults"]) == ["x.0.0"]


def test_rules_survive_the_address(run):
    rules = {
        "scale": True,
        "causal": False,
        "turned": True,
        "temperature": 0.5,
        "decimals": 0,
        "keyWidth": 64,
        "row": 2,
    }
    line = run("tabs/by_hand/problem.js", "it.writeRules(asked.rules)", rules=rules)
    assert line == "scale turned T0.5 round0 dk64 row2"
    assert run("tabs/by_hand/problem.js", "it.readRules(asked.line)", line=line) == rules
    strange = run("tabs/by_hand/problem.js", "it.readRules('T0 round99 dk-1 row1e9 <b>')")
    assert (strange["temperature"], strange["decimals"], strange["keyWidth"], strange["row"]) == (
        1,
        None,
        None,
        0,
    )


def test_written_ids_survive_the_address(run):
    assert run("tabs/write/writing.js", "it.readIds(it.writeIds([44, 75, 18]))") == [44, 75, 18]
    assert run("tabs/write/writing.js", "[it.writeIds([]), it.readIds(null), it.readIds('4.x.-1.5')]") == [
        None,
        [],
        [4, 5],
    ]
