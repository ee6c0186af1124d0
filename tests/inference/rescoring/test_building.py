"""Tuning: the parameters with the highest likelihood of known text."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import SettingError
from regard.inference.rescoring import building
from regard.inference.rescoring.building import Evidence, best_parameters
from regard.inference.rescoring.datastore import KnnParameters, Neighbours, neighbour_weights


def evidence(chances, right, seed=0):
    """Tokens that the model gave these chances, and whose neighbours are right with a given probability."""
    draw = np.random.default_rng(seed)
    count = len(chances)
    shape = (count, Evidence.max_k)
    distances = torch.from_numpy(np.sort(draw.random(shape), axis=1).astype(np.float32))
    followed = torch.from_numpy(draw.random(shape) < right)
    counts = torch.from_numpy(draw.integers(1, 5, shape)).float()
    near = Neighbours(distances, torch.zeros(shape, dtype=torch.int64), counts)
    return Evidence.of(near, followed, np.log(np.array(chances)))


def test_always_wrong_neighbours_get_lambda_0():
    assert best_parameters([evidence([0.5] * 200, right=0.0)]).lambda_ == 0


def test_always_right_neighbours_get_the_largest_lambda():
    assert (
        best_parameters([evidence([0.2] * 100, right=1.0), evidence([0.1] * 100, right=1.0)]).lambda_ == 0.5
    )


def test_the_chosen_parameters_have_the_highest_likelihood():
    """Against a plain walk over all parameters, one token at a time."""
    some = evidence(np.random.default_rng(3).uniform(0.01, 0.9, 60), right=0.6)
    best, found = -np.inf, None
    for k in building.KS:
        for temperature in building.TEMPERATURES:
            for weight in (0.0, *building.LAMBDAS):
                total = 0.0
                rows = zip(some.probabilities, some.distances, some.counts, some.shares, strict=True)
                for chance, distances, counts, right in rows:
                    a = counts[:k].numpy() * np.exp(-distances[:k].numpy() / temperature)
                    near = float((a * right[:k].numpy()).sum() / a.sum())
                    total += np.log((1 - weight) * float(chance) + weight * near)
                if total > best + 1e-9:
                    best, found = (
                        total,
                        KnnParameters(lambda_=weight, k=k, temperature=temperature),
                    )
    assert best_parameters([some]) == found
    assert found.lambda_ > 0


def test_nearer_neighbours_weigh_more_the_lower_the_temperature():
    distances = torch.tensor([[0.0, 1.0, 2.0]])
    once = torch.ones(1, 3)
    sharp, even = neighbour_weights(distances, once, 0.1), neighbour_weights(distances, once, 100.0)
    assert sharp[0, 0] > 0.99
    assert even[0].tolist() == pytest.approx([1 / 3] * 3, abs=0.01)
    assert sharp.sum() == pytest.approx(1)


def test_a_key_met_three_times_weighs_as_three_keys():
    merged = neighbour_weights(torch.tensor([[0.5, 0.2]]), torch.tensor([[3.0, 1.0]]), 0.3)
    apart = neighbour_weights(torch.tensor([[0.5, 0.5, 0.5, 0.2]]), torch.ones(1, 4), 0.3)
    assert merged[0].tolist() == pytest.approx([float(apart[0, :3].sum()), float(apart[0, 3])])


@pytest.mark.parametrize(
    "wrong",
    [
        {"lambda": 1.0},
        {"lambda": -0.1},
        {"lambda": float("nan")},
        dict(k=0),
        dict(k=2.5),
        dict(temperature=0.0),
        dict(temperature=float("inf")),
        dict(heaviness=1),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))) as caught:
        KnnParameters(**wrong)
    assert "\n" not in str(caught.value)
