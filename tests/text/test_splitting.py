"""The held-out part: deterministic, disjoint, of the size asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.text.corpus import Pair, PlainText
from regard.text.splitting import HeldOut, Part

texts = st.lists(st.text(max_size=3), max_size=60).filter(lambda items: len(set(items)) > 1)


@given(texts, st.floats(0.01, 0.9), st.integers(1, 50), st.integers(0, 5))
def test_no_text_is_on_both_sides_and_none_is_lost(items, share, most, seed):
    held = HeldOut.choose(items, share, most, seed)
    inside = [item for item in items if held.holds(item)]
    outside = [item for item in items if not held.holds(item)]
    assert inside
    assert outside
    assert not set(inside) & set(outside)
    assert len(set(inside)) == min(most, max(1, round(share * len(items))), len(set(items)) - 1)


def test_the_source_alone_decides():
    pairs = [Pair(f"s{i % 50}", f"t{i}") for i in range(200)]
    held = HeldOut.choose(pairs, share=0.1)
    sides = {source: {held.holds(pair) for pair in pairs if pair.source == source} for source, _ in pairs}
    assert all(len(side) == 1 for side in sides.values())


def test_the_seed_decides_and_the_order_does_not():
    items = [f"line {i}" for i in range(1000)]
    held = HeldOut.choose(items, share=0.1, seed=3)
    assert held == HeldOut.choose(reversed(items), share=0.1, seed=3)
    other = HeldOut.choose(items, share=0.1, seed=4)
    assert {i for i in items if held.holds(i)} != {i for i in items if other.holds(i)}


def test_parts_are_corpora(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {i}\n" for i in range(100)), encoding="utf-8")
    corpus = PlainText(path)
    held = HeldOut.choose(corpus, share=0.2)
    train, valid = Part(corpus, held, held=False), Part(corpus, held, held=True)
    assert (len(list(train)), len(list(valid))) == (80, 20)
    assert (valid.report.read, valid.report.kept, valid.report.skipped["not held out"].count) == (100, 20, 80)
    assert train.identity() != valid.identity()


def test_one_text_cannot_be_split():
    with pytest.raises(DataError, match="cannot be split"):
        HeldOut.choose(["same"] * 9)
