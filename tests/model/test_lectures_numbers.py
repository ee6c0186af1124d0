"""Every number that the lectures print, against the model's own functions."""

from __future__ import annotations

import pytest
import torch

from regard.model.attention import (
    SeparateProjections,
    attention_steps,
    fused_attention,
    masked_softmax,
)
from regard.model.config import ModelConfig
from regard.model.masks import Mask
from regard.model.similarity import SIMILARITIES

# Digits are printed to four decimals.
PRINTED = {"atol": 5.1e-5, "rtol": 0}


def matrix(rows) -> torch.Tensor:
    """One head of one sentence, in float64."""
    return torch.tensor(rows, dtype=torch.float64)[None, None]


X = matrix([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
W_K = matrix([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
W_V = matrix([[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])
W_Q = matrix([[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
DOT = SIMILARITIES["dot"](1, 3)

PATTERN = [
    [3.53],
    [0.80, -0.30],
    [1.96, -0.21, 0.89],
    [4.48, 0.82, 0.67, 1.31],
    [3.74, 0.29, 2.99, 1.73, 3.07],
    [-1.95, 2.91, -0.41, -1.48, 2.94, 0.31],
]
PATTERN_WEIGHTS = [
    [1.00],
    [0.75, 0.25],
    [0.69, 0.08, 0.24],
    [0.92, 0.02, 0.02, 0.04],
    [0.46, 0.01, 0.22, 0.06, 0.24],
    [0.00, 0.46, 0.02, 0.01, 0.48, 0.03],
]


def triangle(rows) -> torch.Tensor:
    """Rows of growing length as a square, the rest of it filled with scores that must not matter."""
    return matrix([row + [99.0] * (len(rows) - len(row)) for row in rows])


def test_two_words():
    # Vectors of 64 numbers whose products are the lecture's scores.
    query, key = torch.ones(1, 1, 1, 64).double(), matrix([[112 / 64] * 64, [96 / 64] * 64])
    steps = attention_steps(query, key, value=matrix([[1.0], [0.0]]))
    torch.testing.assert_close(steps.scores, matrix([[112.0, 96.0]]))
    torch.testing.assert_close(steps.scaled, matrix([[14.0, 12.0]]))
    torch.testing.assert_close(steps.weights, matrix([[0.8808, 0.1192]]), **PRINTED)
    torch.testing.assert_close(steps.weights, matrix([[0.88, 0.12]]), atol=0.005, rtol=0)


def test_three_inputs_are_projected():
    projections = SeparateProjections(4, heads=1, groups=1, key_width=3, value_width=3, bias=False).double()
    with torch.no_grad():
        projections.weight.copy_(torch.cat([weight[0, 0].mT for weight in (W_Q, W_K, W_V)]))
    query, key, value = projections(X[0])
    torch.testing.assert_close(query, matrix([[1.0, 0, 2], [2, 2, 2], [2, 1, 3]]))
    torch.testing.assert_close(key, matrix([[0.0, 1, 1], [4, 4, 0], [2, 3, 1]]))
    torch.testing.assert_close(value, matrix([[1.0, 2, 3], [2, 8, 0], [2, 6, 3]]))
    torch.testing.assert_close((query, key, value), (X @ W_Q, X @ W_K, X @ W_V))


def test_three_inputs():
    steps = attention_steps(X @ W_Q, X @ W_K, X @ W_V, similarity=DOT)
    torch.testing.assert_close(steps.scores, matrix([[2.0, 4, 4], [4, 16, 12], [4, 12, 10]]))
    torch.testing.assert_close(steps.scaled, steps.scores)
    weights = [[0.0634, 0.4683, 0.4683], [0.0000, 0.9820, 0.0180], [0.0003, 0.8805, 0.1192]]
    torch.testing.assert_close(steps.weights, matrix(weights), **PRINTED)
    outputs = [[1.9366, 6.6831, 1.5951], [2.0000, 7.9640, 0.0540], [1.9997, 7.7599, 0.3584]]
    torch.testing.assert_close(steps.output, matrix(outputs), **PRINTED)
    fused = fused_attention(X @ W_Q, X @ W_K, X @ W_V, scale=1.0)
    torch.testing.assert_close(fused, steps.output)


def test_three_inputs_divided():
    steps = attention_steps(X @ W_Q, X @ W_K, X @ W_V)
    torch.testing.assert_close(steps.scaled, steps.scores / 3**0.5)
    torch.testing.assert_close(steps.weights[0, 0, 0], matrix([0.1361, 0.4319, 0.4319])[0, 0], **PRINTED)


def test_which_input_each_is_most_related_to():
    first, second, third = attention_steps(X @ W_Q, X @ W_K, X @ W_V, similarity=DOT).weights[0, 0]
    assert first[1] == first[2] > first[0]
    assert second.argmax() == third.argmax() == 1


def test_a_masked_pattern():
    scores = triangle(PATTERN)
    identity = torch.eye(6).double()[None, None]
    steps = attention_steps(scores, identity, identity, Mask(causal=True), SIMILARITIES["dot"](1, 6))
    for weights, printed in zip(steps.weights[0, 0], PATTERN_WEIGHTS, strict=True):
        expected = torch.tensor(printed).double()
        torch.testing.assert_close(weights[: len(printed)], expected, atol=0.0055, rtol=0)
        assert (weights[len(printed) :] == 0).all()


def test_a_masked_pattern_with_minus_infinity():
    visible = torch.ones(6, 6).tril().bool()
    scores = triangle(PATTERN)[0, 0]
    added = scores + torch.zeros(6, 6).masked_fill(~visible, -torch.inf)
    torch.testing.assert_close(masked_softmax(scores, visible), added.softmax(-1))


def test_the_mask_inside_the_division_is_harmless_only_for_zero_and_minus_infinity():
    scores, visible = triangle(PATTERN)[0, 0], torch.ones(6, 6).tril().bool()
    infinite = torch.zeros(6, 6).masked_fill(~visible, -torch.inf)
    finite = infinite.clamp_min(-10.0)
    torch.testing.assert_close((scores / 8 + infinite).softmax(-1), ((scores + infinite) / 8).softmax(-1))
    assert not torch.allclose((scores / 8 + finite).softmax(-1), ((scores + finite) / 8).softmax(-1))


def test_a_masked_pattern_turned_is_softmax_down_each_column():
    visible = torch.ones(6, 6).tril().bool()
    scores = triangle(PATTERN)[0, 0].masked_fill(~visible, -torch.inf)
    rows = masked_softmax(scores, visible)
    torch.testing.assert_close(rows.mT, scores.mT.softmax(0))


def test_a_token_as_a_column_gives_the_same_scores():
    query, key = (X @ W_Q)[0, 0], (X @ W_K)[0, 0]
    as_columns = query.mT, key.mT
    torch.testing.assert_close(as_columns[0].mT @ as_columns[1], query @ key.mT)


def test_a_score_of_zero_keeps_a_positive_weight():
    weights = masked_softmax(torch.tensor([[0.0, -3.0, 5.0]]), None)
    assert (weights > 0).all()


def test_cosine_of_equal_and_opposite_directions():
    cosine, dot = SIMILARITIES["cosine"](1, 2), SIMILARITIES["dot"](1, 2)
    query, keys = matrix([[3.0, 4.0]]), matrix([[6.0, 8.0], [-0.3, -0.4], [-4.0, 3.0]])
    torch.testing.assert_close(cosine(query, keys), matrix([[1.0, -1.0, 0.0]]))
    assert dot(query, keys).flatten().tolist() == pytest.approx([50.0, -2.5, 0.0])
    of_length_one = query / 5, keys / keys.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(dot(*of_length_one), matrix([[1.0, -1.0, 0.0]]))


def test_words_in_context_are_weighted_sums():
    mixtures = matrix([[0.4, 0.4, 0.2], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]])
    axes = torch.eye(3).double()[None, None]
    words = matrix([[1.0, 0.0, 2.0, -1.0], [0.5, 3.0, 0.0, 1.0], [-2.0, 1.0, 1.0, 0.0]])
    steps = attention_steps(mixtures.log(), axes, words, similarity=SIMILARITIES["dot"](1, 3))
    torch.testing.assert_close(steps.weights, mixtures)
    python, crawls, quickly = words[0, 0]
    torch.testing.assert_close(steps.output[0, 0, 0], 0.4 * python + 0.4 * crawls + 0.2 * quickly)
    torch.testing.assert_close(steps.output[0, 0, 1], 0.3 * python + 0.6 * crawls + 0.1 * quickly)
    torch.testing.assert_close(steps.output[0, 0, 2], 0.1 * python + 0.1 * crawls + 0.8 * quickly)


def test_the_papers_base_model():
    base = ModelConfig.named("base")
    assert (base.layers, base.decoder_layers or base.layers) == (6, 6)
    assert (base.width, base.feed_forward_width, base.heads) == (512, 2048, 8)
    assert (base.key_size, base.value_size, base.dropout) == (64, 64, 0.1)


def test_the_papers_big_model():
    big = ModelConfig.named("big")
    assert (big.layers, big.width, big.feed_forward_width, big.heads) == (6, 1024, 4096, 16)
    assert (big.key_size, big.value_size, big.dropout) == (64, 64, 0.3)
