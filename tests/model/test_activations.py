"""GELU's tanh form is torch's, forward and backward, whether anything learns or not."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from regard.model.kernels import gelu_tanh


@pytest.mark.parametrize(("dtype", "nearness"), [(torch.float32, 2e-6), (torch.float64, 1e-14)])
def test_value_and_slope_are_torchs(dtype, nearness):
    spread = torch.cat([torch.linspace(-12, 12, 20_001), torch.tensor([-1e4, -100.0, 0.0, 100.0, 1e4])])
    x = spread.to(dtype).requires_grad_()
    ours, theirs = gelu_tanh(x), F.gelu(x, approximate="tanh")
    torch.testing.assert_close(ours, theirs, rtol=nearness, atol=nearness)
    given = torch.randn(x.shape, dtype=dtype)
    slopes = [torch.autograd.grad(y, x, given)[0] for y in (ours, theirs)]
    torch.testing.assert_close(*slopes, rtol=10 * nearness, atol=10 * nearness)


def test_gradients_pass_gradcheck():
    x = torch.randn(4, 5, dtype=torch.float64).requires_grad_()
    torch.autograd.gradcheck(gelu_tanh, x)


def test_second_derivatives_are_torchs():
    x = torch.cat([torch.linspace(-6, 6, 101), torch.tensor([-1e3, 0.0, 1e3])]).double().requires_grad_()
    torch.autograd.gradgradcheck(gelu_tanh, x[::7].detach().requires_grad_())
    given, found = torch.randn(x.shape, dtype=torch.float64), []
    for function in (gelu_tanh, lambda x: F.gelu(x, approximate="tanh")):
        slope = torch.autograd.grad(function(x), x, given, create_graph=True)[0]
        found.append(torch.autograd.grad((slope**2).sum(), x)[0])
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


def test_where_nothing_learns_it_is_one_call_of_torch():
    x = torch.randn(100)
    assert torch.equal(gelu_tanh(x), F.gelu(x, approximate="tanh"))
    with torch.no_grad():
        assert torch.equal(gelu_tanh(x.clone().requires_grad_()), F.gelu(x, approximate="tanh"))
