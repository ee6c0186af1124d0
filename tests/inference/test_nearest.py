"""The nearest keys are those that sorting all of them gives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.inference import nearest as room
from regard.inference.nearest import nearest


@settings(max_examples=60)
@given(
    st.integers(1, 7), st.integers(1, 400), st.integers(1, 12), st.integers(1, 40), st.integers(0, 9),
    st.sampled_from([1, 30, 1 << 17]), st.sampled_from([1, 100, 1 << 16]),
)  # fmt: skip
def test_it_is_what_sorting_gives(rows, count, width, wanted, seed, scores, vectors):
    draw = torch.Generator().manual_seed(seed)
    queries, keys = torch.randn(rows, width, generator=draw), torch.randn(count, width, generator=draw)
    wanted = min(wanted, count)
    with pytest.MonkeyPatch.context() as patch:  # however little is held at once
        patch.setattr(room, "SCORES", scores)
        patch.setattr(room, "VECTORS", vectors)
        distances, places = nearest(queries, keys, keys.square().sum(1) / 2, wanted)
    every = torch.cdist(queries.double(), keys.double()).square()
    values, _ = every.topk(wanted, largest=False)
    torch.testing.assert_close(distances.double(), values, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(every.gather(1, places), values, atol=1e-4, rtol=1e-4)
    assert all(len(set(row.tolist())) == wanted for row in places)
