"""The chunked loss equals torch's in value and gradients and never holds all logits."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from regard.errors import UsageError
from regard.training.loss import cross_entropy


def case(rows=13, width=5, vocabulary=7, dtype=torch.float64, bias=True):
    torch.manual_seed(rows)
    leaves = torch.randn(rows, width, dtype=dtype), torch.randn(vocabulary, width, dtype=dtype)
    added = torch.randn(vocabulary, dtype=dtype).requires_grad_() if bias else None
    return *(tensor.requires_grad_() for tensor in leaves), added, torch.randint(vocabulary, (rows,))


def reference(rows, weight, bias, targets, smoothing):
    logits = F.linear(rows, weight, bias)
    return F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")


@pytest.mark.parametrize("chunk", [1, 4, 13, 100, None])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("bias", [True, False])
def test_value_and_gradients_are_torchs(chunk, smoothing, bias):
    rows, weight, added, targets = case(bias=bias)
    leaves = [tensor for tensor in (rows, weight, added) if tensor is not None]
    ours = cross_entropy(rows, weight, targets, added, smoothing, chunk)
    theirs = reference(rows, weight, added, targets, smoothing)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    for ours_part, theirs_part in zip(
        torch.autograd.grad(3 * ours, leaves), torch.autograd.grad(3 * theirs, leaves), strict=True
    ):
        torch.testing.assert_close(ours_part, theirs_part, rtol=1e-12, atol=1e-12)


def test_gradients_pass_gradcheck():
    rows, weight, bias, targets = case()
    torch.autograd.gradcheck(
        lambda rows, weight, bias: cross_entropy(rows, weight, targets, bias, 0.1, chunk=4),
        (rows, weight, bias),
    )


@pytest.mark.parametrize("chunk", [1, 4, 5, 12, 100, None])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_r_drop_adds_both_divergences_of_two_passes(chunk, smoothing):
    rows, weight, bias, targets = case(rows=12)
    targets = targets[:6].repeat(2)
    ours = cross_entropy(rows, weight, targets, bias, smoothing, chunk, r_drop=3.0)
    p, q = F.linear(rows, weight, bias).log_softmax(-1).chunk(2)
    apart = F.kl_div(p, q, reduction="sum", log_target=True) + F.kl_div(
        q, p, reduction="sum", log_target=True
    )
    theirs = reference(rows, weight, bias, targets, smoothing) + 1.5 * apart
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    leaves = (rows, weight, bias)
    for ours_part, theirs_part in zip(
        torch.autograd.grad(3 * ours, leaves), torch.autograd.grad(3 * theirs, leaves), strict=True
    ):
        torch.testing.assert_close(ours_part, theirs_part, rtol=1e-11, atol=1e-11)
    with torch.no_grad():
        alone = cross_entropy(rows, weight, targets, bias, smoothing, chunk, r_drop=3.0)
    torch.testing.assert_close(alone, ours.detach())


def test_float32_is_as_exact_as_float32_can_be():
    rows, weight, _, targets = case(300, 32, 500, torch.float32, bias=False)
    wide = [tensor.detach().double().requires_grad_() for tensor in (rows, weight)]
    ours = torch.autograd.grad(cross_entropy(rows, weight, targets, None, 0.1, 64), (rows, weight))
    exact = torch.autograd.grad(reference(*wide, None, targets, 0.1), wide)
    for ours_part, theirs_part in zip(ours, exact, strict=True):
        assert (ours_part - theirs_part).abs().max() / theirs_part.abs().max() < 2e-6


@pytest.mark.parametrize("frozen", ["rows", "weight", "bias"])
def test_what_is_frozen_gets_no_gradient_and_the_rest_the_same(frozen):
    rows, weight, bias, targets = case()
    named = {"rows": rows, "weight": weight, "bias": bias}
    named[frozen].requires_grad_(False)
    leaves = [tensor for name, tensor in named.items() if name != frozen]
    ours = torch.autograd.grad(cross_entropy(rows, weight, targets, bias, 0.1, 4), leaves)
    theirs = torch.autograd.grad(reference(rows, weight, bias, targets, 0.1), leaves)
    for ours_part, theirs_part in zip(ours, theirs, strict=True):
        torch.testing.assert_close(ours_part, theirs_part)
    cross_entropy(rows, weight, targets, bias, 0.1, 4).backward()
    assert named[frozen].grad is None


class Watch(TorchDispatchMode):
    """Records the shape of every result of an operation."""

    def __init__(self):
        super().__init__()
        self.results: list[tuple[torch.Size, str]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.results.append((tensor.shape, str(func)))
        return out


def test_the_logits_of_all_rows_are_never_held():
    rows, weight, bias, targets = case(rows=64, width=4, vocabulary=50)
    with Watch() as ours:
        cross_entropy(rows, weight, targets, bias, 0.1, chunk=16).backward()
    assert max(shape.numel() for shape, _ in ours.results) == 16 * 50
    with Watch() as theirs:
        reference(rows, weight, bias, targets, 0.1).backward()
    assert max(shape.numel() for shape, _ in theirs.results) == 64 * 50


def test_without_grad_mode_only_the_loss_is_made():
    rows, weight, bias, targets = case(rows=64, width=60, vocabulary=50)
    with torch.no_grad(), Watch() as seen:
        loss = cross_entropy(rows, weight, targets, bias, 0.1, chunk=16)
    assert not loss.requires_grad
    assert not any(
        shape in (rows.shape, weight.shape) for shape, name in seen.results if "detach" not in name
    )


def test_no_rows_have_no_loss_and_zero_gradients():
    rows, weight, bias, targets = case(rows=0)
    loss = cross_entropy(rows, weight, targets, bias, 0.1)
    loss.backward()
    assert (loss, weight.grad.abs().sum(), rows.grad.shape) == (0, 0, rows.shape)


def test_backward_can_be_asked_twice():
    rows, weight, bias, targets = case()
    loss = cross_entropy(rows, weight, targets, bias, 0.1, 4)
    first = torch.autograd.grad(loss, weight, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(loss, weight)[0])


def test_a_second_derivative_is_refused():
    """With a gradient penalty, torch's own once_differentiable would leave the penalty out in silence."""
    rows, weight, bias, targets = case()
    loss = cross_entropy(rows, weight, targets, bias)
    with pytest.raises(UsageError, match="no second derivative"):
        torch.autograd.grad(loss, rows, create_graph=True)
