"""Parts of the training state by themselves: progress, random generators and compared settings."""

from __future__ import annotations

import json
import random
from dataclasses import asdict

import numpy as np
import pytest
import torch

from regard.errors import CheckpointError
from regard.training.state import (
    Best,
    Progress,
    RandomState,
    differences,
    preserved_random_state,
    random_state,
    refused,
    restore_random_state,
    seed_everything,
)

from . import toy


def draws() -> list[float]:
    """Numbers from every generator. A second normal number may come from a stored first one."""
    normal = [random.gauss(0, 1), float(np.random.standard_normal())]
    return [*torch.rand(3).tolist(), *np.random.rand(3).tolist(), random.random(), *normal]


def test_random_generators_survive_json_at_any_point():
    seed_everything(3)
    draws()
    state = random_state()
    values = json.loads(json.dumps(state.as_dict()))
    expected = draws()
    draws()
    restore_random_state(RandomState.from_dict(state.tensors, values))
    assert draws() == expected


def test_a_seed_decides_every_generator():
    drawn = []
    for seed in (1, 1, 2, (1 << 63) - 1):
        seed_everything(seed)
        drawn.append(draws())
    assert drawn[0] == drawn[1]
    for other in drawn[2:]:
        assert not set(other) & set(drawn[0])


def test_random_generators_are_restored_after_an_error_too():
    seed_everything(5)
    expected = draws()
    seed_everything(5)

    def interrupted():
        with preserved_random_state():
            draws()
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert draws() == expected


def test_random_generators_of_another_machine_are_refused():
    state = random_state()
    for tensors in ({}, {"cpu": torch.zeros(3, dtype=torch.uint8)}):
        with pytest.raises(CheckpointError, match="do not match this machine"):
            restore_random_state(RandomState(tensors, state.values))


def test_progress_keeps_the_latest_losses():
    progress = Progress()
    for number in range(250):
        progress.add_loss(float(number))
    assert (progress.step, progress.losses) == (250, [float(number) for number in range(150, 250)])


@pytest.mark.parametrize("best", [None, Best(4, 0.5)])
def test_progress_survives_json(best):
    progress = Progress(step=7, best=best, since_best=2, validated=6, losses=[1.5, 0.25])
    assert Progress.read(json.loads(json.dumps(asdict(progress)))) == progress


def test_a_forgotten_best_makes_the_next_validation_due():
    progress = Progress(step=7, best=Best(4, 0.5), since_best=2, validated=6, losses=[1.0])
    progress.forget_best()
    assert progress == Progress(step=7, losses=[1.0])


def test_differences_name_settings_with_their_tables():
    saved = {"steps": 4, "schedule": {"name": "cosine", "end": None}, "same": [1, 2]}
    now = {"steps": 6, "schedule": {"name": "cosine", "end": 0.0}, "same": [1, 2], "new": True}
    changes = differences(saved, now)
    assert changes == {
        "steps": "steps 4, now 6",
        "schedule.end": "schedule.end not set, now 0.0",
        "new": "new not set, now True",
    }
    assert refused(changes, ["steps", "new"]) == "schedule.end not set, now 0.0"
    assert refused(changes, ["new", "schedule.end", "steps"]) == ""


def test_a_long_list_of_differences_is_cut(tmp_path):
    toy.trainer(tmp_path, {"steps": 2}).train()
    changes = dict(
        width=32, layers=2, heads=4, feed_forward_width=64, context=8, residual="post", dropout=0.2
    )
    with pytest.raises(
        CheckpointError, match=r"has another model: (\w+ [^;]+; ){4}[^;]+ and 2 more; start a"
    ):
        toy.trainer(tmp_path, {}, **changes).resume()
