"""Attention by hand in the browser, against the same in Python and the lectures' own digits."""

from __future__ import annotations

import numpy as np
import pytest

from regard.inspection.by_hand.examples import EXAMPLES, find_example
from regard.inspection.by_hand.problem import pose
from regard.inspection.by_hand.solution import Rules, round_to_whole, solve

WORK = "it.workOut(asked.given, asked.rules, asked.keyWidth ?? null)"
PLAIN = {"scale": False, "causal": False, "temperature": 1, "decimals": None}


def examples_of(run) -> dict[str, dict]:
    """The page's examples by their letter."""
    return {example["letter"]: example for example in run("tabs/by_hand/examples.js", "it.EXAMPLES")}


@pytest.fixture(scope="module")
def solution(run):
    """An example solution out by the page, with other rules where asked."""

    def work(letter: str, **changes):
        example = examples_of(run)[letter]
        rules = {**example["rules"], **changes}
        return run(
            "tabs/by_hand/arithmetic.js",
            WORK,
            given=example["given"],
            rules=rules,
            keyWidth=example["keyWidth"],
        )

    return work


def test_the_page_has_the_examples_of_the_command_line(run):
    page = examples_of(run)
    for example in EXAMPLES:
        told = example.as_dict()
        assert page[example.letter]["given"] == told["given"]
        assert page[example.letter]["words"] == told["words"]
        assert page[example.letter]["queryWords"] == (told["query_words"] or told["words"])
        assert page[example.letter]["keyWidth"] == told["key_width"]


@pytest.mark.parametrize("letter", "ABCD")
@pytest.mark.parametrize("changes", [{}, {"temperature": 0.3}, {"temperature": 4.0, "decimals": 2}])
def test_every_step_is_that_of_python(solution, letter, changes):
    example = find_example(letter)
    page = solution(letter, **{"decimals": None, **changes})
    problem = pose(example.given, example.words, example.query_words, example.key_width)
    python = solve(problem, Rules(**{**example.rules, "decimals": None, **changes})).as_dict()
    assert page["divisor"] == python["divisor"]
    for name in ("scores", "scaled", "masked", "exponentials", "weights", "output"):
        assert_same(page[name], python[name])
    if changes.get("decimals"):
        assert_same(page["rounded"]["weights"], python["rounded"]["weights"])
        assert_same(page["rounded"]["output"], python["rounded"]["output"])


def assert_same(page: list | None, python: list | None) -> None:
    if python is None:
        assert page is None
        return
    left = [[-np.inf if number == "-inf" else number for number in row] for row in page or []]
    right = [[-np.inf if number is None else number for number in row] for row in python]
    np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)


def test_the_lectures_digits(solution):
    two = solution("A")
    assert (two["scaled"], np.round(two["weights"], 4).tolist()) == ([[14, 12]], [[0.8808, 0.1192]])
    three = solution("B")
    assert three["query"] == [[1, 0, 2], [2, 2, 2], [2, 1, 3]]
    assert three["key"] == [[0, 1, 1], [4, 4, 0], [2, 3, 1]]
    assert three["value"] == [[1, 2, 3], [2, 8, 0], [2, 6, 3]]
    assert three["scores"] == [[2, 4, 4], [4, 16, 12], [4, 12, 10]]
    assert np.round(three["weights"], 4).tolist() == [
        [0.0634, 0.4683, 0.4683],
        [0.0000, 0.9820, 0.0180],
        [0.0003, 0.8805, 0.1192],
    ]
    assert np.round(three["output"], 4).tolist() == [
        [1.9366, 6.6831, 1.5951],
        [2.0000, 7.9640, 0.0540],
        [1.9997, 7.7599, 0.3584],
    ]
    assert three["rounded"]["weights"][0] == [0.0, 0.5, 0.5]
    assert np.round(three["rounded"]["output"], 9).tolist() == [[2, 7, 1.5], [2, 8, 0], [2, 7.8, 0.3]]
    divided = solution("B", scale=True)
    assert np.round(divided["weights"][0], 4).tolist() == [0.1361, 0.4319, 0.4319]


def test_the_masked_pattern_as_the_deck_prints_it(solution):
    printed = [
        [1.00],
        [0.75, 0.25],
        [0.69, 0.08, 0.24],
        [0.92, 0.02, 0.02, 0.04],
        [0.46, 0.01, 0.22, 0.06, 0.24],
        [0.00, 0.46, 0.02, 0.01, 0.48, 0.03],
    ]
    weights = solution("C")["weights"]
    for row, exact in zip(printed, weights, strict=True):
        assert np.allclose(exact[: len(row)], row, atol=0.0055)
        assert not any(exact[len(row) :])


def test_words_in_context(solution):
    context = solution("D")
    assert np.round(context["output"], 12).tolist() == find_example("D").given["weights"]


def test_weights_rounded_early_keep_their_sum(run):
    drawn = np.random.default_rng(0).dirichlet(np.ones(7), 40)
    page = run("tabs/by_hand/arithmetic.js", "it.roundToWhole(asked.weights, 2)", weights=drawn.tolist())
    assert page == round_to_whole(drawn, 2).tolist()
    np.testing.assert_allclose(np.sum(page, 1), 1)


def test_ties_are_named_together(run):
    assert run("tabs/by_hand/arithmetic.js", "it.strongest([[0.1, 0.45, 0.45], [0.2, 0.7, 0.1]])") == [
        [1, 2],
        [1],
    ]


@pytest.mark.parametrize(
    ("typed", "number"), [("1.5", 1.5), (" -2 ", -2), ("−3", -3), ("0,25", 0.25), ("1e3", 1000)]
)
def test_numbers_as_people_type_them(run, typed, number):
    assert run("tabs/by_hand/arithmetic.js", "it.readNumber(asked.typed, 'X')", typed=typed) == number


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("", "is empty"),
        ("two", "“two”, which is not a number"),
        ("NaN", "not a number"),
        ("Infinity", "between"),
        ("1e31", "between -1e30 and 1e30"),
        ("</script>", "“</script>”"),
        ("1 2", "not a number"),
    ],
)
def test_what_is_no_number_is_a_sentence(run, typed, says):
    told = run("tabs/by_hand/arithmetic.js", "it.readNumber(asked.typed, 'X, row 0, column 1')", typed=typed)
    assert told["error"].startswith("X, row 0, column 1")
    assert says in told["error"]


@pytest.mark.parametrize(
    ("given", "rules", "says"),
    [
        ({"weights": [[0.5, 0.4]]}, {}, "adds up to 0.9"),
        ({"weights": [[1.0, 0.0]]}, {}, "a weight is above 0"),
        ({"scores": [[1, 2]]}, {"scale": True}, "do not tell dₖ"),
        ({"scores": [[1, 2]]}, {"temperature": 0}, "must be above 0"),
        ({"x": [[1, 2]], "wq": [[1]], "wk": [[1]], "wv": [[1]]}, {}, "W^Q needs 2 rows"),
    ],
)
def test_what_cannot_be_worked_out_is_a_sentence(run, given, rules, says):
    assert says in run("tabs/by_hand/arithmetic.js", WORK, given=given, rules={**PLAIN, **rules})["error"]


def test_the_largest_numbers_stay_numbers(run):
    huge = [[1e30, -1e30], [1e30, 1e30]]
    told = run(
        "tabs/by_hand/arithmetic.js",
        WORK,
        given=dict.fromkeys(("x", "wq", "wk", "wv"), huge),
        rules={**PLAIN, "temperature": 1e-6},
    )
    assert np.isfinite(told["output"]).all()


@pytest.mark.parametrize(
    ("numbers", "written"),
    [
        ([[1.0, 2.0]], [["1", "2"]]),
        ([[0.0634, 0.5]], [["0.0634", "0.5000"]]),
        ([[0.25, -0.00001]], [["0.2500", "0.0000"]]),
        ([[-0.000001, 3]], [["0.0000", "3.0000"]]),
        ([[2e6]], [["2.000e+6"]]),
    ],
)
def test_one_format_for_a_matrix(run, numbers, written):
    assert run("tabs/by_hand/arithmetic.js", "it.writeNumbers(asked.numbers)", numbers=numbers) == written
