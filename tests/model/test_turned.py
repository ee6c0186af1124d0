"""Turned weights: the same numbers, made once, and made again when a weight has changed in any way."""

import gc

import pytest
import torch
from torch import nn

from regard.model import turned
from regard.model.turned import Turner


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3))


def turn(owner):
    turner = Turner(owner)
    found = [turner(layer.weight) for layer in owner]
    turner.keep()
    return found


def test_a_turned_weight_is_the_weight_the_other_way_round():
    owner = model()
    for matrix, layer in zip(turn(owner), owner, strict=True):
        assert torch.equal(matrix, layer.weight.T)
        assert matrix.is_contiguous()
        assert not matrix.requires_grad


def test_it_is_made_once():
    owner = model()
    assert [one.data_ptr() for one in turn(owner)] == [one.data_ptr() for one in turn(owner)]


def negate(weight):
    weight.data.neg_()


def swap_rows(weight):
    weight.data[[0, 1]] = weight.data[[1, 0]]


def swap_columns(weight):
    weight.data[:, [0, 1]] = weight.data[:, [1, 0]]


def zero_one(weight):
    weight.data[1, 2] = 0.0


def replace(weight):
    weight.data = weight.data * 2


@pytest.mark.parametrize("change", [negate, swap_rows, swap_columns, zero_one, replace])
def test_a_change_behind_the_back_of_autograd_is_noticed(change):
    owner = model()
    before = turn(owner)
    change(owner[0].weight)
    after = turn(owner)
    assert torch.equal(after[0], owner[0].weight.T)
    assert not torch.equal(after[0], before[0])
    assert after[1].data_ptr() == before[1].data_ptr()


def test_what_is_not_asked_for_again_is_let_go():
    owner = model()
    turn(owner)
    turner = Turner(owner)
    turner(owner[0].weight)
    turner.keep()
    assert len(turned._kept[owner]) == 1


def test_it_goes_with_its_model():
    owner = model()
    turn(owner)
    kept = len(turned._kept)
    del owner
    gc.collect()
    assert len(turned._kept) == kept - 1


def test_a_large_model_and_other_numbers_have_no_second_copy(monkeypatch):
    half = model().to(torch.bfloat16)
    assert turn(half)[0].data_ptr() == half[0].weight.data_ptr()
    monkeypatch.setattr(turned, "AT_MOST", 10)
    owner = model()
    assert turn(owner)[0].data_ptr() == owner[0].weight.data_ptr()
