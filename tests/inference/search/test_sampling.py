"""Sampling: the distribution that each setting leaves, and seeds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.engine.stepper import Choices
from regard.inference.search.constraints import Constraints, RowTokens
from regard.inference.search.requests import Request, run
from regard.inference.search.sampling import (
    PrefixSums,
    Sampling,
    SamplingParameters,
    SamplingSettings,
    greedy,
    next_ids,
    sample,
    weights,
)

CHANCES = np.array([0.4, 0.05, 0.3, 0.15, 0.1])


def shares(**settings):
    """What each of five ids weighs in a draw, of one in all."""
    parameters = SamplingParameters.of(SamplingSettings(**settings), 1)
    found = weights(np.log(CHANCES)[None].astype(np.float32), parameters)[0]
    return found / found.sum()


def only(*ids):
    kept = np.where(np.isin(np.arange(5), ids), CHANCES, 0)
    return kept / kept.sum()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, CHANCES),
        (dict(temperature=0.5), CHANCES**2 / (CHANCES**2).sum()),
        (dict(temperature=2.0), CHANCES**0.5 / (CHANCES**0.5).sum()),
        (dict(top_k=2), only(0, 2)),
        (dict(top_k=5), CHANCES),
        (dict(top_k=500), CHANCES),
        (dict(top_p=0.35), only(0)),
        (dict(top_p=0.6), only(0, 2)),
        (dict(top_p=0.84), only(0, 2, 3)),
        (dict(top_p=0.86), only(0, 2, 3, 4)),
        (dict(top_p=1.0), CHANCES),
        (dict(min_p=0.3), only(0, 2, 3)),
        (dict(min_p=1.0), only(0)),
        (dict(min_p=0.0), CHANCES),
        (dict(top_k=3, top_p=0.81), only(0, 2)),  # of 0.85 that top-k leaves, 0.7 is 0.82
        (dict(top_k=3, top_p=0.83), only(0, 2, 3)),
        (dict(top_k=4, min_p=0.5), only(0, 2)),
        (dict(temperature=1e-3), only(0)),
        (dict(temperature=0.5, min_p=0.5), only(0, 2) ** 2 / (only(0, 2) ** 2).sum()),  # 0.56 after cooling
        (dict(temperature=0.5, min_p=0.6), only(0)),
    ],
)
def test_a_setting_leaves_the_distribution_it_should(settings, expected):
    assert shares(**settings) == pytest.approx(expected, abs=1e-6)


def test_top_p_takes_no_more_than_it_needs():
    parameters = SamplingParameters.of(SamplingSettings(top_p=0.5), 1)
    assert weights(np.log([[0.25, 0.5, 0.25]]), parameters).tolist() == [[0, 1, 0]]


@given(seed=st.integers(0, 9999), columns=st.integers(1, 1000), uniforms=st.floats(0, 1, exclude_max=True))
def test_first_above_is_where_the_running_sum_exceeds_the_target(seed, columns, uniforms):
    random = np.random.default_rng(seed)
    weight = random.random((3, columns)) * (random.random((3, columns)) < 0.2)
    weight[:, random.integers(columns)] = 1
    prefix_sums = PrefixSums(weight)
    assert prefix_sums.total == pytest.approx(weight.sum(1))
    for share in (uniforms, 0.0, 1 - 2**-53, 1.0):
        found = prefix_sums.first_above(share * prefix_sums.total)
        assert (weight[np.arange(3), found] > 0).all()
        sums = np.cumsum(weight, axis=1)
        assert (sums[np.arange(3), found] >= share * prefix_sums.total * (1 - 1e-12)).all()
        assert (
            sums[np.arange(3), found] - weight[np.arange(3), found] <= share * prefix_sums.total + 1e-9
        ).all()


def test_every_step_draws_anew(fake):
    even = {(1,): [0.5, 0, 0.5], (1, 0): [0.5, 0, 0.5], (1, 2): [0.5, 0, 0.5]}
    requests = [Request([1], SamplingSettings(max_length=2, seed=seed)) for seed in range(400)]
    answers = sample(fake(3, table=even), requests)
    pairs = [tuple(answer.best.ids.tolist()) for answer in answers]
    assert all(60 < pairs.count(pair) < 140 for pair in [(0, 0), (0, 2), (2, 0), (2, 2)])


def test_ids_are_drawn_as_often_as_their_share(fake):
    requests = [Request([1], SamplingSettings(max_length=1, seed=i, top_p=0.9)) for i in range(4000)]
    answers = sample(fake(5, table={(1,): CHANCES}), requests)
    counts = np.bincount([int(answer.best.ids[0]) for answer in answers], minlength=5)
    expected = 4000 * only(0, 2, 3, 4)
    assert counts[1] == 0
    assert (np.abs(counts - expected) < 4 * np.sqrt(expected) + 1).all()


def test_the_same_seed_draws_the_same_and_another_another(fake):
    def ids(seed, **settings):
        request = Request([1], SamplingSettings(max_length=30, seed=seed, **settings))
        return sample(fake(9), [request])[0].best.ids.tolist()

    assert ids(3) == ids(3)
    assert len({tuple(ids(seed)) for seed in range(20)}) == 20
    assert ids(3, temperature=0.1) != ids(3)


@given(
    seed=st.integers(0, 99999),
    top_k=st.integers(1, 12),
    top_p=st.sampled_from([None, 0.3, 0.9, 1.0]),
    min_p=st.sampled_from([None, 0.1]),
)
def test_the_best_few_are_drawn_from_as_the_whole_would_be(seed, top_k, top_p, min_p):
    chances = np.log(np.random.default_rng(seed).dirichlet(np.ones(12))).astype(np.float32)[None]
    order = np.argsort(-chances, axis=1, kind="stable")[:, :top_k]
    few = Choices(order, np.take_along_axis(chances, order, 1))
    parameters = SamplingParameters.of(SamplingSettings(seed=seed, top_k=top_k, top_p=top_p, min_p=min_p), 1)
    written = RowTokens.of(np.array([0]))
    one, other = next_ids(few, parameters, written), next_ids(Choices(None, chances), parameters, written)
    assert one.ids == other.ids
    assert one.log_probabilities == other.log_probabilities == chances[0, one.ids[0]]


@pytest.mark.parametrize(
    ("settings", "best"),
    [
        (dict(temperature=0), 1),
        (dict(top_k=7), 7),
        (dict(top_k=7, top_p=0.5), 7),
        (dict(top_k=100), None),
        (dict(top_k=7, repetition_penalty=1.1), None),
        (dict(temperature=0, repetition_penalty=1.1), None),
        (dict(top_p=0.9), None),
        ({}, None),
    ],
)
def test_the_whole_distribution_is_asked_for_only_where_it_is_needed(fake, settings, best):
    stepper = fake(50)
    sample(stepper, [Request([1], SamplingSettings(max_length=3, **settings))])
    assert set(stepper.asked) == {best}


def test_a_repetition_penalty_makes_what_stands_already_less_likely(fake):
    table = {(1, 2): [0.1, 0.0, 0.5, 0.4], (1, 3): [0.1, 0.0, 0.5, 0.4]}

    def said(prefix, penalty):
        settings = SamplingSettings(max_length=1, temperature=0, repetition_penalty=penalty)
        return sample(fake(4, table=table), [Request(prefix, settings)])[0].best

    assert said([1, 2], 1.0).ids.tolist() == [2]
    assert said([1, 2], 1.5).ids.tolist() == [3]  # 0.5 ** 1.5 is 0.35
    assert said([1, 2], 1.5).score == pytest.approx(np.log(0.4))
    assert said([1, 3], 1.5).ids.tolist() == [2]
    assert said([1, 3], 0.5).ids.tolist() == [3]  # below 1 it is a reward: 0.4 ** 0.5 is 0.63


def test_a_penalty_counts_once_however_often_an_id_stands(fake):
    table = {(1, 2, 2, 2): [0.0, 0.0, 0.7, 0.3]}  # 0.7 ** 3 is 0.34, and 0.7 ** 27 nothing
    settings = SamplingSettings(max_length=1, temperature=0, repetition_penalty=3.0)
    assert sample(fake(4, table=table), [Request([1, 2, 2, 2], settings)])[0].best.ids.tolist() == [2]


def test_equally_likely_ids_go_to_the_lower(fake):
    even = {(1,): [0.1, 0.3, 0.3, 0.3]}
    cold = greedy(fake(4, table=even), [Request([1], Constraints(max_length=1))])[0]
    assert cold.best.ids.tolist() == [1]
    for seed in range(20):
        for settings in (dict(top_k=1), dict(top_p=0.2), dict(min_p=1.0, top_k=1), dict(temperature=0)):
            narrow = SamplingSettings(max_length=1, seed=seed, **settings)
            wide = SamplingSettings(max_length=1)  # beside it the whole distribution is looked at
            for requests in ([Request([1], narrow)], [Request([1], narrow), Request([1], wide)]):
                assert sample(fake(4, table=even), requests)[0].best.ids.tolist() == [1]


def test_forbidden_ids_are_never_drawn(fake):
    settings = SamplingSettings(
        max_length=200, forbidden=[2, (3, 4)], temperature=5.0, no_repeat_ngram_size=4, seed=8
    )
    ids = sample(fake(6), [Request([3], settings)])[0].best.ids.tolist()
    assert 2 not in ids
    assert (3, 4) not in list(zip([3, *ids], ids, strict=False))
    grams = [tuple(([3, *ids])[i : i + 4]) for i in range(len(ids) - 2)]
    assert len(set(grams)) == len(grams)


def test_minimum_and_maximum_length(fake):
    table = {(1, *[2] * n): [0.6, 0.0, 0.4] for n in range(9)}
    for settings in (dict(temperature=0), dict(top_k=1)):
        for shortest in (0, 1, 3):
            limits = SamplingSettings(end=0, min_length=shortest, max_length=4, **settings)
            result = sample(fake(3, table=table), [Request([1], limits)])[0].best
            assert result.ids.tolist() == [2] * shortest + [0]
        limits = SamplingSettings(end=0, min_length=4, max_length=4, **settings)
        result = sample(fake(3, table=table), [Request([1], limits)])[0].best
        assert (result.ids.tolist(), result.reason) == ([2] * 4, "length")


def test_a_stop_sequence_ends_a_row(fake):
    cycle = {(1, *([2, 3, 4] * 5)[:n]): np.eye(5)[2 + n % 3] for n in range(12)}

    def said(**limits):
        return run(Sampling(fake(5, table=cycle)), [Request([1], Constraints(max_length=10, **limits))])[
            0
        ].best

    assert said().reason == "length"
    result = said(stop=[(3, 4)])
    assert (result.ids.tolist(), result.reason, result.content.tolist()) == ([2, 3, 4], "stop", [2])
    assert said(stop=[(4,), (3, 4)]).ending == 2  # of two stops at one place the longer
    assert said(stop=[(1, 2)]).reason == "length"  # the prefix is no part of a stop
    assert said(stop=[(3, 4)], min_length=2).ids.tolist() == [2, 3, 4, 2, 3, 4]
    assert said(stop=[(4, 3)]).reason == "length"
    assert said(end=[4, 3]).ids.tolist() == [2, 3]
