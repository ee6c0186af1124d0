"""The overview of all heads: max-pooled maps, read in one pass or several, and the row to show first."""

from __future__ import annotations

import numpy as np
import pytest

from regard.inspection.analysis import overview as module
from regard.inspection.analysis.overview import Pinned, caption, every_layer, finding, overview_of, pool

from ..conftest import inspected


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
    seen = inspected(words, ablate=[("encoder", 0, 1), "scaling"])
    expected = {(kind, layer): seen.attention(kind, layer) for kind in seen.kinds for layer in range(2)}
    monkeypatch.setattr(seen.recording, "holds_weights", False)
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    found = {(kind, layer): weights for kind, layer, weights in every_layer(seen)}
    assert list(found) == list(expected)
    for place, weights in found.items():
        assert np.allclose(weights, expected[place], atol=1e-6)


NOUNS = {"source": [1, 5], "target": [2, 7]}  # animal and street, animal and rue


def made_up(monkeypatch, seen, peaks):
    """Attention that is even but for a few weights: {(kind, layer, head, query, key): weight}."""
    found = {}
    for kind in seen.kinds:
        queries, keys = map(len, seen.sides(kind))
        for layer in range(2):
            found[kind, layer] = np.full((4, queries, keys), 0.01)
    for (kind, layer, head, query, key), weight in peaks.items():
        found[kind, layer][head, query, key] = weight
    monkeypatch.setattr(
        module, "every_layer", lambda record: [(*place, each) for place, each in found.items()]
    )


def test_it_looks_at_a_noun(words):
    seen = inspected(words)
    it = seen.source.find("it")[0]
    rows = [
        (layer, head, seen.attention("encoder", layer, head)[it]) for layer in range(2) for head in range(4)
    ]
    links = [(row[noun] == row.max(), row[noun], layer, head) for layer, head, row in rows for noun in (1, 5)]
    best = max((link for link in links if link[0] == max(links)[0]), key=lambda link: link[1])[1:]
    pinned = overview_of(seen, NOUNS, {"source": [it]}).pinned
    assert (pinned.kind, pinned.layer, pinned.head, pinned.query) == ("encoder", *best[1:], it)
    assert pinned.strength == pytest.approx(float(best[0]))


def test_a_clear_link_within_the_source_comes_first(words, monkeypatch):
    seen = inspected(words)
    it, il = seen.source.find("it")[0], seen.target.find("il")[0]
    asked = seen, NOUNS, {"source": [it], "target": [il]}
    cross = {("cross", 1, 2, il - 1, 1): 0.9}
    made_up(monkeypatch, seen, {**cross, ("encoder", 1, 3, it, 5): 0.4})
    assert overview_of(*asked).pinned.kind == "encoder"
    made_up(monkeypatch, seen, {**cross, ("encoder", 1, 3, it, 5): 0.2})
    assert overview_of(*asked).pinned.kind == "cross", "not clear enough"
    made_up(monkeypatch, seen, {**cross, ("encoder", 1, 3, it, 5): 0.4, ("encoder", 1, 3, it, 6): 0.5})
    assert overview_of(*asked).pinned.kind == "cross", "another word has more"
    made_up(monkeypatch, seen, {("encoder", 1, 3, it, 5): 0.4, ("encoder", 1, 3, it, 6): 0.5})
    assert not overview_of(*asked).pinned.is_largest or overview_of(*asked).pinned.strength < 0.1


@pytest.mark.parametrize("noun", [True, False])
def test_a_finding_names_the_largest_weight_of_its_row(words, noun):
    seen = inspected(words)
    il = seen.target.find("il")[0]
    row = seen.attention("cross", 1, 2)[il - 1]
    most = int(row.argmax())
    key = most if noun else int(row.argmin())
    found = finding(seen, Pinned("cross", 1, 2, il - 1, key, 1.0))
    words_read = seen.source.labels()
    assert found.claim == f"The step that writes “il” looks most at “{words_read[most]}”."
    also = "" if noun else f", and {row[key]:.2f} to “{words_read[key]}”"
    assert (
        found.detail
        == f"{row[most]:.2f} of the attention goes there{also}, in cross-attention, layer 1, head 2."
    )


@pytest.mark.parametrize(
    ("kind", "key", "said"),
    [
        ("encoder", 1, "“it”"),
        ("decoder", 2, "The step that writes “il”"),
        ("cross", 1, "The step that writes “il”"),
    ],
)
def test_the_clearest_finding_of_any_kind_is_chosen(words, monkeypatch, kind, key, said):
    seen = inspected(words)
    it, il = seen.source.find("it")[0], seen.target.find("il")[0]
    asks = {"encoder": it, "decoder": il - 1, "cross": il - 1}
    peaks = {("encoder", 0, 3, it, 5): 0.2, ("cross", 1, 0, il - 1, 5): 0.4, ("cross", 1, 0, il, 5): 0.99}
    made_up(monkeypatch, seen, {**peaks, (kind, 1, 2, asks[kind], key): 0.9})
    pinned = overview_of(seen, NOUNS, {"source": [it], "target": [il]}).pinned
    assert pinned.place == {"kind": kind, "layer": 1, "head": 2, "query": asks[kind], "key": key}
    assert pinned.strength == pytest.approx(0.9)
    weight = seen.attention(kind, 1, 2)[asks[kind], key]
    assert caption(seen, pinned) == f"{said} looks at “animal”: {weight:.2f}"


def test_all_pieces_of_a_noun_count(pieces, monkeypatch):
    seen = inspected(pieces)
    it = seen.source.find("it")[0]
    number, animal = next((n, word) for n, word in enumerate(seen.source.words) if word.text == "animal")
    made_up(monkeypatch, seen, {("encoder", 0, 1, it, place): 0.2 for place in animal.positions})
    pinned = overview_of(seen, {"source": [number]}, {"source": [it]}).pinned
    assert (pinned.head, pinned.key) == (1, animal.positions[0])
    assert len(animal.positions) > 1
    assert pinned.strength == pytest.approx(0.2 * len(animal.positions))


def test_the_last_step_writes_the_end(words):
    seen = inspected(words)
    last = Pinned("cross", 1, 0, len(seen.target) - 1, 1, 0.0)
    assert caption(seen, last).startswith("The step that writes the end looks at “animal”")


def test_without_nouns_the_sharpest_head_of_the_last_layer_is_chosen(words):
    seen = inspected(words)
    telling = {}
    for head in range(4):
        rows = seen.attention("cross", 1, head).astype(float)
        entropy = -(rows * np.log(rows)).sum(-1)
        telling[head] = (np.log(rows.shape[1]) - entropy) * rows[:, :-1].sum(-1)
        telling[head][0] = 0  # the start token is no word
    head = max(telling, key=lambda head: telling[head].mean())
    pinned = overview_of(seen).pinned
    assert (pinned.kind, pinned.layer, pinned.head) == ("cross", 1, head)
    assert pinned.query == int(telling[head].argmax())


def test_the_first_word_of_a_decoder_is_not_told_for_sharp(words):
    seen = inspected(words, family="decoder-only")
    assert overview_of(seen).pinned.query > 0  # it sees itself alone, which tells nothing
