"""`regard by-hand`: the lectures' digits, your own matrices, and one line for every mistake."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from regard.cli.app import run


@pytest.fixture
def by_hand(capsys):
    """Run the command and give what it printed."""

    def call(*arguments: str) -> str:
        assert run(["by-hand", *arguments]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out

    return call


def block(text: str, title: str) -> str:
    """One step of what was printed: from its heading to the next."""
    _, found, rest = text.partition(f" {title}")
    assert found, title
    lines = rest.splitlines()
    end = next((n for n, line in enumerate(lines) if n and line[:1] == " " and line[1:2].strip()), len(lines))
    return "\n".join(lines[:end])


def test_without_arguments_the_examples_are_listed(by_hand):
    text = by_hand()
    for example in ("A  two-words", "B  three-inputs", "C  masked", "D  context", "--wq wq.csv"):
        assert example in text
    assert [example["letter"] for example in json.loads(by_hand("--json"))] == ["A", "B", "C", "D"]


def test_the_list_needs_no_torch():
    code = "from regard.cli.app import run; import sys; run(['by-hand']); sys.exit('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, timeout=300).returncode == 0
    )


@pytest.mark.parametrize("name", ["A", "a", "two-words"])
def test_two_words(by_hand, name):
    text = by_hand(name)
    assert "Thinking [      112       96 ]" in block(text, "2  Score")
    assert "Thinking [       14       12 ]" in block(text, "3  Divide")
    assert "Thinking [   0.8808   0.1192 ]  Σ 1" in block(text, "4  Softmax")
    assert "Thinking = 0.8808 Thinking + 0.1192 Machines" in block(text, "5  Weigh")


def test_three_inputs(by_hand):
    text = by_hand("B")
    made = block(text, "1  Project")
    for row in ("⎡ 1 0 2 ⎤", "⎢ 2 2 2 ⎥", "⎣ 2 1 3 ⎦", "⎡ 0 1 1 ⎤", "⎢ 4 4 0 ⎥", "⎣ 2 3 1 ⎦", "⎢ 2 8 0 ⎥"):
        assert row in made
    scores = [line.split()[-4:-1] for line in block(text, "2  Score").splitlines()]
    assert [row for row in scores if row[0:1] and row[0].isdigit()] == [
        ["2", "4", "4"],
        ["4", "16", "12"],
        ["4", "12", "10"],
    ]
    weights = block(text, "4  Softmax")
    for row in ("0.0634  0.4683  0.4683", "0.0000  0.9820  0.0180", "0.0003  0.8805  0.1192"):
        assert row in weights
    output = block(text, "6  Sum")
    for row in ("1.9366 6.6831 1.5951", "2.0000 7.9640 0.0540", "1.9997 7.7599 0.3584"):
        assert row in output


def test_three_inputs_rounded_early_and_why_that_differs(by_hand):
    text = block(by_hand("B"), "≈  Rounded")
    for row in ("0.0 0.5 0.5", "0.0 1.0 0.0", "0.0 0.9 0.1", "2.0 7.0 1.5", "2.0 8.0 0.0", "2.0 7.8 0.3"):
        assert f" {row} " in text
    words = " ".join(text.split())
    assert "well-known worked example" in words
    assert "Plain rounding would make 0.0634, 0.4683, 0.4683 into 0.1, 0.5, 0.5, which sum to 1.1" in words


def test_three_inputs_divided(by_hand):
    assert "0.1361 0.4319 0.4319" in block(by_hand("B"), "√  With the division")
    scaled = by_hand("B", "--scale")
    assert "0.1361  0.4319  0.4319" in block(scaled, "4  Softmax")
    assert "√  With the division" not in scaled
    assert "well-known" not in scaled


def test_the_decks_questions_are_answered(by_hand):
    text = block(by_hand("B"), "?  Questions")
    assert "How many weight matrices are learned? 3: W^Q, W^K, W^V" in text
    for line in ("input 1 → input 2 and input 3 equally", "input 2 → input 2\n", "input 3 → input 2"):
        assert line in text


SIX_ROWS = """
word 1 ⎡  +3.53     -∞     -∞     -∞     -∞     -∞ ⎤
word 2 ⎢  +0.80  -0.30     -∞     -∞     -∞     -∞ ⎥
word 3 ⎢  +1.96  -0.21  +0.89     -∞     -∞     -∞ ⎥
word 4 ⎢  +4.48  +0.82  +0.67  +1.31     -∞     -∞ ⎥
word 5 ⎢  +3.74  +0.29  +2.99  +1.73  +3.07     -∞ ⎥
word 6 ⎣  -1.95  +2.91  -0.41  -1.48  +2.94  +0.31 ⎦
"""
SIX_COLUMNS = """
word 1 ⎡ 1.0000 0.7503 0.6863 0.9175 0.4652 0.0036 ⎤
word 2 ⎢      ∙ 0.2497 0.0784 0.0236 0.0148 0.4627 ⎥
word 3 ⎢      ∙      ∙ 0.2354 0.0203 0.2197 0.0167 ⎥
word 4 ⎢      ∙      ∙      ∙ 0.0385 0.0623 0.0057 ⎥
word 5 ⎢      ∙      ∙      ∙      ∙ 0.2380 0.4768 ⎥
word 6 ⎣      ∙      ∙      ∙      ∙      ∙ 0.0344 ⎦
"""


def test_a_masked_pattern(by_hand):
    text = by_hand("C")
    for line in SIX_ROWS.split("\n")[1:-1]:
        assert line in block(text, "M  Mask")
    assert "word 5 ⎢ 0.4652 0.0148 0.2197 0.0623 0.2380      ∙ ⎥  Σ 1" in block(text, "4  Softmax")


def test_a_masked_pattern_turned_has_a_column_for_each_query(by_hand):
    text = by_hand("C", "--transpose")
    for line in SIX_COLUMNS.split("\n")[1:-1]:
        assert line in block(text, "4  Softmax")
    assert "below the diagonal" in " ".join(text.split())


def test_words_in_context(by_hand):
    text = block(by_hand("D"), "5  Weigh")
    assert " Python = 0.4 Python + 0.4 crawls + 0.2 quickly" in text
    assert " crawls = 0.3 Python + 0.6 crawls + 0.1 quickly" in text
    assert "quickly = 0.1 Python + 0.1 crawls + 0.8 quickly" in text


def test_the_six_steps_of_one_word(by_hand):
    text = by_hand("B", "--row", "0")
    for step, line in {
        "1  Compute": "q2 = 1·1 + 0·0 + 1·1 + 0·1 = 2",
        "2  Score": "input 2 1·4 + 0·4 + 2·0 = 4",
        "3  Divide": "not done here",
        "4  Softmax": "input 1 e^(2 - 4) = 0.1353 / 2.1353 = 0.0634",
        "5  Weigh": "input 3 0.4683 × [ 2 6 3 ] = [ 0.9366 2.8099 1.4049 ]",
        "6  Sum": "input 1 = [ 1.9366 6.6831 1.5951 ]",
        "≈  Rounded": "input 1 = [ 2.0 7.0 1.5 ]",
    }.items():
        assert line in block(text, step)
    assert "Thinking 112 / 8 = 14" in by_hand("A", "--row", "0")
    assert "e^-∞" in by_hand("C", "--row", "3")
    cosine = by_hand("--q", "3 4", "--k", "6 8; -3 -4", "--similarity", "cosine", "--row", "0")
    assert "0 (3·6 + 4·8) / (5 · 10)      = 1\n" in cosine
    assert "1 (3·(-3) + 4·(-4)) / (5 · 5) = -1\n" in cosine


def test_the_loose_slides_are_said_kindly(by_hand):
    three, six = (" ".join(by_hand(name).split()) for name in "BC")
    assert "A value is not a relevance" in three
    assert "Softmax is taken over the scores alone" in three
    assert "A score of 0 or below does not mean “ignore”" in three
    assert "M holds 0 and -∞ and is added after the division" in six
    assert "QᵀK has the same numbers as QKᵀ with a token as a row" in " ".join(
        by_hand("B", "--transpose").split()
    )
    cosine = by_hand("--q", "3 4", "--k", "6 8; -3 -4", "--similarity", "cosine")
    assert "only where both have length 1" in " ".join(cosine.split())


def softmax(scores: np.ndarray) -> np.ndarray:
    """Written down independently of the model."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_own_matrices_as_json_equal_numpy(by_hand, tmp_path):
    random = np.random.default_rng(0)
    x, wq, wk, wv = (random.normal(size=shape) for shape in ((5, 4), (4, 3), (4, 3), (4, 2)))
    np.save(tmp_path / "x.npy", x)
    np.savetxt(tmp_path / "wq.csv", wq, delimiter=",")
    np.savetxt(tmp_path / "wk.txt", wk)
    (tmp_path / "wv.json").write_text(json.dumps(wv.tolist()), encoding="utf-8")
    files = {"--x": "x.npy", "--wq": "wq.csv", "--wk": "wk.txt", "--wv": "wv.json"}
    arguments = [part for name, file in files.items() for part in (name, str(tmp_path / file))]
    found = json.loads(by_hand(*arguments, "--causal", "--temperature", "0.7", "--json"))
    q, k, v = x @ wq, x @ wk, x @ wv
    scaled = q @ k.T / np.sqrt(3) / 0.7
    weights = softmax(np.where(np.tri(5, dtype=bool), scaled, -np.inf))
    expected = {"query": q, "key": k, "value": v, "scores": q @ k.T, "scaled": scaled, "weights": weights}
    for name, numbers in (expected | {"output": weights @ v}).items():
        np.testing.assert_allclose(found[name], numbers, rtol=1e-12, atol=1e-12)
    assert found["mask"] == np.tri(5, dtype=bool).tolist()
    assert found["masked"][0][1:] == [None] * 4
    assert found["divisor"] == pytest.approx(3**0.5)


def test_one_row_as_json(by_hand):
    whole, one = json.loads(by_hand("B", "--json")), json.loads(by_hand("B", "--row", "1", "--json"))
    assert one["weights"] == whole["weights"][1:2]
    assert one["words"]["query"] == ["input 2"]


def test_own_scores_words_and_mask(by_hand):
    text = by_hand(
        "--scores", "112 96; 1 2", "--d-k", "64", "--words", "Thinking Machines", "--mask", "0 0; 0 -inf"
    )
    assert "Thinking ⎡   0.8808   0.1192 ⎤" in text
    assert "Machines ⎣   1.0000        ∙ ⎦" in text


def test_own_matrices_rounded(by_hand):
    found = json.loads(
        by_hand("--q", "1 0; 0 1", "--k", "3 0; 0 3", "--v", "1 0; 0 1", "--round", "2", "--json")
    )
    rounded = found["rounded"]
    assert rounded["decimals"] == 2
    assert np.array(rounded["weights"]).sum(1).tolist() == [1, 1]
    np.testing.assert_allclose(rounded["output"], rounded["weights"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["E"], "unknown example 'E'; "),
        (["B", "--row", "3"], "row (3) must be 0 to 2; rows are queries, counted from 0"),
        (["B", "--round", "9"], "round (9) must be 0 to 6 decimals; try 1"),
        (["B", "--temperature", "0"], "temperature (0) must be between 1e-06 and 1e+06"),
        (["B", "--similarity", "additive"], "additive has trained weights; by hand there are cosine, dot"),
        (["B", "--wq", "1 0; 0 1"], "X is 3 x 4 and W^Q is 2 x 2; they do not multiply: W^Q needs 4 rows"),
        (["B", "--words", "a b"], "words has 2 (a b); there are 3 to name"),
        (["A", "--causal"], "1 queries and 2 keys; a causal mask needs equal numbers"),
        (["A", "--x", "1 2"], "X and scores; give one of"),
        (["--causal"], "no input; give one of"),
        (["--x", "1 2; 3"], "X has 2 numbers in row 0 and 1 in row 1; give every row the same number"),
        (["--x", "1 two"], "X holds 'two', which is not a number; write rows like"),
        (["--x", "1 nan"], "X holds nan; write plain numbers"),
        (["--x", "nowhere.csv"], "X: no file nowhere.csv; check the path, or write rows like"),
        (["--x", "1 2"], "W^Q is missing; X needs it, add --wq"),
        (["--q", "1 2", "--k", "1"], "Q is 1 x 2 and K is 1 x 1; both need the same width"),
        (
            ["--q", "1", "--k", "1; 2", "--v", "1"],
            "K is 2 x 1 and V is 1 x 1; both need a row for every word",
        ),
        (["--q", "1", "--k", "1", "--mask", "1 1"], "mask is 1 x 2; it must be 1 x 1, a row for every query"),
        (["--q", " ".join("1" * 65), "--k", "1"], "Q is 1 x 65; give at most 64 rows and columns"),
        (["--scores", "1 2"], "scores need d_k, whose root divides them; add --d-k 64"),
    ],
)
def test_a_mistake_is_one_line_and_exits_2(capsys, arguments, message):
    assert run(["by-hand", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert len(printed.err) < 200


def test_as_a_program_its_output_is_plain_text():
    command = [sys.executable, "-m", "regard", "by-hand", "B"]
    result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=300)
    assert (result.returncode, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    assert "1.9366 6.6831 1.5951" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
