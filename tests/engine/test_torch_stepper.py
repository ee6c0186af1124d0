"""TorchStepper: the torch model behind the seam that decoding drives."""

import numpy as np
import pytest
import torch

from regard.engine.stepper import Banned, Stepper
from regard.engine.torch_stepper import TorchStepper
from regard.errors import ShapeError, UsageError
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.model.watch import watch

V = 30
SMALL = dict(vocabulary=V, width=16, layers=2, heads=4, feed_forward_width=24)
RNG = np.random.default_rng(0)


def make(**changes):
    torch.manual_seed(0)
    model = build_model(ModelConfig(**{**SMALL, **changes})).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def text(length):
    return RNG.integers(0, V, length)


@torch.no_grad()
def forced(model, prefix, source=None):
    """Log-probabilities of what follows a prefix, from one pass without a cache."""
    ids = torch.as_tensor(prefix)[None]
    logits = model(ids) if source is None else model(torch.as_tensor(source)[None], ids)
    return logits[0, -1].log_softmax(-1).numpy()


@pytest.mark.parametrize("family", ["decoder-only", "encoder-decoder"])
def test_rows_come_step_branch_and_leave(family):
    model = make(family=family)
    translates = family == "encoder-decoder"
    stepper: Stepper = TorchStepper(model, capacity=2)
    written = [text(3), text(1)]
    sources = [text(4), text(6)] if translates else None
    stepper.admit(written, sources)
    looked_at = list(sources or [None, None])

    def step():
        choices = stepper.step(np.array([prefix[-1] for prefix in written]))
        for row, prefix in enumerate(written):
            assert np.allclose(
                choices.log_probabilities[row], forced(model, prefix, looked_at[row]), atol=2e-5
            )
        for row in range(len(written)):
            written[row] = np.append(written[row], text(1))

    step()
    late = [text(5), text(2)]
    late_sources = [text(9), text(2)] if translates else None
    stepper.admit(late, late_sources)
    written += late
    looked_at += late_sources or [None, None]
    step()
    order = [0, 0, 3, 1]
    stepper.reorder(np.array(order))
    written, looked_at = [written[i].copy() for i in order], [looked_at[i] for i in order]
    step()
    stepper.drop(np.array([1]))
    del written[1], looked_at[1]
    assert stepper.rows == 3
    step()


def test_the_best_few_are_the_likeliest_in_order():
    stepper = TorchStepper(make(family="decoder-only"))
    stepper.admit([np.array([3]), np.array([4])])
    everything = TorchStepper(make(family="decoder-only"))
    everything.admit([np.array([3]), np.array([4])])
    best, all_of_them = stepper.step(np.array([3, 4]), best=5), everything.step(np.array([3, 4]))
    assert all_of_them.ids is None
    order = np.argsort(-all_of_them.log_probabilities, axis=1)[:, :5]
    assert (best.ids == order).all()
    assert np.allclose(best.log_probabilities, np.take_along_axis(all_of_them.log_probabilities, order, 1))


def test_a_banned_id_is_never_chosen_and_nothing_is_renormalised():
    stepper = TorchStepper(make(family="decoder-only"))
    stepper.admit([np.array([3]), np.array([4])])
    free = TorchStepper(make(family="decoder-only"))
    free.admit([np.array([3]), np.array([4])])
    likeliest = free.step(np.array([3, 4]), best=2)
    banned = Banned(np.array([1]), likeliest.ids[1, :1])
    found = stepper.step(np.array([3, 4]), best=1, banned=banned)
    assert found.ids[0, 0] == likeliest.ids[0, 0]
    assert found.ids[1, 0] == likeliest.ids[1, 1]
    assert found.log_probabilities[1, 0] == likeliest.log_probabilities[1, 1]


@pytest.mark.parametrize("ablate", [(), [("cross", 0, 0)]])
def test_a_blend_has_the_last_word_but_for_what_is_banned(ablate):
    model, given = make(family="encoder-decoder"), []

    def blend(hidden, chances):
        given.append((hidden, chances))
        return chances.roll(1, dims=-1)

    prefix, source = text(3), text(5)
    plain, blended = TorchStepper(model, ablate=ablate), TorchStepper(model, ablate=ablate, blend=blend)
    for stepper in (plain, blended):
        stepper.admit([prefix], [source])
    banned = Banned(np.array([0]), np.array([2]))
    said = plain.step(prefix[-1:]).log_probabilities
    found = blended.step(prefix[-1:], banned=banned).log_probabilities
    wanted = np.roll(said, 1, axis=1)
    wanted[0, 2] = -np.inf
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    hidden, chances = given[0]
    assert hidden.shape == (1, model.config.width)
    with torch.inference_mode():
        again = model.head(hidden[None])[0].log_softmax(-1)  # it is what the head reads
    torch.testing.assert_close(chances, again)


def test_switched_off_heads_reach_a_worker_thread_as_a_value():
    model, ablate = make(family="decoder-only"), {("decoder", 0, 1)}
    stepper = TorchStepper(model, ablate=ablate)
    stepper.admit([np.array([3, 5])])
    found = stepper.step(np.array([5])).log_probabilities[0]
    with watch(model, only=(), ablate=ablate):
        assert np.allclose(found, forced(model, [3, 5]), atol=1e-5)
    assert not np.allclose(found, forced(model, [3, 5]), atol=1e-3)


def test_what_cannot_be_stepped_is_said():
    with pytest.raises(UsageError, match="cannot generate text"):
        TorchStepper(make(family="encoder-only"))
    stepper = TorchStepper(make())
    with pytest.raises(ShapeError, match="0 sources for 1 rows"):
        stepper.admit([np.array([1])])
    with pytest.raises(ShapeError, match="a prefix is empty"):
        stepper.admit([np.array([], dtype=int)], [np.array([1])])
    stepper.admit([np.array([1])], [np.array([1])])
    with pytest.raises(ShapeError, match="2 ids for 1 rows"):
        stepper.step(np.array([1, 2]))


def test_the_limit_is_the_context_where_positions_are_learned():
    assert TorchStepper(make(family="decoder-only", positions="learned", context=9)).limit == 9
    assert TorchStepper(make(family="decoder-only")).limit is None
    assert TorchStepper(make(target_vocabulary=11, share_embeddings=False)).vocabulary == 11
