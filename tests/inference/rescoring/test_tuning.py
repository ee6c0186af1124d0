"""How much what is remembered counts: chosen by what makes known text likeliest."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import SettingError
from regard.inference.rescoring.tuning import Evidence, Nearest, Recall, choose, shares


def evidence(chances, right, seed=0):
    """Tokens that the model gave these chances, and whose neighbours are right with a given probability."""
    draw = np.random.default_rng(seed)
    count = len(chances)
    shape = (count, Evidence.most)
    distances = torch.from_numpy(np.sort(draw.random(shape), axis=1).astype(np.float32))
    followed = torch.from_numpy(draw.random(shape) < right)
    counts = torch.from_numpy(draw.integers(1, 5, shape)).float()
    near = Nearest(distances, torch.zeros(shape, dtype=torch.int64), counts)
    return Evidence.of(near, followed, np.log(np.array(chances)))


def test_what_is_wrong_gets_no_weight():
    assert choose([evidence([0.5] * 200, right=0.0)]).weight == 0


def test_what_is_right_gets_the_most_weight_there_is():
    assert choose([evidence([0.2] * 100, right=1.0), evidence([0.1] * 100, right=1.0)]).weight == 0.5


def test_the_choice_is_the_likeliest_of_all():
    """Against a plain walk over every recall, one token at a time."""
    from regard.inference.rescoring import tuning as room

    some = evidence(np.random.default_rng(3).uniform(0.01, 0.9, 60), right=0.6)
    best, found = -np.inf, None
    for neighbours in room.NEIGHBOURS:
        for temperature in room.TEMPERATURES:
            for weight in (0.0, *room.WEIGHTS):
                total = 0.0
                rows = zip(some.chances, some.distances, some.counts, some.right, strict=True)
                for chance, distances, counts, right in rows:
                    a = counts[:neighbours].numpy() * np.exp(-distances[:neighbours].numpy() / temperature)
                    near = float((a * right[:neighbours].numpy()).sum() / a.sum())
                    total += np.log((1 - weight) * float(chance) + weight * near)
                if total > best + 1e-9:
                    best, found = total, Recall(weight=weight, neighbours=neighbours, temperature=temperature)
    assert choose([some]) == found
    assert found.weight > 0


def test_nearer_neighbours_weigh_more_the_lower_the_temperature():
    distances = torch.tensor([[0.0, 1.0, 2.0]])
    once = torch.ones(1, 3)
    sharp, even = shares(distances, once, 0.1), shares(distances, once, 100.0)
    assert sharp[0, 0] > 0.99
    assert even[0].tolist() == pytest.approx([1 / 3] * 3, abs=0.01)
    assert sharp.sum() == pytest.approx(1)


def test_a_key_met_three_times_weighs_as_three_keys():
    merged = shares(torch.tensor([[0.5, 0.2]]), torch.tensor([[3.0, 1.0]]), 0.3)
    apart = shares(torch.tensor([[0.5, 0.5, 0.5, 0.2]]), torch.ones(1, 4), 0.3)
    assert merged[0].tolist() == pytest.approx([float(apart[0, :3].sum()), float(apart[0, 3])])


@pytest.mark.parametrize(
    "wrong",
    [
        dict(weight=1.0),
        dict(weight=-0.1),
        dict(weight=float("nan")),
        dict(neighbours=0),
        dict(neighbours=2.5),
        dict(temperature=0.0),
        dict(temperature=float("inf")),
        dict(heaviness=1),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))) as caught:
        Recall(**wrong)
    assert "\n" not in str(caught.value)
