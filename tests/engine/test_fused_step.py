"""A plan computes what the modules compute, and stands aside where somebody looks or a part is unknown."""

import functools
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.modules import module as nn_module
from torch.nn.utils import parametrize

from regard.engine.fused_step import fused_step_of
from regard.engine.torch_stepper import BLOCK, TorchStepper, _top, _topk_by_blocks
from regard.errors import UsageError
from regard.model.attention import ATTENTIONS, MultiHeadAttention
from regard.model.blocks import LayerNorm, PostNorm, PreNorm
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.model.watch import watch

V = 30
SMALL = dict(vocabulary=V, width=16, layers=2, heads=4, feed_forward_width=24)
KINDS = {
    "the paper's": dict(),
    "short table": dict(context=3),
    "learned": dict(positions="learned", residual="pre", scale_embeddings=False),
    "rotary": dict(positions="rotary", norm="rms", key_value_heads=2, feed_forward="swiglu"),
    "no bias": dict(attention_bias=False, feed_forward_bias=False, positions="none", head_bias=True),
    "untied": dict(similarity="dot", tie_head=False, residual="pre", final_norm=False, key_width=6),
}
FAMILIES = ["encoder-decoder", "decoder-only"]


def make(**changes):
    torch.manual_seed(0)
    model = build_model(ModelConfig(**{**SMALL, **changes})).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def admitted(model, lengths, planned=True):
    """A stepper with rows of these lengths, which are the lengths of their sources too."""
    random = np.random.default_rng(1)
    stepper = TorchStepper(model, capacity=2)
    assert stepper._fused is not None
    if not planned:
        stepper._fused = None
    texts = [random.integers(0, V, length) for length in lengths]
    sources = [random.integers(0, V, length + 1) for length in lengths]
    stepper.admit(texts, sources if model.config.family == "encoder-decoder" else None)
    return stepper


def follow(stepper, orders):
    """What a stepper says at every step, rows being reordered in between."""
    said = []
    for number, order in enumerate(orders):
        ids = np.random.default_rng(number).integers(0, V, stepper.rows)
        said.append(stepper.step(ids).log_probabilities)
        stepper.reorder(np.array(order))
    return np.concatenate(said)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[1], [3, 3, 3], [2, 5, 1], [2, 1, 4, 4, 3]], ids=str)
def test_a_plan_computes_what_the_modules_compute(kind, family, lengths):
    model, last = make(family=family, **KINDS[kind]), len(lengths) - 1
    orders = [[last, 0], [0, 0, 1, 1], [1, 0, 2, 3], [3, 1, 1], [2, 0], [1]]
    found = follow(admitted(model, lengths), orders)
    wanted = follow(admitted(model, lengths, planned=False), orders)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize(("sources", "beams"), [(2, 1), (2, 3), (6, 1), (6, 3)])
def test_a_step_does_not_look_at_the_padding_of_a_source(sources, beams):
    """Few sources and many, one row each and several: the ways in which a step looks at them."""
    model, random = make(), np.random.default_rng(4)
    texts = [random.integers(0, V, 2 + 3 * number) for number in range(sources)]

    def said(rows):
        stepper = TorchStepper(model)
        assert stepper._fused is not None
        stepper.admit([np.array([1])] * len(rows), rows)
        stepper.reorder(np.repeat(np.arange(len(rows)), beams))
        ids = np.tile(np.arange(2, 2 + beams), len(rows))
        steps = [stepper.step(ids).log_probabilities for _ in range(2)]
        return np.stack(steps).reshape(2, len(rows), beams, V)

    together = said(texts)
    for number, text in enumerate(texts):
        np.testing.assert_allclose(together[:, number], said([text])[:, 0], atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_no_plan_knows_has_none(family):
    assert fused_step_of(make(family=family)) is not None
    assert fused_step_of(make(family=family, similarity="bilinear")) is None
    assert fused_step_of(make(family=family, key_width=6, value_width=3)) is None
    assert fused_step_of(make(family=family, embedding_norm=True)) is None


def test_a_variant_of_a_known_part_is_not_taken_for_it():
    class Mine(MultiHeadAttention):
        """An attention of somebody's own."""

    ATTENTIONS["mine"] = Mine
    try:
        assert fused_step_of(make(attention="mine")) is None
    finally:
        del ATTENTIONS["mine"]


@pytest.mark.parametrize("place", ["decoder.blocks.0", "decoder.blocks.1.attention.output", "head", "target"])
def test_a_hook_is_called(place):
    model, seen = make(family="decoder-only"), []
    model.get_submodule(place).register_forward_hook(lambda *given: seen.append(True))
    stepper = TorchStepper(model)
    stepper.admit([np.array([1])])
    stepper.step(np.array([1]))
    assert seen


def test_a_layer_put_in_place_of_another_is_used():
    class Doubled(torch.nn.Linear):
        """A layer of somebody's own."""

        def forward(self, x):
            return 2 * super().forward(x)

    model = make(family="decoder-only")
    before = admitted(model, [2]).step(np.array([3])).log_probabilities
    model.decoder.blocks[0].attention.output.__class__ = Doubled
    stepper = TorchStepper(model)
    stepper.admit([np.array([1, 3])])
    assert stepper._fused is None
    assert before.shape == stepper.step(np.array([3])).log_probabilities.shape


def test_who_watches_sees_and_changes_the_modules():
    model = make(family="decoder-only")
    stepper, other = admitted(model, [2]), admitted(model, [2])
    plain = stepper.step(np.array([3])).log_probabilities
    with watch(model, patch={"decoder.1.attention.weights": torch.zeros(())}) as seen:
        patched = other.step(np.array([3])).log_probabilities
    assert seen["decoder.0.attention.weights"].shape == (1, 4, 1, 2)
    assert not np.allclose(plain, patched, atol=1e-3)


def test_a_model_in_training_is_stepped_with_its_dropout():
    model = make(family="decoder-only", dropout=0.5)
    calm, shaken = admitted(model, [1]), admitted(model, [1])
    wanted = calm.step(np.array([3])).log_probabilities
    model.train()
    assert not np.allclose(shaken.step(np.array([3])).log_probabilities, wanted, atol=1e-3)


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


def test_a_stepper_made_after_a_change_of_weights_has_the_new_ones():
    model = make(family="decoder-only")
    before = admitted(model, [2]).step(np.array([3])).log_probabilities
    model.decoder.blocks[0].feed_forward.expand.weight.data.mul_(-1)
    after = admitted(model, [2]).step(np.array([3])).log_probabilities
    wanted = admitted(model, [2], planned=False).step(np.array([3])).log_probabilities
    assert np.allclose(after, wanted, atol=1e-5)
    assert not np.allclose(before, after, atol=1e-3)


def zeros_like_output(module):
    """What replaces a module's forward: the same, times 0."""
    forward = module.forward
    return lambda *given, **named: forward(*given, **named) * 0


def embedded_as_zeros(module):
    forward = module.forward

    def replaced(*given, **named):
        x, rotation = forward(*given, **named)
        return x * 0, rotation

    return replaced


REPLACED = [
    "decoder.blocks.0",
    "decoder.blocks.1.attention",
    "decoder.blocks.0.attention.output",
    "decoder.blocks.1.feed_forward",
    "decoder.blocks.1.feed_forward.contract",
    "decoder.blocks.0.around_attention",
    "decoder.blocks.1.around_feed_forward.norm",
    "target",
]


TEXT, SOURCE = np.array([1, 9, 4, 22, 9, 3]), np.array([5, 6, 7, 8])


@torch.no_grad()
def by_whole_passes(model):
    """Log-probabilities of what follows each id, by one call of the whole model."""
    ids = torch.from_numpy(TEXT)[None]
    logits = (
        model(ids) if model.config.family == "decoder-only" else model(torch.from_numpy(SOURCE)[None], ids)
    )
    return logits[0].log_softmax(-1).numpy()


def started(model):
    stepper = TorchStepper(model)
    stepper.admit([TEXT[:1]], [SOURCE] if model.config.family == "encoder-decoder" else None)
    return stepper


def by_steps(stepper, some=slice(None)):
    """The same, an id at a time."""
    return np.concatenate([stepper.step(ids[None]).log_probabilities for ids in TEXT[some]])


def assert_changed(found, wanted, before):
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    assert np.abs(found - before).max() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("place", REPLACED)
def test_a_replaced_forward_is_what_decodes(monkeypatch, family, place):
    model = make(family=family)
    before, module = by_steps(started(model)), model.get_submodule(place)
    make_other = embedded_as_zeros if place == "target" else zeros_like_output
    monkeypatch.setattr(module, "forward", make_other(module))
    assert_changed(by_steps(started(model)), by_whole_passes(model), before)


@pytest.mark.parametrize("wrap", [lambda new, old: new, functools.wraps], ids=["plain", "wrapped"])
@pytest.mark.parametrize("kind", [MultiHeadAttention, LayerNorm, torch.nn.Linear])
def test_a_forward_replaced_in_its_class_is_what_decodes(monkeypatch, kind, wrap):
    model, forward = make(family="decoder-only"), kind.forward
    before = by_steps(started(model))

    def replaced(self, x, *given, **named):
        return forward(self, x, *given, **named) * 0

    monkeypatch.setattr(kind, "forward", wrap(forward)(replaced) if wrap is functools.wraps else replaced)
    assert_changed(by_steps(started(model)), by_whole_passes(model), before)


def test_a_forward_taken_from_another_class_is_what_decodes(monkeypatch):
    model = make(family="decoder-only")
    before = by_steps(started(model))
    monkeypatch.setattr(PostNorm, "forward", PreNorm.forward)
    assert_changed(by_steps(started(model)), by_whole_passes(model), before)


@pytest.mark.parametrize("family", FAMILIES)
def test_hooks_on_all_modules_are_called(family):
    model = make(family=family)
    before = by_steps(started(model))

    def without_attention(module, given, output):
        return output * 0 if isinstance(module, MultiHeadAttention) else output

    hooks = [
        nn_module.register_module_forward_hook(without_attention),
        nn_module.register_module_forward_pre_hook(lambda module, given: None),
    ]
    try:
        assert_changed(by_steps(started(model)), by_whole_passes(model), before)
        for hook in hooks:
            assert fused_step_of(model) is None
            hook.remove()
    finally:
        for hook in hooks:
            hook.remove()
    assert fused_step_of(model) is not None


@pytest.mark.parametrize(
    "hook", ["forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"]
)
def test_a_model_with_a_hook_has_no_plan_until_it_is_removed(hook):
    model = make(family="decoder-only")
    handle = getattr(model.decoder.blocks[0].feed_forward, f"register_{hook}")(lambda *given: None)
    assert fused_step_of(model) is None
    handle.remove()
    assert fused_step_of(model) is not None


class Negated(torch.nn.Module):
    """A parametrization: the weight with its sign turned."""

    def forward(self, weight):
        return -weight


@pytest.mark.parametrize("change", ["forward", "hook", "hook on all", "parametrization", "class"])
def test_what_changes_while_a_stepper_runs_counts_from_then_on(monkeypatch, change):
    model = make(family="decoder-only")
    stepper, other, untouched = started(model), started(model), started(model)
    other._fused = None  # module by module from the beginning
    part = model.decoder.blocks[1].attention.output
    for each in (stepper, other, untouched):
        by_steps(each, slice(3))
    before, handle = by_steps(untouched, slice(3, None)), None
    if change == "forward":
        monkeypatch.setattr(part, "forward", zeros_like_output(part))
    elif change == "class":
        monkeypatch.setattr(MultiHeadAttention, "forward", lambda self, x, *given, **named: x * 0)
    elif change == "parametrization":
        parametrize.register_parametrization(part, "weight", Negated())
    elif change == "hook":
        part.register_forward_hook(lambda module, given, output: -output)
    else:
        handle = nn_module.register_module_forward_hook(
            lambda module, given, output: -output if isinstance(module, MultiHeadAttention) else output
        )
    try:
        assert_changed(*(by_steps(each, slice(3, None)) for each in (stepper, other)), before)
    finally:
        if handle is not None:
            handle.remove()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_change_of_the_model_itself_is_refused_as_decoding_would_leave_it_out(monkeypatch, family):
    model = make(family=family)
    handle = model.register_forward_hook(lambda module, given, output: output * 0)
    with pytest.raises(UsageError, match="a hook on"):
        TorchStepper(model)
    handle.remove()
    monkeypatch.setattr(model, "forward", zeros_like_output(model))
    with pytest.raises(UsageError, match="a replaced forward on"):
        TorchStepper(model)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda model: setattr(model.decoder, "norm", torch.nn.LayerNorm(16)), "LayerNorm is not one of"),
        (lambda model: model.head.register_forward_hook(lambda *values: None), "a hook is registered"),
        (
            lambda model: setattr(model.head, "forward", zeros_like_output(model.head)),
            "a method .* is replaced",
        ),
    ],
)
def test_the_reason_why_there_is_no_fused_step_is_logged(change, reason, caplog):
    model = make(family="decoder-only")
    with caplog.at_level("DEBUG", logger="regard.engine.fused_step"):
        assert fused_step_of(model) is not None
        assert not caplog.messages
        change(model)
        assert fused_step_of(model) is None
    assert re.match(f"no fused step for DecoderOnly: {reason}", caplog.messages[0])
