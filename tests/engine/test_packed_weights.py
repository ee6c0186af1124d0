"""Products with weights laid out beforehand: right, laid out once, and again when a weight has changed."""

import gc

import pytest
import torch
from torch import nn

from regard.engine import packed_weights
from regard.engine.packed_weights import PackedWeights


@pytest.fixture(params=["packed", "turned", "packing is unknown"])
def model(request, monkeypatch):
    """A model whose matrices all count as large, or none."""
    monkeypatch.setattr(packed_weights, "MIN_PACKED_SIZE", 1 << 19 if request.param == "turned" else 1)
    if request.param == "packing is unknown":
        monkeypatch.setattr(packed_weights, "_can_pack", lambda: False)
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3, bias=False))


def packed_weights_of(owner):
    found = PackedWeights(owner)
    made = [found(layer.weight, layer.bias) for layer in owner]
    found.keep()
    return made


def laid(owner):
    return [one.matrix for one in packed_weights._packed_by_model[owner].values()]


def right(product, layer, rows=3):
    x = torch.randn(rows, layer.in_features)
    with torch.inference_mode():
        return torch.allclose(product(x), layer(x), atol=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 31, 32, 300])
def test_a_product_is_the_layers(model, rows):
    for product, layer in zip(packed_weights_of(model), model, strict=True):
        assert right(product, layer, rows)
        assert not product(torch.randn(rows, layer.in_features)).requires_grad


def test_a_matrix_is_laid_out_once(model):
    packed_weights_of(model)
    first = laid(model)
    packed_weights_of(model)
    assert all(a is b for a, b in zip(first, laid(model), strict=True))


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
def test_a_change_behind_the_back_of_autograd_is_noticed(model, change):
    packed_weights_of(model)
    before = laid(model)
    change(model[0].weight)
    after = packed_weights_of(model)
    assert right(after[0], model[0])
    assert right(after[1], model[1])
    assert laid(model)[1] is before[1]


def test_what_is_not_asked_for_again_is_let_go(model):
    packed_weights_of(model)
    found = PackedWeights(model)
    found(model[0].weight, None)
    found.keep()
    assert len(laid(model)) == 1


def test_it_goes_with_its_model():
    owner = nn.Sequential(nn.Linear(5, 7))
    packed_weights_of(owner)
    assert owner in packed_weights._packed_by_model
    gc.collect()  # models of earlier tests
    kept = len(packed_weights._packed_by_model)
    del owner
    gc.collect()
    assert len(packed_weights._packed_by_model) == kept - 1


def test_a_large_model_and_other_numbers_have_no_second_copy(model, monkeypatch):
    packed_weights_of(model.to(torch.bfloat16))
    assert not laid(model)
    monkeypatch.setattr(packed_weights, "MAX_MODEL_SIZE", 10)
    product, *_ = packed_weights_of(model.float())
    assert not laid(model)
    assert right(product, model[0])


def test_a_build_without_packing_is_found_out(monkeypatch):
    def missing(weight):
        raise AttributeError("_reorder_linear_weight")

    def wrong(weight):
        return pack(-weight)

    pack = packed_weights._pack
    for broken in (missing, wrong):
        packed_weights._can_pack.cache_clear()
        monkeypatch.setattr(packed_weights, "_pack", broken)
        assert not packed_weights._can_pack()
    packed_weights._can_pack.cache_clear()
