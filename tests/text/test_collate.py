"""Padding, splitting and masking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.collate import collate_labelled, collate_masked, collate_pairs, collate_windows

ids = st.lists(st.integers(5, 60), min_size=1, max_size=12).map(np.array)
texts = st.lists(ids, min_size=1, max_size=10)


def without_padding(rows: np.ndarray, keys: np.ndarray) -> list[list[int]]:
    return [row[key].tolist() for row, key in zip(rows, keys, strict=True)]


@given(texts)
def test_pairs_get_their_start_and_end_and_padding_on_the_right(bpe, sources):
    targets = [text[::-1] for text in sources[::-1]]
    batch = collate_pairs(sources, targets, bpe, bpe)
    assert without_padding(batch.source, batch.source_keys) == [[*ids, bpe.end] for ids in sources]
    assert without_padding(batch.target_in, batch.target_keys) == [[bpe.start, *ids] for ids in targets]
    assert without_padding(batch.target_out, batch.target_keys) == [[*ids, bpe.end] for ids in targets]
    assert (batch.source[~batch.source_keys] == bpe.pad).all()
    assert (batch.target_in[~batch.target_keys] == bpe.pad).all()
    assert (batch.target_out[~batch.target_keys] == bpe.pad).all()
    assert (np.diff(batch.source_keys.astype(int)) <= 0).all()
    assert batch.tokens == sum(len(ids) + 1 for ids in targets)


def test_labelled_texts_stand_between_start_and_end(bpe):
    batch = collate_labelled([np.array([7, 8]), np.array([9])], [1, 0], bpe)
    assert batch.input.tolist() == [[bpe.start, 7, 8, bpe.end], [bpe.start, 9, bpe.end, bpe.pad]]
    assert batch.keys.tolist() == [[True] * 4, [True, True, True, False]]
    assert batch.labels.tolist() == [1, 0]
    assert batch.tokens == 2


@given(texts, st.integers(1, 12), st.sampled_from(["pairs", "labelled", "masked", "windows"]))
def test_parts_hold_the_same_rows_without_needless_width(bpe, sequences, parts, kind):
    batch = {
        "pairs": lambda: collate_pairs(sequences, sequences[::-1], bpe, bpe),
        "labelled": lambda: collate_labelled(sequences, range(len(sequences)), bpe),
        "masked": lambda: collate_masked(sequences, bpe, np.random.default_rng(1)),
        "windows": lambda: collate_windows([np.append(ids, 3) for ids in sequences], bpe.pad),
    }[kind]()
    splits = batch.split(parts)
    assert len(splits) == min(parts, len(sequences))
    assert sum(part.rows for part in splits) == batch.rows
    assert sum(part.tokens for part in splits) == batch.tokens
    for name, whole in vars(batch).items():
        rows = [row for part in splits for row in getattr(part, name)]
        for got, expected in zip(rows, whole, strict=True):
            assert np.array_equal(got, expected[: got.size] if got.ndim else expected)
    for part in splits:
        keys = [value for name, value in vars(part).items() if name.endswith("keys")]
        assert all(mask.any(0).all() for mask in keys)


def test_masking_has_the_shares_of_the_paper(bpe):
    random = np.random.default_rng(0)
    sequences = [random.integers(5, bpe.vocabulary, 40) for _ in range(2000)]
    batch = collate_masked(sequences, bpe, random)
    chosen = batch.chosen
    shown = batch.input[chosen]
    assert chosen.sum() / 80_000 == pytest.approx(0.15, abs=0.01)
    assert (shown == bpe.mask).mean() == pytest.approx(0.8, abs=0.02)
    assert (shown == batch.output[chosen]).mean() == pytest.approx(0.1, abs=0.02)
    assert not set(np.unique(shown)) & {bpe.pad, bpe.start, bpe.end, bpe.unknown}


@given(texts)
def test_masking_leaves_start_end_padding_and_the_unchosen_alone(bpe, sequences):
    batch = collate_masked(sequences, bpe, np.random.default_rng(len(sequences)))
    assert np.array_equal(batch.input[~batch.chosen], batch.output[~batch.chosen])
    assert without_padding(batch.output, batch.keys) == [[bpe.start, *ids, bpe.end] for ids in sequences]
    assert (batch.output[batch.chosen] >= 5).all()
    assert batch.tokens >= 1
