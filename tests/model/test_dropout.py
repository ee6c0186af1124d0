"""Dropout: the share that is asked for, everywhere alike, and the same values in the way back."""

from __future__ import annotations

import pytest
import torch

from regard.model.kernels import drop, dropout_generator


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.float64, requires_grad=True)


def test_nothing_is_dropped_in_use_or_where_the_share_is_0():
    x = ones(4, 5)
    assert drop(x, 0.5, training=False) is x
    assert drop(x, 0.0, training=True) is x


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3, 0.9])
@pytest.mark.parametrize("piece", range(4))
def test_every_position_is_dropped_equally_often(share, piece):
    torch.manual_seed(1)
    y = drop(ones(400_000), share, training=True)[piece::4]
    deviation = (share * (1 - share) / len(y)) ** 0.5
    assert abs((y == 0).double().mean().item() - share) < 5 * deviation
    assert y.max().item() == pytest.approx(1 / (1 - share), rel=1e-4)


def test_neighbours_are_dropped_independently():
    torch.manual_seed(2)
    dropped = (drop(ones(100_000, 4), 0.5, training=True) == 0).double()
    together = torch.corrcoef(dropped.T) - torch.eye(4)
    assert together.abs().max() < 0.02


@pytest.mark.parametrize("shape", [(1,), (3,), (7, 5), (2, 3, 4), (0, 4)])
def test_gradients_pass_through_the_values_that_were_kept(shape):
    x = ones(*shape)
    y = drop(x, 0.4, training=True)
    y.sum().backward()
    assert y.shape == x.shape
    assert torch.equal(x.grad, y.detach())


def test_the_draw_follows_the_seed():
    x = ones(1000)
    torch.manual_seed(3)
    first = drop(x, 0.5, training=True)
    assert not torch.equal(first, drop(x, 0.5, training=True))
    torch.manual_seed(3)
    assert torch.equal(first, drop(x, 0.5, training=True))


def test_everything_can_be_dropped():
    assert not drop(ones(10), 1.0, training=True).any()


def test_dropout_can_be_differentiated_twice():
    def dropped(x):
        with dropout_generator(torch.Generator().manual_seed(0)):
            return drop(x.sin(), 0.5, training=True)

    torch.autograd.gradgradcheck(dropped, torch.randn(9, dtype=torch.float64).requires_grad_())
