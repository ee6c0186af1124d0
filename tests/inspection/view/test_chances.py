"""The next word's distribution in the browser, against numpy and against what inference draws from."""

from __future__ import annotations

import numpy as np
import pytest

from regard.inference.search.sampling import SamplingParameters, weights

ASK = "it.distribution(asked.logits, it.rank(asked.logits), asked.rules)"
LOGITS = np.random.default_rng(3).normal(0, 3, 200)


def expected(logits: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """What the command line would draw from, by id."""
    one = np.ones(1)
    taste = SamplingParameters(
        is_greedy=one == 0,
        is_truncated=np.array([top_k > 0 or top_p < 1]),
        temperature=one * temperature,
        top_k=np.array([top_k or len(logits)]),
        top_p=one * top_p,
        min_p=one * 0,
        penalty=one,
        uniforms=one[:, None],
        candidates=one * len(logits),
    )
    found = weights(logits[None] - np.logaddexp.reduce(logits), taste)[0]
    return found / found.sum()


@pytest.mark.parametrize("temperature", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (5, 1.0), (0, 0.8), (20, 0.5), (1, 0.01)])
def test_the_same_distribution_as_in_python(run, temperature, top_k, top_p):
    rules = {"temperature": temperature, "topK": top_k, "topP": top_p}
    told = run("core/chances.js", ASK, logits=LOGITS.tolist(), rules=rules)
    by_id = np.zeros(len(LOGITS))
    by_id[told["order"]] = told["shares"]
    wanted = expected(LOGITS, temperature, top_k, top_p)
    np.testing.assert_allclose(by_id, wanted, atol=1e-12)
    assert told["kept"] == np.count_nonzero(wanted)
    some = wanted[wanted > 0]
    assert told["entropy"] == pytest.approx(-(some * np.log2(some)).sum(), abs=1e-9)


def test_near_zero_only_the_likeliest_is_left(run):
    told = run("core/chances.js", ASK, logits=LOGITS.tolist(), rules={"temperature": 0})
    assert (told["order"][0], told["shares"][0], told["kept"]) == (int(LOGITS.argmax()), 1, 1)
    assert told["entropy"] == 0


def test_what_was_cut_is_said(run):
    told = run("core/chances.js", ASK, logits=[0.0, 0.0, 0.0, 0.0], rules={"topK": 1})
    assert (told["kept"], told["cut"], told["order"]) == (1, 0.75, [0, 1, 2, 3])


def test_the_plain_softmax_is_kept_beside(run):
    told = run("core/chances.js", ASK, logits=[2.0, 1.0], rules={"temperature": 9})
    np.testing.assert_allclose(told["plain"], np.exp([2, 1]) / np.exp([2, 1]).sum())


def test_a_draw_falls_where_the_shares_lie_end_to_end(run):
    asked = {"shares": [0.5, 0.3, 0.2, 0.0]}
    uniforms = [0.0, 0.49, 0.51, 0.79, 0.81, 0.999999]
    places = run(
        "core/chances.js",
        "asked.uniforms.map((uniform) => it.draw(asked.shares, uniform))",
        **asked,
        uniforms=uniforms,
    )
    assert places == [0, 0, 1, 1, 2, 2]


def test_one_seed_gives_the_same_numbers_and_spread_ones(run):
    many = "Array.from({length: 4000}, (_, place) => it.uniformAt(asked.seed, place))"
    first, again, other = (run("core/chances.js", many, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert 0 <= min(first) < max(first) < 1
    counts, _ = np.histogram(first, bins=10, range=(0, 1))
    assert counts.min() > 330  # of 400 each
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.05


def test_seeds_beside_each_other_begin_differently(run):
    firsts = run("core/chances.js", "Array.from({length: 1000}, (_, seed) => it.uniformAt(seed, 0))")
    counts, _ = np.histogram(firsts, bins=10, range=(0, 1))
    assert counts.min() > 70


@pytest.mark.parametrize(
    ("share", "written"),
    [(0.5, "0.500"), (0.0, "0.000"), (1.0, "1.000"), (1e-6, "< 0.001"), (0.99999, "> 0.999")],
)
def test_a_share_is_never_rounded_to_a_certainty(run, share, written):
    assert run("core/chances.js", "it.writeShare(asked.share)", share=share) == written


def test_softmax_by_id(run):
    told = run("core/chances.js", "it.probabilities(asked.logits)", logits=LOGITS.tolist())
    np.testing.assert_allclose(told, np.exp(LOGITS) / np.exp(LOGITS).sum(), rtol=1e-9)
    assert run("core/chances.js", "it.distance([0.5, 0.5], [1, 0])") == 0.5
