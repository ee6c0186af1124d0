"""The cache: cached equals uncached, for rows that stand at different lengths, come, go and multiply."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ShapeError
from regard.model.config import ModelConfig
from regard.model.masks import Mask
from regard.model.transformer import build_model

V = 30
SMALL = dict(vocabulary=V, width=16, layers=2, heads=4, feed_forward_width=24)
KINDS = {
    "sinusoidal": dict(),
    "learned": dict(positions="learned", residual="pre"),
    "rotary": dict(positions="rotary", norm="rms", key_value_heads=2, feed_forward="swiglu"),
    "odd": dict(key_width=6, value_width=3, similarity="bilinear"),
}


def make(kind, **changes):
    torch.manual_seed(0)
    model = build_model(ModelConfig(**{**SMALL, **KINDS[kind], **changes})).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def ids(*shape, seed=0):
    return torch.randint(0, V, shape, generator=torch.Generator().manual_seed(seed))


def close(a, b):
    return (a - b).abs().max() <= 1e-5 * b.abs().max()


@given(
    kind=st.sampled_from(sorted(KINDS)),
    pieces=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    capacity=st.integers(1, 8),
)
@settings(max_examples=30)
@torch.no_grad()
def test_cached_equals_uncached_in_any_pieces(kind, pieces, capacity):
    model, text = make(kind, family="decoder-only"), ids(3, sum(pieces))
    cache = model.new_cache(rows=3, capacity=capacity)
    parts = [model.decode(part, cache=cache) for part in text.split(pieces, dim=1)]
    assert close(torch.cat(parts, dim=1), model.decode(text))
    assert cache.length == sum(pieces)


@pytest.mark.parametrize("kind", sorted(KINDS))
@torch.no_grad()
def test_a_translation_cached_equals_uncached(kind):
    model, source, target = make(kind), ids(3, 6), ids(3, 5, seed=1)
    mask = Mask(keys=torch.arange(6)[None] < torch.tensor([[6], [4], [5]]))
    cache = model.new_cache(model.encode(source, mask), mask)
    steps = [model.decode(target[:, i : i + 1], cache=cache) for i in range(5)]
    assert close(torch.cat(steps, dim=1), model.decode(target, model.encode(source, mask), mask))


@pytest.mark.parametrize("kind", sorted(KINDS))
@torch.no_grad()
def test_rows_of_different_lengths_share_a_batch(kind):
    model, text = make(kind, family="decoder-only"), ids(3, 6)
    lengths = torch.tensor([2, 6, 4])
    cache = model.new_cache(rows=3, capacity=2)
    model.decode(text, Mask(keys=torch.arange(6)[None] < lengths[:, None]), cache)
    assert cache.lengths.tolist() == [2, 6, 4]
    more = ids(3, 2, seed=5)
    found = model.decode(more, cache=cache)
    for row, length in enumerate(lengths):
        alone = torch.cat([text[row, :length], more[row]])[None]
        assert close(found[row], model.decode(alone)[0, length:])


@torch.no_grad()
def test_reordered_rows_continue_their_new_sequences():
    model, text = make("sinusoidal", family="decoder-only"), ids(3, 4)
    cache = model.new_cache(rows=3)
    model.decode(text, cache=cache)
    order = [2, 0, 0, 1]
    cache.reorder(np.array(order))
    more = ids(4, 1, seed=9)
    whole = torch.cat([text[order], more], dim=1)
    assert close(model.decode(more, cache=cache), model.decode(whole)[:, -1:])


@pytest.mark.parametrize(
    "order", [[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 1], [0, 0, 0, 1], [2], []]
)
@torch.no_grad()
def test_beams_look_at_their_own_source_and_its_memory_is_not_multiplied(order):
    model, source, target = make("rotary"), ids(3, 6), ids(3, 3, seed=1)
    mask = Mask(keys=torch.arange(6)[None] < torch.tensor([[6], [4], [5]]))
    cache = model.new_cache(model.encode(source, mask), mask)
    model.decode(target, cache=cache)
    cache.reorder(np.array(order, dtype=int))
    more = ids(len(order), 1, seed=9)
    found = model.decode(more, cache=cache) if order else torch.zeros(0, 1, 16)
    memory = model.encode(source, mask)[order]
    whole = torch.cat([target[order], more], dim=1)
    wanted = model.decode(whole, memory, Mask(keys=mask.keys[order]))[:, -1:]
    assert found.shape == wanted.shape
    assert not order or close(found, wanted)
    if order in ([0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 1]):
        assert cache._stored[0].key.shape[0] == len(set(order))
    if order == [0, 0, 1, 1]:
        assert cache.memory(0).key.shape[0] == 2


@torch.no_grad()
def test_rows_enter_a_running_batch():
    model = make("learned")
    first, second = ids(2, 6), ids(1, 3, seed=2)
    running = model.new_cache(model.encode(first), capacity=2)
    model.decode(ids(2, 4, seed=3), cache=running)
    coming = model.new_cache(model.encode(second))
    running.join(coming)
    assert running.lengths.tolist() == [4, 4, 0]
    more = ids(3, 1, seed=4)
    found = model.decode(more, cache=running)
    old = torch.cat([ids(2, 4, seed=3), more[:2]], dim=1)
    assert close(found[:2], model.decode(old, model.encode(first))[:, -1:])
    assert close(found[2:], model.decode(more[2:], model.encode(second)))


@torch.no_grad()
def test_capacity_doubles_and_other_steps_copy_nothing():
    model = make("sinusoidal", family="decoder-only")
    cache = model.new_cache(rows=1, capacity=4)
    places = []
    for step in range(9):
        model.decode(ids(1, 1, seed=step), cache=cache)
        places.append(cache._keys.data_ptr())
    assert places[:4] == [places[0]] * 4
    assert cache._keys.shape[3] == 16


def test_padding_on_the_left_is_refused_where_there_is_a_cache():
    model = make("sinusoidal", family="decoder-only")
    with pytest.raises(ShapeError, match="padding must be on the right"):
        model.decode(ids(1, 2), Mask(keys=torch.tensor([[False, True]])), model.new_cache(rows=1))


def test_modules_keep_no_state():
    model = make("sinusoidal")
    before = {name: dict(module.__dict__) for name, module in model.named_modules()}
    with torch.no_grad():
        cache = model.new_cache(model.encode(ids(2, 4)))
        model.decode(ids(2, 1), cache=cache)
    for name, module in model.named_modules():
        assert module.__dict__.keys() == before[name].keys()


def test_stored_keys_and_values_have_no_gradient():
    model = make("sinusoidal", family="decoder-only")
    cache = model.new_cache(rows=2, capacity=1)
    for step in range(3):
        hidden = model.decode(ids(2, 1, seed=step), cache=cache)
    assert hidden.requires_grad
    assert not cache._keys.requires_grad


@torch.no_grad()
def test_rows_are_reordered_before_and_after_the_capacity_grows():
    """The spare buffer of an earlier reordering is too small for the grown cache."""
    model = make("rotary", family="decoder-only")
    cache, text = model.new_cache(rows=2, capacity=2), ids(2, 1)
    model.decode(text, cache=cache)
    for step in range(1, 9):
        order = np.array([1, 0]) if step % 2 else np.array([1, 1])
        cache.reorder(order)
        more = ids(2, 1, seed=step)
        text = torch.cat([text[order], more], dim=1)
        assert close(model.decode(more, cache=cache), model.decode(text)[:, -1:])


@torch.no_grad()
def test_sources_with_and_without_padding_join():
    model, target = make("learned"), ids(4, 1, seed=3)
    short, long, padded = ids(1, 3, seed=1), ids(1, 6, seed=2), ids(2, 5, seed=4)
    mask = Mask(keys=torch.arange(5)[None] < torch.tensor([[2], [5]]))
    cache = model.new_cache(model.encode(short))
    cache.join(model.new_cache(model.encode(padded, mask), mask))
    cache.join(model.new_cache(model.encode(long)))
    found = model.decode(target, cache=cache)
    for row, source in enumerate((short, padded[:1, :2], padded[1:], long)):
        assert close(found[row], model.decode(target[row : row + 1], model.encode(source))[0])
