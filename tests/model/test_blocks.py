"""Blocks: the formulas of the parts, and variants that a table takes in without touching the room."""

import pytest
import torch
from torch import nn

from regard.errors import SettingError
from regard.model.attention import ATTENTIONS, PROJECTIONS, split_heads
from regard.model.blocks import (
    FEED_FORWARDS,
    NORMS,
    RESIDUALS,
    FeedForward,
    LayerNorm,
    PostNorm,
    PreNorm,
    RMSNorm,
)
from regard.model.config import ModelConfig
from regard.model.positions import POSITIONS
from regard.model.similarity import SIMILARITIES
from regard.model.transformer import build_model

SMALL = dict(vocabulary=20, width=16, layers=2, heads=4, feed_forward_width=24)


def test_layer_norm_is_mean_and_deviation_over_the_width():
    x, norm = torch.randn(2, 3, 8), LayerNorm(8, epsilon=1e-5)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
    wanted = (x - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias
    assert torch.allclose(norm(x), wanted, atol=1e-5)


def test_layer_norm_does_not_depend_on_the_batch_or_on_training():
    x, norm = torch.randn(4, 3, 8), LayerNorm(8)
    alone = norm(x[:1])
    assert torch.allclose(norm(x)[:1], alone)
    assert torch.equal(norm.eval()(x[:1]), alone)


def test_rms_norm_divides_by_the_root_mean_square():
    x, norm = torch.randn(2, 3, 8), RMSNorm(8, epsilon=1e-6)
    assert torch.allclose(norm(x), x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt(), atol=1e-5)


def test_epsilon_is_an_option_that_counts():
    x = torch.randn(2, 8) * 1e-3
    for norm in NORMS.values():
        assert not torch.allclose(norm(8, 1e-12)(x), norm(8, 1e-2)(x))


def test_feed_forward_is_the_papers_and_the_same_at_every_position():
    layer, x = FeedForward(8, 12, True), torch.randn(2, 3, 8)
    inner = (x @ layer.expand.weight.T + layer.expand.bias).clamp_min(0)
    wanted = inner @ layer.contract.weight.T + layer.contract.bias
    assert torch.allclose(layer(x), wanted, atol=1e-5)
    assert torch.allclose(layer(x)[:, 1], layer(x[:, 1]), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "activation"),
    [("reglu", torch.relu), ("geglu", nn.functional.gelu), ("swiglu", nn.functional.silu)],
)
def test_a_gate_multiplies_the_other_half(name, activation):
    layer, x = FEED_FORWARDS.find(name)(8, 12, False), torch.randn(2, 3, 8)
    gate, inner = layer.expand.weight[:12], layer.expand.weight[12:]
    wanted = (activation(x @ gate.T) * (x @ inner.T)) @ layer.contract.weight.T
    assert torch.allclose(layer(x), wanted, atol=1e-5)


@pytest.mark.parametrize("name", ["relu", "gelu", "gelu-tanh", "silu"])
def test_activations_differ_as_their_names_say(name):
    x = torch.linspace(-3, 3, 50)
    wanted = {
        "relu": x.clamp_min(0),
        "gelu": x * torch.special.ndtr(x),
        "gelu-tanh": 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
        "silu": x * torch.sigmoid(x),
    }[name]
    assert torch.allclose(FEED_FORWARDS.find(name)(1, 1, False).activation(x), wanted, atol=1e-6)


def test_the_norm_comes_after_or_before():
    x, norm = torch.randn(2, 3, 8), LayerNorm(8)
    assert torch.allclose(PostNorm(norm)(x, torch.tanh), norm(x + x.tanh()))
    assert torch.allclose(PreNorm(norm)(x, torch.tanh), x + norm(x).tanh())


def test_dropout_is_on_the_branch_and_not_on_the_stream():
    x = torch.ones(1, 1, 1000)
    layer = PreNorm(nn.Identity(), dropout=0.5)
    values = layer(x, lambda x: x).unique().tolist()
    assert values == [1.0, 3.0]
    assert layer.eval()(x, lambda x: x).unique().tolist() == [2.0]


class NoResidual(nn.Module):
    def __init__(self, norm, dropout):
        super().__init__()

    def forward(self, x, sublayer):
        return sublayer(x)


class BatchNorm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.norm = nn.BatchNorm1d(width, epsilon)

    def forward(self, x):
        return self.norm(x.flatten(0, -2)).view_as(x)


class NoFeedForward(nn.Module):
    def __init__(self, width, inner, bias):
        super().__init__()

    def forward(self, x):
        return torch.zeros_like(x)


class NoAttention(nn.Module):
    def __init__(self, width, heads, **_):
        super().__init__()

    def forward(self, x, mask=None, memory=None, rotation=None, cache=None):
        return torch.zeros_like(x)


class SharedProjection(nn.Module):
    def __init__(self, width, heads, groups, key_width, value_width, bias):
        super().__init__()
        self.heads, self.shared = heads, nn.Linear(width, heads * key_width, bias)

    def forward(self, x):
        x = self.query(x)
        return x, x, x

    def query(self, x):
        return split_heads(self.shared(x), self.heads)

    def key_value(self, memory):
        return self.query(memory), self.query(memory)


class Distance(nn.Module):
    scale = 1.0

    def __init__(self, heads, key_width):
        super().__init__()

    def forward(self, query, key):
        return -torch.cdist(query, key)

    def as_dot(self, query, key):
        return None


class Alternating(nn.Module):
    def forward(self, positions, length):
        return (positions % 2)[..., None].float()

    def rotation(self, positions):
        return None


VARIANTS = [
    (RESIDUALS, "residual", NoResidual),
    (NORMS, "norm", BatchNorm),
    (NORMS, "norm", lambda width, epsilon: nn.Identity()),
    (FEED_FORWARDS, "feed_forward", NoFeedForward),
    (ATTENTIONS, "attention", NoAttention),
    (PROJECTIONS, "projections", SharedProjection),
    (SIMILARITIES, "similarity", Distance),
    (POSITIONS, "positions", lambda config: Alternating()),
]


@pytest.mark.parametrize(("table", "setting", "variant"), VARIANTS)
def test_a_variant_joins_by_its_table_alone(monkeypatch, table, setting, variant):
    monkeypatch.setitem(table, "of-a-lesson", variant)
    torch.manual_seed(0)
    plain = build_model(ModelConfig(**SMALL))
    torch.manual_seed(0)
    model = build_model(ModelConfig(**SMALL, **{setting: "of-a-lesson"}))
    source, target = torch.randint(0, 20, (3, 5)), torch.randint(0, 20, (3, 4))
    logits = model(source, target)
    assert not torch.allclose(logits, plain(source, target))
    logits.sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize(
    "setting",
    ["positions", "similarity", "projections", "attention", "feed_forward", "norm", "residual", "pooling"],
)
def test_an_unknown_variant_is_refused_before_anything_is_made(setting):
    config = ModelConfig(vocabulary=1 << 24, width=1 << 16, heads=1, **{setting: "unheard-of"})
    with pytest.raises(SettingError, match=r"unknown .* 'unheard-of'; "):
        build_model(config)
