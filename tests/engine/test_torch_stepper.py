"""TorchStepper: the torch model behind the seam that decoding drives."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.modules import module as nn_module
from torch.nn.utils import parametrize

from regard.engine.stepper import Banned, Stepper
from regard.engine.torch_stepper import BLOCK, TorchStepper, _top, _topk_by_blocks
from regard.errors import ShapeError, UsageError
from regard.model.attention import MultiHeadAttention
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


TEXT, SOURCE = np.array([1, 9, 4, 22, 9, 3]), np.array([5, 6, 7, 8])


@torch.no_grad()
def by_whole_passes(model):
    """Log-probabilities of what follows each id, by one call of the whole model."""
    ids = torch.from_numpy(TEXT)[None]
    given = [ids] if model.config.family == "decoder-only" else [torch.from_numpy(SOURCE)[None], ids]
    return model(*given)[0].log_softmax(-1).numpy()


def by_steps(model):
    """The same, an id at a time."""
    stepper = TorchStepper(model)
    stepper.admit([TEXT[:1]], [SOURCE] if model.config.family == "encoder-decoder" else None)
    return np.concatenate([stepper.step(ids[None]).log_probabilities for ids in TEXT])


def negated(module, given, output):
    return -output if isinstance(module, MultiHeadAttention) else output


class Negated(torch.nn.Module):
    """A parametrization: the weight with its sign turned."""

    def forward(self, weight):
        return -weight


class Doubled(torch.nn.Linear):
    """A layer of somebody's own."""

    def forward(self, x):
        return 2 * super().forward(x)


CHANGES = {
    "forward": lambda part, patch: patch.setattr(part, "forward", torch.zeros_like),
    "forward of a class": lambda part, patch: patch.setattr(
        MultiHeadAttention, "forward", lambda self, x, *_, **__: x
    ),
    "class": lambda part, patch: patch.setattr(part, "__class__", Doubled),
    "weights": lambda part, patch: part.weight.data.neg_(),
    "parametrization": lambda part, patch: parametrize.register_parametrization(part, "weight", Negated()),
    "hook": lambda part, patch: part.register_forward_hook(lambda module, given, output: -output),
}


@pytest.mark.parametrize("family", ["decoder-only", "encoder-decoder"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_part_is_what_decodes(monkeypatch, family, change):
    model = make(family=family)
    before = by_steps(model)
    change(model.decoder.blocks[1].attention.output, monkeypatch)
    assert_decodes_differently(model, before)


def test_hooks_on_all_modules_are_called():
    model = make(family="decoder-only")
    before, handle = by_steps(model), nn_module.register_module_forward_hook(negated)
    try:
        assert_decodes_differently(model, before)
    finally:
        handle.remove()


def assert_decodes_differently(model, before):
    found = by_steps(model)
    np.testing.assert_allclose(found, by_whole_passes(model), atol=2e-5)
    assert np.abs(found - before).max() > 1e-3


def test_a_change_of_the_model_itself_is_refused_as_decoding_would_leave_it_out(monkeypatch):
    model = make()
    handle = model.register_forward_hook(lambda module, given, output: output * 0)
    with pytest.raises(UsageError, match="a hook on"):
        TorchStepper(model)
    handle.remove()
    monkeypatch.setattr(model, "forward", torch.zeros_like)
    with pytest.raises(UsageError, match="a replaced forward on"):
        TorchStepper(model)


def test_who_watches_sees_and_changes_the_modules():
    model = make(family="decoder-only")
    plain = by_steps(model)
    with watch(model, patch={"decoder.1.attention.weights": torch.zeros(())}) as seen:
        patched = by_steps(model)
    assert seen["decoder.0.attention.weights"].shape == (1, 4, 1, len(TEXT))
    assert not np.allclose(plain, patched, atol=1e-3)


def test_a_model_in_training_is_stepped_with_its_dropout():
    model = make(family="decoder-only", dropout=0.5)
    wanted = by_steps(model)
    assert not np.allclose(by_steps(model.train()), wanted, atol=1e-3)


@given(
    values=st.lists(st.integers(0, 40), min_size=1, max_size=7 * BLOCK + 5),
    count=st.integers(1, 9),
    seed=st.integers(0, 9),
)
@settings(max_examples=60)
def test_the_likeliest_few_are_those_of_a_stable_sort(values, count, seed):
    """With so few different numbers nearly everything has its equals."""
    chances = torch.tensor([values, np.random.default_rng(seed).permutation(values).tolist()]).float()
    count = min(count, len(values))
    found, places = _top(chances, count)
    wanted, order = chances.sort(dim=1, descending=True, stable=True)
    assert torch.equal(found, wanted[:, :count])
    assert torch.equal(chances.gather(1, places), wanted[:, :count])
    if count < len(values):  # the border goes to the lower ids, in whatever order
        assert torch.equal(places.sort(1).values, order[:, :count].sort(1).values)


def test_blocks_find_what_topk_finds():
    chances = torch.randn(9, 40 * BLOCK + 3, generator=torch.Generator().manual_seed(0))
    chances[0, -1], chances[1, 0] = 9.0, 9.0  # the first block, and what is left behind the last
    for count in (1, 2, 6, 19):
        found, places = _topk_by_blocks(chances, count)
        wanted = chances.topk(count)
        assert torch.equal(found, wanted.values)
        assert torch.equal(places, wanted.indices)
