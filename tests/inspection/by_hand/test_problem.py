"""What is given, and whether it fits together."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import SettingError, ShapeError, UsageError
from regard.inspection.by_hand.examples import EXAMPLES, find_example
from regard.inspection.by_hand.problem import pose
from regard.inspection.by_hand.solution import ask

EYE = [[1, 0], [0, 1]]
PROJECTED = {"x": EYE, "wq": EYE, "wk": EYE, "wv": EYE}


def test_inputs_are_projected():
    problem = pose({**PROJECTED, "wq": [[1, 2, 3], [4, 5, 6]], "wk": [[0, 1, 0], [1, 0, 2]]})
    assert problem.query.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert problem.key_width == 3
    assert problem.learned == ["W^Q", "W^K", "W^V"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no input; give one of"),
        ({"wq": EYE}, "no input; give one of"),
        ({"x": EYE, "q": EYE}, "X and Q; give one of"),
        ({"x": EYE, "wq": EYE, "wv": EYE}, "W.K is missing; X needs it, add --wk"),
        ({"q": EYE, "v": EYE}, "K is missing; Q needs it, add --k"),
        ({**PROJECTED, "v": EYE}, "V is given with X"),
        ({"scores": EYE, "k": EYE}, "K is given with scores"),
        ({"weights": [[0.5, 0.6]]}, "add up to 1"),
        ({"weights": [[1.0, 0.0]]}, "above 0"),
    ],
)
def test_what_does_not_go_together(given, message):
    with pytest.raises(SettingError, match=message):
        pose(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {**PROJECTED, "wk": [[1, 2]]},
            "X is 2 x 2 and W.K is 1 x 2; they do not multiply: W.K needs 2 rows",
        ),
        ({**PROJECTED, "wq": [[1], [2]]}, "Q is 2 x 1 and K is 2 x 2; both need the same width"),
        ({"q": [[1, 2, 3]], "k": EYE}, "Q is 1 x 3 and K is 2 x 2; both need the same width"),
        ({"q": EYE, "k": EYE, "v": [[1, 2]]}, "K is 2 x 2 and V is 1 x 2; both need a row for every word"),
        ({"scores": [[1, 2, 3]], "v": EYE}, "V is 2 x 2; both need a row"),
    ],
)
def test_shapes_that_do_not_fit(given, message):
    with pytest.raises(ShapeError, match=message):
        pose(given)


@pytest.mark.parametrize(
    ("words", "queries", "keys"),
    [
        ([], ("0", "1"), ("0", "1", "2")),
        (["a", "b", "c"], ("0", "1"), ("a", "b", "c")),
        (["a", "b"], ("a", "b"), ("0", "1", "2")),
        (["a\x1b[2J", "b\n"], ("a?[2J", "b?"), ("0", "1", "2")),
    ],
)
def test_words_name_rows(words, queries, keys):
    problem = pose({"scores": np.ones((2, 3))}, words)
    assert (problem.query_words, problem.key_words) == (queries, keys)


def test_too_few_words():
    with pytest.raises(ShapeError, match=r"words has 1 \(a\); there are 2 queries or 3 keys to name"):
        pose({"scores": np.ones((2, 3))}, ["a"])


def test_examples_are_found_by_letter_and_name():
    for example in EXAMPLES:
        assert find_example(example.letter) is find_example(example.letter.lower()) is example
        assert find_example(example.name) is example
    with pytest.raises(SettingError, match="did you mean masked"):
        find_example("maskd")


def test_an_example_with_a_matrix_replaced_is_not_the_example_any_more():
    assert ask("B", {}, {}).example is find_example("B")
    changed = ask("B", {"x": "1 0 1 0; 0 2 0 2; 1 1 1 2"}, {})
    assert changed.example is None
    assert changed.solution.problem.given["x"][2, 3] == 2
    assert changed.solution.rounded is not None


def test_other_rules_are_not_the_sources_digits():
    same, other = (ask("B", {}, {"decimals": number}).example for number in (1, 2))
    assert same is not None
    assert other is not None
    assert same.rounded_by
    assert not other.rounded_by


def test_a_mask_is_read():
    solution = ask(None, {"q": "1 0; 0 1", "k": "1 0; 0 1"}, {"mask": "0 -inf; 0 0"}).solution
    assert solution.weights[0].tolist() == [1, 0]
    with pytest.raises(UsageError, match=r"no file missing\.csv"):
        ask("B", {}, {"mask": "missing.csv"})
