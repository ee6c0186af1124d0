"""Attention: written out, fused, and beside a loop in double precision."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from regard.errors import SettingError
from regard.model import attention as room
from regard.model.attention import (
    MultiHeadAttention,
    attention,
    attention_steps,
    fused_attention,
)
from regard.model.config import ModelConfig
from regard.model.masks import Mask
from regard.model.positions import Rotary
from regard.model.similarity import SIMILARITIES
from regard.model.transformer import build_model


def loop(query, key, value, visible, score):
    """Equation 1, a number at a time, in double precision."""
    batch, heads, queries, _ = query.shape
    keys, width = value.shape[2:]
    groups = heads // key.shape[1]
    out = np.zeros((batch, heads, queries, width))
    for b, h, q in itertools.product(range(batch), range(heads), range(queries)):
        seen = [k for k in range(keys) if visible[b, h, q, k]]
        scores = [score(h, query[b, h, q], key[b, h // groups, k]) for k in seen]
        top = max(scores, default=0.0)
        parts = [math.exp(s - top) for s in scores]
        for part, k in zip(parts, seen, strict=True):
            out[b, h, q] += part / sum(parts) * value[b, h // groups, k]
    return out


def scorers(similarity, width):
    """Each similarity again, from its definition."""
    weights = {name: w.detach().double().numpy() for name, w in similarity.named_parameters()}
    return {
        "scaled-dot": lambda h, q, k: q @ k / math.sqrt(width),
        "dot": lambda h, q, k: q @ k,
        "cosine": lambda h, q, k: q @ k / (np.linalg.norm(q) * np.linalg.norm(k)),
        "bilinear": lambda h, q, k: q @ weights["weight"][h] @ k,
        "additive": lambda h, q, k: (
            np.tanh(q @ weights["query_weight"][h] + k @ weights["key_weight"][h])
            @ weights["vector"][h][:, 0]
        ),
    }


def random_mask(generator, kind, batch, queries, keys):
    exists = torch.rand(batch, keys, generator=generator) > 0.3
    matrix = torch.rand(batch, 1, queries, keys, generator=generator) > 0.4
    return {
        "none": Mask(),
        "causal": Mask(causal=True),
        "keys": Mask(keys=exists),
        "both": Mask(causal=True, keys=exists),
        "matrix": Mask(matrix=matrix),
        "continued": Mask(causal=True, offset=2),
        "rows": Mask(causal=True, offset=torch.arange(batch)),
    }[kind]


MASKS = ["none", "causal", "keys", "both", "matrix", "continued", "rows"]


def tensors(
    generator, batch=2, heads=4, groups=2, queries=5, keys=6, width=8, value_width=8, dtype=torch.float32
):
    def make(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    query = make(batch, heads, queries, width)
    key, value = make(batch, groups, keys, width), make(batch, groups, keys, value_width)
    return query, key, value


def close(a, b, relative):
    """Equal within so much of the reference's largest magnitude."""
    return (a.double() - b.double()).abs().max() <= relative * b.double().abs().max().clamp_min(1e-12)


@given(
    seed=st.integers(0, 2**20),
    name=st.sampled_from(sorted(SIMILARITIES)),
    kind=st.sampled_from(MASKS),
    groups=st.sampled_from([1, 2, 4]),
    value_width=st.sampled_from([3, 8, 11]),
    queries=st.integers(1, 6),
    keys=st.integers(1, 7),
)
def test_written_out_equals_a_loop(seed, name, kind, groups, value_width, queries, keys):
    generator = torch.Generator().manual_seed(seed)
    query, key, value = tensors(generator, groups=groups, queries=queries, keys=keys, value_width=value_width)
    mask = random_mask(generator, kind, 2, queries, keys)
    similarity = SIMILARITIES.find(name)(4, 8)
    dense = mask.dense(queries, keys)
    visible = (
        np.ones((2, 4, queries, keys), bool) if dense is None else dense.expand(2, 4, queries, keys).numpy()
    )
    wanted = loop(
        query.double().numpy(),
        key.double().numpy(),
        value.double().numpy(),
        visible,
        scorers(similarity, 8)[name],
    )
    found = attention(query, key, value, mask, similarity)
    assert close(found, torch.from_numpy(wanted), 1e-6 if name == "scaled-dot" else 1e-5)
    if name == "scaled-dot":
        assert close(fused_attention(query, key, value, mask), torch.from_numpy(wanted), 1e-6)


@given(
    seed=st.integers(0, 2**20),
    kind=st.sampled_from(MASKS),
    groups=st.sampled_from([1, 2, 4]),
    value_width=st.sampled_from([3, 8, 11]),
    queries=st.integers(1, 6),
)
def test_fused_equals_written_out_forward_and_backward(seed, kind, groups, value_width, queries):
    generator = torch.Generator().manual_seed(seed)
    inputs = tensors(generator, groups=groups, queries=queries, value_width=value_width)
    mask = random_mask(generator, kind, 2, queries, 6)
    outputs, gradients = [], []
    for function in (attention, fused_attention):
        leaves = [x.clone().requires_grad_() for x in inputs]
        output = function(*leaves, mask)
        weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(seed))
        outputs.append(output)
        gradients.append(torch.autograd.grad((output * weights).sum(), leaves))
    assert close(outputs[1], outputs[0], 1e-6)
    for fused, written in zip(gradients[1], gradients[0], strict=True):
        assert torch.isfinite(fused).all()
        assert close(fused, written, 1e-4) or written.abs().max() < 1e-6


@pytest.mark.parametrize("function", [attention, fused_attention])
def test_a_fully_masked_row_gives_zeros_and_leaves_its_neighbours_alone(function):
    generator = torch.Generator().manual_seed(0)
    query, key, value = tensors(generator, queries=3, keys=3)
    free = function(query, key, value)
    leaves = [x.clone().requires_grad_() for x in (query, key, value)]
    matrix = torch.ones(3, 3, dtype=torch.bool)
    matrix[1] = False
    output = function(*leaves, Mask(matrix=matrix))
    assert (output[:, :, 1] == 0).all()
    assert close(output[:, :, [0, 2]], free[:, :, [0, 2]], 1e-6)
    gradients = torch.autograd.grad(output.square().sum(), leaves)
    assert all(torch.isfinite(g).all() for g in gradients)
    assert (gradients[0][:, :, 1] == 0).all()


@pytest.mark.parametrize("name", sorted(SIMILARITIES))
@pytest.mark.parametrize("kind", ["none", "both"])
def test_gradients_are_right_in_double_precision(name, kind):
    generator = torch.Generator().manual_seed(3)
    inputs = tensors(
        generator, heads=2, groups=1, queries=3, keys=3, width=4, value_width=2, dtype=torch.float64
    )
    similarity = SIMILARITIES.find(name)(2, 4).double()
    mask = random_mask(generator, kind, 2, 3, 3)
    leaves = [x.requires_grad_() for x in inputs]
    assert torch.autograd.gradcheck(lambda q, k, v: attention(q, k, v, mask, similarity), leaves)
    if name == "scaled-dot":
        assert torch.autograd.gradcheck(lambda q, k, v: fused_attention(q, k, v, mask), leaves)


def test_the_kernels_that_refuse_a_mask_beside_causality_get_a_matrix(monkeypatch):
    query, key, value = tensors(torch.Generator().manual_seed(1), groups=4, queries=6)
    mask = Mask(causal=True, keys=torch.tensor([[True] * 4 + [False] * 2, [False] + [True] * 5]))
    wanted = attention(query, key, value, mask)
    with sdpa_kernel(SDPBackend.MATH):
        monkeypatch.setattr(room, "_kernel_takes_mask_and_causal", lambda *tensors: True)
        with pytest.raises(RuntimeError, match="is_causal"):
            fused_attention(query, key, value, mask)
        monkeypatch.undo()
        monkeypatch.setattr(torch.backends.cuda, "flash_sdp_enabled", lambda: False)
        assert close(fused_attention(query, key, value, mask), wanted, 1e-6)


def test_the_narrowest_rotary_head_works_with_a_mask_and_causality():
    layer, x = MultiHeadAttention(8, heads=4, key_width=2), torch.randn(2, 3, 8)
    mask = Mask(causal=True, keys=torch.tensor([[True, True, True], [False, True, True]]))
    rotation = Rotary(2).rotation(torch.arange(3))
    query, key, value = layer.projections(x)
    wanted = attention(rotation(query), rotation(key), value, mask)
    assert close(fused_attention(rotation(query), rotation(key), value, mask), wanted, 1e-6)


class LargestTensor(TorchDispatchMode):
    """Remembers the largest tensor that any operation made."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for x in made if isinstance(made, tuple | list) else (made,):
            if isinstance(x, torch.Tensor) and x.layout == torch.strided:
                self.largest = max(self.largest, x.untyped_storage().nbytes() // x.element_size())
        return made


def largest_tensor(function, tokens, mask, value_width=8):
    generator = torch.Generator().manual_seed(0)
    inputs = tensors(generator, 1, 2, 1, tokens, tokens, 8, value_width)
    leaves = [x.requires_grad_() for x in inputs]
    with LargestTensor() as seen:
        function(*leaves, mask).sum().backward()
    return seen.largest


@pytest.mark.parametrize("value_width", [8, 4, 12])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_memory_is_linear_in_the_length(value_width, causal, padded):
    tokens = 4096
    mask = Mask(causal=causal, keys=(torch.arange(tokens) < tokens - 9)[None] if padded else None)
    assert largest_tensor(fused_attention, tokens, mask, value_width) <= 2 * 12 * tokens
    assert largest_tensor(attention, 256, Mask(causal=causal)) >= 256 * 256  # the measure can fail


def test_a_whole_model_of_4096_tokens_holds_nothing_larger_than_its_widest_layer():
    config = ModelConfig.named("gpt-2", vocabulary=9, width=16, layers=2, heads=2, feed_forward_width=32)
    model = build_model(config.changed(context=4096, dropout=0.0))
    with LargestTensor() as seen:
        model(torch.zeros(1, 4096, dtype=torch.long)).sum().backward()
    assert seen.largest <= 4096 * 3 * 16


def test_heads_and_widths_may_all_differ():
    layer = MultiHeadAttention(10, heads=4, groups=2, key_width=6, value_width=3, bias=False)
    assert layer.projections.weight.shape == (4 * 6 + 2 * 6 + 2 * 3, 10)
    assert layer(torch.randn(2, 5, 10)).shape == (2, 5, 10)
    assert layer(torch.randn(2, 5, 10), memory=torch.randn(2, 7, 10)).shape == (2, 5, 10)


def test_attention_dropout_takes_the_written_out_path_and_only_in_training():
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, heads=2, dropout=0.5)
    x = torch.randn(2, 5, 8)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_self_attention_without_positions_does_not_know_order():
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(8, heads=2), torch.randn(2, 6, 8)
    order = torch.randperm(6)
    assert close(layer(x[:, order]), layer(x)[:, order], 1e-5)


def test_an_unknown_similarity_names_the_nearest():
    with pytest.raises(SettingError, match=r"unknown similarity 'cosin'; did you mean cosine\?"):
        MultiHeadAttention(8, heads=2, similarity="cosin")


def test_cosine_is_one_for_equal_directions_and_minus_one_for_opposite():
    x = torch.tensor([[[[3.0, 4.0]]]])
    cosine = SIMILARITIES.find("cosine")(1, 2)
    assert cosine(x, 7 * x).item() == pytest.approx(1)
    assert cosine(x, -2 * x).item() == pytest.approx(-1)


def test_the_steps_are_those_of_equation_one():
    query, key, value = tensors(torch.Generator().manual_seed(2), groups=4)
    steps = attention_steps(query, key, value, Mask(causal=True, offset=1))
    assert torch.equal(steps.scores, query @ key.mT)
    assert torch.equal(steps.scaled, steps.scores * 8**-0.5)
    assert torch.allclose(steps.weights.sum(-1), torch.ones(2, 4, 5))
    assert torch.equal(steps.output, steps.weights @ value)
    assert (steps.weights[..., 0, 2:] == 0).all()
