"""Our attention and blocks beside torch.nn's, the weights carried over: answers and gradients agree."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from regard.model.attention import MultiHeadAttention
from regard.model.blocks import FEED_FORWARDS, RESIDUALS, DecoderBlock, EncoderBlock, LayerNorm
from regard.model.masks import EVERYTHING, Mask

# B batch, Q queries, K keys, D width, H heads, I inner width.
B, Q, K, D, H, I = 3, 7, 5, 12, 3, 20  # noqa: E741
TOLERANCE = 1e-5
LENGTHS = torch.tensor([7, 4, 1])

ATTENTION = {"projections.weight": "in_proj_weight", "projections.bias": "in_proj_bias", "output": "out_proj"}
ENCODER = {
    "attention": "self_attn",
    "around_attention.norm": "norm1",
    "feed_forward.expand": "linear1",
    "feed_forward.contract": "linear2",
    "around_feed_forward.norm": "norm2",
}
DECODER = ENCODER | {
    "cross": "multihead_attn",
    "around_cross.norm": "norm2",
    "around_feed_forward.norm": "norm3",
}


def named_alike(ours: nn.Module, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each name of ours with torch's name of the same weight."""
    for name, _ in ours.named_parameters():
        part = next((part for part in names if name.startswith(f"{part}.")), "")
        theirs = names.get(part, "") + name.removeprefix(part)
        for left, right in ATTENTION.items():
            theirs = theirs.replace(left, right)
        yield name, theirs


def carry_over(theirs: nn.Module, ours: nn.Module, names: dict[str, str]) -> None:
    """Give ours the weights of theirs, after making them all random."""
    for parameter in theirs.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    weights = theirs.state_dict()
    ours.load_state_dict({name: weights[other] for name, other in named_alike(ours, names)})
    assert len(weights) == len(ours.state_dict())


def assert_same(
    theirs: nn.Module, ours: nn.Module, names: dict[str, str], answers: tuple[Tensor, Tensor], counts: Tensor
) -> None:
    """Equal answers where they count, and equal gradients of every weight."""
    weights = torch.randn_like(answers[0]) * counts
    for answer in answers:
        (answer * weights).sum().backward()
    assert_close(answers[0] * counts, answers[1] * counts)
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, other in named_alike(ours, names):
        expected, found = gradients[other], ours.get_parameter(name).grad
        assert expected is not None
        assert found is not None
        assert_close(expected, found)


def assert_close(expected: Tensor, found: Tensor) -> None:
    """Equal to a part of the largest magnitude."""
    assert float((expected - found).detach().abs().max() / expected.detach().abs().max()) < TOLERANCE


def exists(tokens: int, padded: bool) -> Tensor:
    """Which tokens are real, B x tokens; each row has at least one."""
    lengths = LENGTHS if padded else torch.full((B,), tokens)
    return torch.arange(tokens) < lengths[:, None]


@pytest.mark.parametrize("kind", ["self", "cross"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention(kind: str, padded: bool, causal: bool, bias: bool) -> None:
    torch.manual_seed(1)
    theirs, ours = (
        nn.MultiheadAttention(D, H, bias=bias, batch_first=True),
        MultiHeadAttention(D, H, bias=bias),
    )
    carry_over(theirs, ours, {})
    x = torch.randn(B, Q, D)
    memory = torch.randn(B, K, D) if kind == "cross" else x
    keys = exists(memory.shape[1], padded)
    hidden = torch.ones(Q, memory.shape[1], dtype=torch.bool).triu(1) if causal else None
    expected, _ = theirs(
        x, memory, memory, key_padding_mask=~keys if padded else None, attn_mask=hidden, need_weights=False
    )
    mask = Mask(causal=causal, keys=keys if padded else None)
    found = ours(x, mask, memory if kind == "cross" else None)
    assert_same(theirs, ours, {}, (expected, found), torch.ones(()))


def residual(place: str) -> nn.Module:
    """The wrapping that torch calls norm_first or not."""
    return RESIDUALS.find(place)(LayerNorm(D), 0.0)


every_layer = pytest.mark.parametrize(
    ("place", "activation", "padded"),
    [(place, f, padded) for place in ("post", "pre") for f in ("relu", "gelu") for padded in (False, True)],
)


@every_layer
@pytest.mark.parametrize("causal", [False, True])
def test_encoder_layer(place: str, activation: str, padded: bool, causal: bool) -> None:
    torch.manual_seed(2)
    theirs = nn.TransformerEncoderLayer(
        D, H, I, dropout=0.0, activation=activation, norm_first=place == "pre", batch_first=True
    )
    feed_forward = FEED_FORWARDS.find(activation)(D, I, True)
    ours = EncoderBlock(MultiHeadAttention(D, H), feed_forward, partial(residual, place))
    carry_over(theirs, ours, ENCODER)
    x, keys = torch.randn(B, Q, D), exists(Q, padded)
    hidden = torch.ones(Q, Q, dtype=torch.bool).triu(1) if causal else None
    expected = theirs(x, src_mask=hidden, src_key_padding_mask=~keys if padded else None)
    found = ours(x, Mask(causal=causal, keys=keys if padded else None))
    assert_same(theirs, ours, ENCODER, (expected, found), keys[..., None])


@every_layer
def test_decoder_layer(place: str, activation: str, padded: bool) -> None:
    torch.manual_seed(3)
    theirs = nn.TransformerDecoderLayer(
        D, H, I, dropout=0.0, activation=activation, norm_first=place == "pre", batch_first=True
    )
    ours = DecoderBlock(
        MultiHeadAttention(D, H),
        MultiHeadAttention(D, H),
        FEED_FORWARDS.find(activation)(D, I, True),
        partial(residual, place),
    )
    carry_over(theirs, ours, DECODER)
    x, memory, keys, memory_keys = (
        torch.randn(B, Q, D),
        torch.randn(B, K, D),
        exists(Q, padded),
        exists(K, padded),
    )
    expected = theirs(
        x,
        memory,
        tgt_mask=torch.ones(Q, Q, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=~keys if padded else None,
        memory_key_padding_mask=~memory_keys if padded else None,
    )
    mask = Mask(causal=True, keys=keys if padded else None)
    found = ours(x, memory, mask, Mask(keys=memory_keys) if padded else EVERYTHING)
    assert_same(theirs, ours, DECODER, (expected, found), keys[..., None])
