"""Workers: pieces of a step at once give what one after another gives, the same bits every time."""

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
from regard.training.replicas import PATIENCE, Workers
from regard.training.settings import TrainingSettings

from . import toy
from .conftest import parallel, tiny


def learned(
    count: int, dropout: float, pieces: int = 4
) -> tuple[list[tuple[float, int]], list[torch.Tensor | None]]:
    torch.manual_seed(0)
    module = Translation(build_model(tiny(dropout=dropout)))
    with Workers(count) as workers:
        found = workers.learn(module, parallel(16, seed=1).split(pieces))
    return [(one.loss.item(), one.count) for one in found], [one.grad for one in module.parameters()]


@pytest.mark.parametrize("count", [2, 3])
def test_pieces_at_once_give_what_one_after_another_gives(count):
    (losses, gradients), (expected, right) = learned(count, 0.0), learned(1, 0.0)
    assert [tokens for _, tokens in losses] == [tokens for _, tokens in expected]
    assert [loss for loss, _ in losses] == pytest.approx([loss for loss, _ in expected], rel=1e-6)
    for one, other in zip(gradients, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_with_dropout_the_same_bits_every_time():
    first, gradients = learned(2, 0.3)
    for _ in range(5):
        again, others = learned(2, 0.3)
        assert again == first
        assert all(torch.equal(one, other) for one, other in zip(gradients, others, strict=True))


def test_each_piece_drops_other_values():
    torch.manual_seed(0)
    module = Translation(build_model(tiny(dropout=0.3)))
    piece = parallel(16, seed=1)
    with Workers(2) as workers:
        one, other = workers.learn(module, [piece, piece])
    assert one.loss.item() != other.loss.item()


class Seen(nn.Module):
    """Remembers who called it."""

    def __init__(self):
        super().__init__()
        self.weight, self.never = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
        self.threads, self.both = [], threading.Barrier(2)

    def forward(self, batch):
        self.both.wait(timeout=60)  # nobody goes on before both are here
        self.threads.append((threading.current_thread().name, torch.get_num_threads()))
        if batch == "broken":
            raise ValueError("broken")
        return (self.weight * batch).sum(), 1


def test_two_are_at_work_at_once_and_share_the_threads():
    before, module = torch.get_num_threads(), Seen()
    torch.set_num_threads(4)
    try:
        with Workers(2) as workers:
            workers.learn(module, [torch.tensor([2.0]), torch.tensor([3.0])])
            workers.learn(module, [torch.tensor([4.0]), torch.tensor([5.0])])
            assert torch.get_num_threads() == 4
        assert {threads for _, threads in module.threads} == {2}
        assert len({name for name, _ in module.threads}) == 2
        assert (module.weight.grad.item(), module.never.grad) == (14.0, None)
    finally:
        torch.set_num_threads(before)


def test_what_a_worker_raises_is_raised():
    with Workers(2) as workers, pytest.raises(ValueError, match="broken"):
        workers.learn(Seen(), [torch.tensor([2.0]), "broken"])
    assert not [one for one in threading.enumerate() if one.name.startswith("regard-worker")]


def test_dropout_draws_where_it_is_told():
    x, mine = torch.ones(1000), torch.Generator().manual_seed(5)
    before = torch.get_rng_state()
    with dropout_generator(mine):
        first = drop(x, 0.5, training=True)
    assert torch.equal(torch.get_rng_state(), before)
    with dropout_generator(torch.Generator().manual_seed(5)):
        assert torch.equal(drop(x, 0.5, training=True), first)
    drop(x, 0.5, training=True)
    assert not torch.equal(torch.get_rng_state(), before)


def test_a_run_with_two_workers_is_that_with_two_pieces():
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
    assert Workers.for_module(nn.Linear(2, 2), 3).count == 3
    assert not caplog.messages
    assert Workers.for_module(nn.Linear(2, 2, device="meta"), 3).count == 1
    assert "one worker instead of 3" in caplog.text


def test_workers_and_the_compiler_exclude_each_other():
    with pytest.raises(SettingError, match="replicas"):
        TrainingSettings(replicas=2, compile=True)


def test_python_hands_its_lock_over_sooner_while_they_work():
    usual = sys.getswitchinterval()
    with Workers(2):
        assert sys.getswitchinterval() == pytest.approx(PATIENCE)
    assert sys.getswitchinterval() == pytest.approx(usual)
    with Workers(1):
        assert sys.getswitchinterval() == pytest.approx(usual)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("agreement", [0.0, 1.5])
def test_the_cross_entropy_is_told_without_what_is_added_to_it(count, agreement):
    torch.manual_seed(0)
    module = Translation(build_model(tiny(dropout=1e-6)), smoothing=0.3, agreement=agreement)
    pieces = parallel(16, seed=1).split(3)
    with Workers(count) as workers:
        found = workers.learn(module, pieces)
    module.eval()
    for one, piece in zip(found, pieces, strict=True):
        expected, tokens = module(piece)
        assert one.cross_entropy.item() / one.count == pytest.approx(expected.item() / tokens, rel=1e-4)
        assert one.loss.item() != pytest.approx(one.cross_entropy.item(), rel=1e-5)


def test_a_loss_of_its_own_is_all_there_is_to_tell():
    class Squared(nn.Linear):
        def forward(self, input):
            return super().forward(input).square().sum(), len(input)

    with Workers(1) as workers:
        (one,) = workers.learn(Squared(1, 1), [torch.tensor([2.0])])
    assert torch.equal(one.loss, one.cross_entropy)
