"""All heads at a glance: pooled by the largest, seen in one pass or in several, and a good first choice."""

from __future__ import annotations

import numpy as np
import pytest

from regard.inspection import glance as room
from regard.inspection.glance import every_layer, glance, pool

from .conftest import look


def slow_pool(weights, most):
    heads, queries, keys = weights.shape
    rows, columns = min(queries, most), min(keys, most)
    small = np.zeros((heads, rows, columns))
    for query in range(queries):
        for key in range(keys):
            row = query if queries <= most else max(r for r in range(rows) if r * queries // rows <= query)
            column = key if keys <= most else max(c for c in range(columns) if c * keys // columns <= key)
            small[:, row, column] = np.maximum(small[:, row, column], weights[:, query, key])
    return small


@pytest.mark.parametrize("shape", [(2, 7, 5), (2, 5, 13), (1, 23, 4), (3, 16, 31)])
def test_a_small_map_holds_the_largest_weights(shape):
    weights = np.random.default_rng(0).random(shape)
    assert np.array_equal(pool(weights, 5), slow_pool(weights, 5))


@pytest.mark.parametrize("at_once", [1, 4000, 1 << 28])
def test_layers_seen_a_few_at_a_time_are_the_same(words, monkeypatch, at_once):
    seen = look(words, off=[("encoder", 0, 1), "scaling"])
    expected = {(kind, layer): seen.attention(kind, layer) for kind in seen.kinds for layer in range(2)}
    monkeypatch.setattr(seen.recording, "holds_weights", False)
    monkeypatch.setattr(room, "AT_ONCE", at_once)
    found = {(kind, layer): weights for kind, layer, weights in every_layer(seen)}
    assert list(found) == list(expected)
    for place, weights in found.items():
        assert np.allclose(weights, expected[place], atol=1e-6)


def test_it_looks_at_a_noun(words):
    seen = look(words)
    nouns = [1, 5]
    it = seen.source.find("it")[0]
    best = max(
        (seen.attention("encoder", layer, head)[it, noun], layer, head)
        for layer in range(2)
        for head in range(4)
        for noun in nouns
    )
    pinned = glance(seen, nouns).pinned
    assert (pinned.kind, pinned.layer, pinned.head, pinned.query) == ("encoder", *best[1:], it)
    assert pinned.strength == pytest.approx(float(best[0]))


def test_without_nouns_the_sharpest_head_of_the_last_layer_is_chosen(words):
    seen = look(words)
    telling = {}
    for head in range(4):
        rows = seen.attention("cross", 1, head).astype(float)
        entropy = -(rows * np.log(rows)).sum(-1)
        telling[head] = (np.log(rows.shape[1]) - entropy) * rows[:, :-1].sum(-1)
        telling[head][0] = 0  # the start token is no word
    head = max(telling, key=lambda head: telling[head].mean())
    pinned = glance(seen).pinned
    assert (pinned.kind, pinned.layer, pinned.head) == ("cross", 1, head)
    assert pinned.query == int(telling[head].argmax())


def test_the_first_word_of_a_decoder_is_not_told_for_sharp(words):
    seen = look(words, family="decoder-only")
    assert glance(seen).pinned.query > 0  # it sees itself alone, which tells nothing
