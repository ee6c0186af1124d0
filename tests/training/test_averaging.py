"""Averaged weights: the rule of each, their state, and that a swap copies nothing."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn

from regard.errors import CheckpointError, UnknownName
from regard.training.averaging import AVERAGES, swapped_in
from regard.training.settings import AveragingSettings


def follow(name: str, values: list[float], **changes):
    parameter = nn.Parameter(torch.zeros(2))
    average = AVERAGES.find(name)({"w": parameter}, AveragingSettings(name=name, **changes))
    for step, value in enumerate(values, 1):
        parameter.data.fill_(value)
        average.update(step)
    return average, parameter


def test_ema_starts_at_the_first_weights_and_follows_slower_and_slower():
    average, _ = follow("ema", [1.0, 3.0, 5.0], ema_decay=0.15)
    expected = 1.0
    for count, value in ((1, 3.0), (2, 5.0)):
        decay = min(0.15, (1 + count) / (10 + count))
        expected = decay * expected + (1 - decay) * value
    assert average.weights()["w"].tolist() == pytest.approx([expected] * 2)


def test_last_is_the_mean_of_the_last_marks():
    average, _ = follow("last", [1, 2, 3, 4, 5, 6, 7], last=2, every=2)
    assert average.weights()["w"].tolist() == [5.0, 5.0]
    assert follow("last", [1], every=2)[0].weights() == {}


def test_none_has_no_weights_of_its_own():
    average, _ = follow("none", [1.0])
    assert (average.weights(), average.state()) == ({}, {})


@pytest.mark.parametrize("name", AVERAGES)
def test_state_goes_out_and_in(name):
    values, changes = [1.0, 2.0, 3.0, 4.0], dict(last=2, every=1)
    straight, _ = follow(name, [*values, 9.0], **changes)
    first, _ = follow(name, values, **changes)
    second, parameter = follow(name, [], **changes)
    second.restore({key: tensor.clone() for key, tensor in first.state().items()})
    parameter.data.fill_(9.0)
    second.update(5)
    assert second.weights().keys() == straight.weights().keys()
    for key, tensor in straight.weights().items():
        assert torch.equal(second.weights()[key], tensor)


def test_state_of_another_model_is_refused():
    for name in ("ema", "last"):
        average, _ = follow(name, [])
        with pytest.raises(CheckpointError):
            average.restore({"0/w" if name == "last" else "w": torch.zeros(3)})


def test_a_swap_is_undone_even_by_an_error_and_copies_nothing():
    average, parameter = follow("ema", [1.0, 2.0])
    trained = parameter.data_ptr()
    with contextlib.suppress(ZeroDivisionError), swapped_in({"w": parameter}, average.weights()):
        assert parameter.data_ptr() == average.averaged["w"].data_ptr()
        raise ZeroDivisionError
    assert parameter.data_ptr() == trained


def test_an_unknown_average_names_the_nearest():
    with pytest.raises(UnknownName, match="did you mean ema"):
        AVERAGES.find("em")
