"""Replicas: parts of a batch computed at once equal parts computed in turn, reproducible bit for bit."""

from __future__ import annotations

import sys
import threading

import pytest
import torch
from torch import nn

from regard.errors import SettingError
from regard.model.kernels import drop, dropout_generator
from regard.model.transformer import build_model
from regard.training.objectives import Translation
from regard.training.replicas import SWITCH_INTERVAL, Replicas
from regard.training.settings import TrainingSettings

from . import toy
from .conftest import parallel, tiny


def losses_and_gradients(
    count: int, dropout: float, parts: int = 4
) -> tuple[list[tuple[float, int]], list[torch.Tensor | None]]:
    torch.manual_seed(0)
    module = Translation(build_model(tiny(dropout=dropout)))
    with Replicas(count) as replicas:
        sums = replicas.backward(module, parallel(16, seed=1).split(parts))
    gradients = [parameter.grad for parameter in module.parameters()]
    return [(part.loss.item(), part.count) for part in sums], gradients


@pytest.mark.parametrize("count", [2, 3])
def test_parts_at_once_equal_parts_in_turn(count):
    losses, gradients = losses_and_gradients(count, 0.0)
    expected, expected_gradients = losses_and_gradients(1, 0.0)
    assert [tokens for _, tokens in losses] == [tokens for _, tokens in expected]
    assert [loss for loss, _ in losses] == pytest.approx([loss for loss, _ in expected], rel=1e-6)
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-4, atol=1e-5)


def test_with_dropout_the_same_bits_every_time():
    first, gradients = losses_and_gradients(2, 0.3)
    for _ in range(5):
        again, others = losses_and_gradients(2, 0.3)
        assert again == first
        assert all(torch.equal(gradient, other) for gradient, other in zip(gradients, others, strict=True))


def test_each_part_has_its_own_dropout():
    torch.manual_seed(0)
    module = Translation(build_model(tiny(dropout=0.3)))
    part = parallel(16, seed=1)
    with Replicas(2) as replicas:
        first, second = replicas.backward(module, [part, part])
    assert first.loss.item() != second.loss.item()


class Seen(nn.Module):
    """Records the threads that called it."""

    def __init__(self):
        super().__init__()
        self.weight, self.never = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
        self.threads, self.both = [], threading.Barrier(2)

    def forward(self, batch):
        self.both.wait(timeout=60)  # both threads are inside
        self.threads.append((threading.current_thread().name, torch.get_num_threads()))
        if batch == "broken":
            raise ValueError("broken")
        return (self.weight * batch).sum(), 1


def test_two_replicas_compute_at_once_and_divide_the_threads():
    before, module = torch.get_num_threads(), Seen()
    torch.set_num_threads(4)
    try:
        with Replicas(2) as replicas:
            replicas.backward(module, [torch.tensor([2.0]), torch.tensor([3.0])])
            replicas.backward(module, [torch.tensor([4.0]), torch.tensor([5.0])])
            assert torch.get_num_threads() == 4
        assert {threads for _, threads in module.threads} == {2}
        assert len({name for name, _ in module.threads}) == 2
        assert (module.weight.grad.item(), module.never.grad) == (14.0, None)
    finally:
        torch.set_num_threads(before)


def test_an_error_in_a_replica_is_raised():
    with Replicas(2) as replicas, pytest.raises(ValueError, match="broken"):
        replicas.backward(Seen(), [torch.tensor([2.0]), "broken"])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("regard-replica")]


def test_dropout_draws_from_the_given_generator():
    x, mine = torch.ones(1000), torch.Generator().manual_seed(5)
    before = torch.get_rng_state()
    with dropout_generator(mine):
        first = drop(x, 0.5, training=True)
    assert torch.equal(torch.get_rng_state(), before)
    with dropout_generator(torch.Generator().manual_seed(5)):
        assert torch.equal(drop(x, 0.5, training=True), first)
    drop(x, 0.5, training=True)
    assert not torch.equal(torch.get_rng_state(), before)


def test_two_replicas_equal_two_micro_batches():
    losses = []
    for cut in ({"replicas": 2}, {"gradient_accumulation": 2}):
        trainer = toy.trainer(None, {"steps": 30, "optimizer": "muon", **cut}, dropout=0.0)
        trainer.train()
        losses.append(list(trainer.progress.losses))
    assert len(losses[0]) == 30
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0][-1] < losses[0][0]


def test_an_accelerator_needs_one(caplog):
    caplog.set_level("INFO", "regard.training")
    assert Replicas.for_module(nn.Linear(2, 2), 3).count == 3
    assert not caplog.messages
    assert Replicas.for_module(nn.Linear(2, 2, device="meta"), 3).count == 1
    assert "1 replica instead of 3" in caplog.text


def test_replicas_and_compile_exclude_each_other():
    with pytest.raises(SettingError, match="replicas"):
        TrainingSettings(replicas=2, compile=True)


def test_the_switch_interval_is_shorter_with_replicas():
    usual = sys.getswitchinterval()
    with Replicas(2):
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)
    assert sys.getswitchinterval() == pytest.approx(usual)
    with Replicas(1):
        assert sys.getswitchinterval() == pytest.approx(usual)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("r_drop", [0.0, 1.5])
def test_the_cross_entropy_is_without_label_smoothing_and_r_drop(count, r_drop):
    torch.manual_seed(0)
    module = Translation(build_model(tiny(dropout=1e-6)), label_smoothing=0.3, r_drop=r_drop)
    parts = parallel(16, seed=1).split(3)
    with Replicas(count) as replicas:
        losses = replicas.backward(module, parts)
    module.eval()
    for sums, part in zip(losses, parts, strict=True):
        expected, tokens = module(part)
        assert sums.cross_entropy.item() / sums.count == pytest.approx(expected.item() / tokens, rel=1e-4)
        assert sums.loss.item() != pytest.approx(sums.cross_entropy.item(), rel=1e-5)


def test_a_module_that_reports_no_cross_entropy_has_its_loss():
    class Squared(nn.Linear):
        def forward(self, input):
            return super().forward(input).square().sum(), len(input)

    with Replicas(1) as replicas:
        (sums,) = replicas.backward(Squared(1, 1), [torch.tensor([2.0])])
    assert torch.equal(sums.loss, sums.cross_entropy)
