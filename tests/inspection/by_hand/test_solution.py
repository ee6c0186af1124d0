"""Every step as numbers, against numpy on its own."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.errors import SettingError, ShapeError
from regard.inspection.by_hand.examples import EXAMPLES, find_example
from regard.inspection.by_hand.problem import pose
from regard.inspection.by_hand.solution import Rules, round_to_whole, similarities_by_hand, solve
from regard.model.similarity import SIMILARITIES

QUERY = np.array([[1.0, 2.0], [0.0, -1.0]])
KEY = np.array([[1.0, 1.0], [2.0, 0.0]])
VALUE = np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 1.0]])


def solution(rules: Rules | None = None, **matrices):
    """Small matrices solution out."""
    return solve(pose(matrices or {"q": QUERY, "k": KEY, "v": VALUE}), rules or Rules())


def example(name: str, **changes):
    """An example solution out."""
    found = find_example(name)
    problem = pose(found.given, found.words, found.query_words, found.key_width)
    return solve(problem, Rules(**{**found.rules, **changes}))


def softmax(scores: np.ndarray) -> np.ndarray:
    """Written down independently of the model."""
    powers = np.exp(scores)
    return powers / powers.sum(1, keepdims=True)


def test_two_words():
    two = example("A")
    assert (two.scores.tolist(), two.divisor, two.scaled.tolist()) == ([[112, 96]], 8, [[14, 12]])
    assert two.weights.round(4).tolist() == [[0.8808, 0.1192]]
    assert two.output is None


def test_three_inputs_exact_and_rounded():
    three = example("B")
    assert three.output is not None
    assert three.rounded is not None
    assert three.rounded.output is not None
    assert three.weights[0].round(4).tolist() == [0.0634, 0.4683, 0.4683]
    assert three.output.round(4).tolist() == [
        [1.9366, 6.6831, 1.5951],
        [2.0000, 7.9640, 0.0540],
        [1.9997, 7.7599, 0.3584],
    ]
    assert three.rounded.weights.tolist() == [[0, 0.5, 0.5], [0, 1, 0], [0, 0.9, 0.1]]
    assert three.rounded.output.round(9).tolist() == [[2.0, 7.0, 1.5], [2.0, 8.0, 0.0], [2.0, 7.8, 0.3]]


def test_three_inputs_answer_the_questions():
    three = example("B")
    assert three.problem.learned == ["W^Q", "W^K", "W^V"]
    assert three.strongest == [[1, 2], [1], [1]]


def test_three_inputs_divided():
    assert example("B", scale=True).weights[0].round(4).tolist() == [0.1361, 0.4319, 0.4319]


def test_a_masked_pattern():
    six = example("C")
    assert (np.isneginf(six.masked) == np.triu(np.ones((6, 6), bool), 1)).all()
    assert six.weights[5] == pytest.approx([0.00, 0.46, 0.02, 0.01, 0.48, 0.03], abs=0.0055)
    assert (six.weights[np.isneginf(six.masked)] == 0).all()


def test_words_in_context():
    mixed = example("D")
    assert mixed.weights == pytest.approx(np.array([[0.4, 0.4, 0.2], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]]))
    assert mixed.output == pytest.approx(mixed.weights)


def test_steps_equal_numpy():
    found = solution(Rules(temperature=2.0))
    scores = QUERY @ KEY.T
    weights = softmax(scores / np.sqrt(2) / 2)
    assert found.scores == pytest.approx(scores)
    assert found.scaled == pytest.approx(scores / np.sqrt(2) / 2)
    assert found.weights == pytest.approx(weights)
    assert found.output == pytest.approx(weights @ VALUE)
    assert found.exponentials / found.exponentials.sum(1, keepdims=True) == pytest.approx(weights)


@pytest.mark.parametrize(
    ("rules", "divisor"),
    [
        (Rules(), np.sqrt(2)),
        (Rules(scale=False), 1),
        (Rules(similarity="dot"), 1),
        (Rules(similarity="dot", scale=True), np.sqrt(2)),
        (Rules(similarity="cosine"), 1),
    ],
)
def test_what_the_scores_are_divided_by(rules, divisor):
    found = solution(rules)
    assert found.divisor == pytest.approx(divisor)
    assert found.scaled == pytest.approx(found.scores / divisor)


def test_cosine_of_equal_and_opposite_directions():
    found = solution(Rules(similarity="cosine"), q=[[3, 4]], k=[[6, 8], [-3, -4]])
    assert found.scores == pytest.approx(np.array([[1.0, -1.0]]))


def test_a_mask_and_causality_hide_together():
    found = solution(Rules(causal=True, mask=np.array([[True, True], [False, True]])))
    assert np.isneginf(found.masked).tolist() == [[False, True], [True, False]]
    assert found.output == pytest.approx(VALUE)


def test_a_query_that_may_look_at_nothing_gets_zeros():
    found = solution(Rules(mask=np.array([[False, False], [True, True]]), decimals=1))
    assert found.rounded is not None
    assert not found.weights[0].any()
    assert not found.exponentials[0].any()
    assert not found.rounded.weights[0].any()
    assert found.strongest[0] == []


def test_one_row_alone_is_the_same_row():
    whole, one = example("B"), example("B").only(2)
    assert one.output is not None
    assert whole.output is not None
    assert one.problem.query_words == ("input 3",)
    assert one.weights.tolist() == whole.weights[2:].tolist()
    assert one.output.tolist() == whole.output[2:].tolist()
    assert one.exponentials.tolist() == whole.exponentials[2:].tolist()
    assert one.as_dict()["rounded"]["weights"] == [[0.0, 0.9, 0.1]]


@pytest.mark.parametrize("row", [-1, 3])
def test_a_row_that_is_not_there(row):
    with pytest.raises(SettingError, match=rf"row \({row}\) must be 0 to 2"):
        example("B").only(row)


@pytest.mark.parametrize("name", [example.letter for example in EXAMPLES])
def test_every_step_is_plain_data(name):
    found = example(name)
    read = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert read["weights"] == found.weights.tolist()
    assert read == found.as_dict()


def test_the_examples_are_plain_data():
    listed = json.loads(json.dumps([example.as_dict() for example in EXAMPLES], allow_nan=False))
    assert [example["letter"] for example in listed] == ["A", "B", "C", "D"]
    assert listed[1]["given"]["x"] == [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]


def test_minus_infinity_is_null():
    assert example("C").as_dict()["masked"][0] == [3.53, None, None, None, None, None]


def test_by_hand_are_the_measures_without_trained_weights(monkeypatch):
    assert similarities_by_hand() == ["cosine", "dot", "scaled-dot"]
    monkeypatch.setitem(SIMILARITIES, "mine", SIMILARITIES["dot"])
    assert "mine" in similarities_by_hand()
    assert solution(Rules(similarity="mine")).scores == pytest.approx(QUERY @ KEY.T)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            {"similarity": "bilinear"},
            "bilinear has trained weights; by hand there are cosine, dot, scaled-dot",
        ),
        ({"similarity": "cosin"}, "did you mean cosine"),
        ({"temperature": 0.0}, "temperature .0. must be between"),
        ({"temperature": float("nan")}, "temperature .nan. must be between"),
        ({"decimals": 7}, "round .7. must be 0 to 6"),
        ({"decimals": -1}, "round .-1. must be 0 to 6"),
        ({"mask": np.ones((2, 3), bool)}, "mask is 2 x 3; it must be 2 x 2"),
    ],
)
def test_a_wrong_rule(rules, message):
    with pytest.raises((SettingError, ShapeError), match=message):
        solution(Rules(**rules))


def test_scores_alone_need_the_width_of_the_keys():
    with pytest.raises(SettingError, match="add --d-k"):
        solution(scores=[[1, 2]])
    with pytest.raises(SettingError, match="cosine compares Q with K"):
        solution(Rules(similarity="cosine"), scores=[[1, 2]])
    assert solution(Rules(scale=False), scores=[[1, 2]]).scaled.tolist() == [[1, 2]]


def test_causality_needs_as_many_queries_as_keys():
    with pytest.raises(ShapeError, match="1 queries and 2 keys"):
        solution(Rules(causal=True), q=[[1, 0]], k=KEY)


SHARES = arrays(
    float,
    st.tuples(st.integers(1, 4), st.integers(1, 8)),
    elements=st.one_of(st.just(0.0), st.floats(-30, 30)),
).map(softmax)


@given(SHARES, st.integers(0, 4))
def test_rounded_rows_keep_their_sum_and_stay_within_one_unit(weights, decimals):
    rounded = round_to_whole(weights, decimals)
    assert rounded.sum(1) == pytest.approx(1)
    assert np.abs(rounded - weights).max() < 10.0**-decimals + 1e-9
    assert rounded * 10**decimals == pytest.approx(np.rint(rounded * 10**decimals))
    assert (rounded >= 0).all()


@pytest.mark.parametrize(
    ("weights", "rounded"),
    [
        ([1 / 3, 1 / 3, 1 / 3], [0.4, 0.3, 0.3]),
        ([0.7, 0.2, 0.1], [0.7, 0.2, 0.1]),
        ([0.05, 0.95], [0.1, 0.9]),
        ([0.0634, 0.4683, 0.4683], [0.0, 0.5, 0.5]),
    ],
)
def test_missing_tenths_go_to_the_largest_remainders(weights, rounded):
    assert round_to_whole(np.array([weights]), 1).tolist() == [rounded]
