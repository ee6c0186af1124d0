"""Ranking finds a planted head, switching off is zeroing W^O's columns, statistics are what they say."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import torch

from regard.errors import RegardError
from regard.inspection.analysis.ablation import ablate, ablate_each_head, chance, parse_part, spell_part
from regard.inspection.analysis.head_statistics import head_statistics
from regard.inspection.analysis.ranking import Link, rank_heads
from regard.inspection.inspection import Inspection, inspect

from ..conftest import ENGLISH, FRENCH, inspected, subject


def plant(seen: Inspection, layer: int, head: int, query: str, key: str) -> Inspection:
    """Make one head of the encoder look from one word at another, and everywhere alike from all others."""
    x = seen[f"encoder.{layer}.around_attention.before"]
    width = seen.model.config.key_size
    projections = seen.model.encoder.blocks[layer].attention.projections
    with torch.no_grad():
        for part, word in enumerate((query, key)):
            wanted = np.zeros(len(x))
            wanted[list(seen.source.find(word))] = 6.0
            rows = slice(part * 16 + head * width, part * 16 + (head + 1) * width)
            projections.weight[rows], projections.bias[rows] = 0.0, 0.0
            row = np.linalg.lstsq(x.astype(np.float64), wanted, rcond=None)[0]
            projections.weight[rows.start] = torch.as_tensor(row, dtype=torch.float32)
    return Inspection(seen.model, seen.source, seen.target)


def test_a_planted_head_is_found(words):
    seen = plant(inspected(words), 1, 2, "it", "animal")
    best, second, *_ = ranked = rank_heads(Link(seen, "it", "animal"))
    assert (best.kind, best.layer, best.head) == ("encoder", 1, 2)
    assert best.weight == pytest.approx(1.0, abs=1e-4)
    assert best.weight == pytest.approx(seen.attention("encoder", 1, 2)[7, 1])
    assert best.uniform == pytest.approx(1 / 13)
    assert best.lift == pytest.approx(13, abs=0.01)
    assert second.weight < 0.9
    assert len(ranked) == 8
    assert [each.weight for each in ranked] == sorted((each.weight for each in ranked), reverse=True)
    assert json.loads(json.dumps(best.as_dict()))["each"] == [best.weight]


def test_a_planted_head_is_found_over_several_sentences_and_in_pieces(words, pieces):
    seen = plant(inspected(words), 0, 3, "it", "street")
    other = inspect(subject(words), "The street was too wide.", "il")
    links = [Link(seen, "it", "street"), Link(seen, "was", "animal"), Link(other, 1, 3)]
    for ranked in rank_heads(links)[:4]:
        each = [
            seen.attention(ranked.kind, ranked.layer, ranked.head)[7, 5],
            seen.attention(ranked.kind, ranked.layer, ranked.head)[8, 1],
            other.attention(ranked.kind, ranked.layer, ranked.head)[1, 3],
        ]
        assert ranked.each == pytest.approx(each)
        assert ranked.weight == pytest.approx(np.mean(each))
    cut = inspected(pieces)
    queries, keys = cut.source.find("street"), cut.source.find("tired")
    assert min(len(queries), len(keys)) > 1
    for ranked in rank_heads(Link(cut, "street", "tired"), kinds=["encoder"]):
        weights = cut.attention("encoder", ranked.layer, ranked.head)
        by_hand = np.mean([sum(weights[q, k] for k in keys) for q in queries])
        assert ranked.weight == pytest.approx(by_hand, rel=1e-5)
        assert ranked.uniform == pytest.approx(len(keys) / len(cut.source))


def test_kinds_go_by_where_the_words_are(words):
    seen = inspected(words)
    assert {each.kind for each in rank_heads(Link(seen, "il", "tired"))} == {"cross"}
    decoder = rank_heads(Link(seen, "rue", "traversé"))
    assert {each.kind for each in decoder} == {"decoder"}
    assert decoder[0].uniform == pytest.approx(1 / 9)  # the words up to itself
    with pytest.raises(RegardError, match="no attention goes from 'it' to 'rue'"):
        rank_heads(Link(seen, "it", "rue"))
    with pytest.raises(RegardError, match="at least one link"):
        rank_heads([])


@pytest.mark.parametrize("part", [("encoder", 1, 2), ("decoder", 0, 1), ("cross", 1, 3)])
def test_switching_off_is_zeroing_columns_of_w_o(words, part):
    seen = inspected(words)
    effect = ablate(seen, [part], words=("il", "elle"))
    kind, layer, head = part
    zeroed = inspected(words)
    block = (zeroed.model.encoder if kind == "encoder" else zeroed.model.decoder).blocks[layer]
    with torch.no_grad():
        (block.cross if kind == "cross" else block.attention).output.weight[:, 4 * head : 4 * head + 4] = 0
    again = Inspection(zeroed.model, zeroed.source, zeroed.target)
    assert effect.log_probability == pytest.approx(seen.log_probability)
    assert effect.without == pytest.approx(again.log_probability, rel=1e-5)
    assert effect.change == pytest.approx(again.log_probability - seen.log_probability, abs=1e-4)
    place = effect.rivals.position
    assert seen.target.labels()[place + 1] == "il"
    assert effect.rivals.before == pytest.approx([chance(seen, w, place) for w in ("il", "elle")])
    assert effect.rivals.after == pytest.approx([chance(again, w, place) for w in ("il", "elle")], rel=1e-4)
    (il,) = words.encode("il")
    assert effect.rivals.before[0] == pytest.approx(seen.probabilities[place, il])


def test_whether_the_translation_flips(words):
    translator = subject(words)
    seen, heads = inspect(translator, ENGLISH), [("cross", n, h) for n in range(2) for h in range(4)]
    effect = ablate(seen, heads)
    assert effect.text == translator.translate(ENGLISH).text == seen.target.text
    assert effect.text_without == translator.translate(ENGLISH, ablate=heads).text
    assert effect.flips == (effect.text != effect.text_without)
    assert not ablate(seen, []).flips
    assert json.loads(json.dumps(effect.as_dict()))["ablated"][0] == "cross.0.0"
    with pytest.raises(RegardError, match="neither 'large' nor 'elle' is in"):
        ablate(inspected(words), [("cross", 0, 0)], words=("large", "elle"))
    with pytest.raises(RegardError, match="'xyz' is not in the vocabulary"):
        ablate(inspected(words), [("cross", 0, 0)], words=("xyz", "elle"))


def test_every_head_off_by_itself(words):
    seen = inspected(words)
    effects = ablate_each_head(seen)
    assert len(effects) == 24
    assert all(a.change <= b.change for a, b in pairwise(effects))
    first = effects[0]
    assert first.without == pytest.approx(seen.again(ablate=first.ablated).log_probability)
    writer = inspected(words, family="decoder-only")
    assert len(ablate_each_head(writer)) == 8
    assert ablate(writer, ["scaling"]).text is None


def test_a_word_in_pieces_counts_by_its_first_piece(pieces):
    seen = inspected(pieces)
    place = 3
    (first, *_), spaced = pieces.encode("trop"), pieces.encode(" trop")
    ids = {first, spaced[0]} - set(pieces.encode(" "))
    assert chance(seen, "trop", place) == pytest.approx(seen.probabilities[place, sorted(ids)].sum())


@pytest.mark.parametrize("text", ["encoder.2.1", "cross.0.11", "scaling", "encoder.0.around_attention.norm"])
def test_parts_are_typed_as_they_are_spelled(text):
    part = parse_part(text)
    assert spell_part(part) == text
    assert isinstance(part, tuple) == text[-1].isdigit()


def test_statistics_are_those_of_a_loop(words):
    one, two = inspected(words), inspect(subject(words), "The street was too wide.", FRENCH)
    found = {(each.kind, each.layer, each.head): each for each in head_statistics([one, two])}
    assert len(found) == 24
    for kind in ("encoder", "decoder"):
        maps = [seen.attention(kind, 1, 2) for seen in (one, two)]
        rows = [(weights, n) for weights in maps for n in range(len(weights))]
        each = found[kind, 1, 2]
        entropies = [-sum(p * np.log2(p) for p in w[n] if p > 0) for w, n in rows]
        assert each.entropy == pytest.approx(np.mean(entropies), rel=1e-5)
        distances = [sum(p * abs(n - k) for k, p in enumerate(w[n])) for w, n in rows]
        assert each.distance == pytest.approx(np.mean(distances), rel=1e-5)
        assert each.previous == pytest.approx(np.mean([w[n, n - 1] for w, n in rows if n]), rel=1e-5)
        assert each.self_share == pytest.approx(np.mean([w[n, n] for w, n in rows]), rel=1e-5)
        assert each.first == pytest.approx(np.mean([w[n, 0] for w, n in rows]), rel=1e-5)
        after = [w[n, n + 1] for w, n in rows if n + 1 < len(w)]
        assert each.following == (None if kind == "decoder" else pytest.approx(np.mean(after), rel=1e-5))
    cross = found["cross", 0, 1]
    assert cross.distance is cross.previous is cross.following is cross.self_share is None
    weights = [seen.attention("cross", 0, 1) for seen in (one, two)]
    assert cross.end == pytest.approx(np.concatenate([w[:, -1] for w in weights]).mean(), rel=1e-5)
    assert found["decoder", 0, 0].end is None  # no end is read there
    json.dumps([each.as_dict() for each in found.values()], allow_nan=False)
    assert head_statistics(one)[0].entropy != found["encoder", 0, 0].entropy
    with pytest.raises(RegardError, match="at least one record"):
        head_statistics([])


def test_a_planted_head_has_the_habits_of_one(words):
    seen = plant(inspected(words), 0, 1, "it", "because")
    each = next(e for e in head_statistics(seen) if (e.kind, e.layer, e.head) == ("encoder", 0, 1))
    rows = 13  # twelve look everywhere alike, one at the word before it
    assert each.entropy == pytest.approx(12 / rows * np.log2(13), rel=1e-3)
    assert each.previous == pytest.approx((1 + 11 / 13) / 12, rel=1e-3)
