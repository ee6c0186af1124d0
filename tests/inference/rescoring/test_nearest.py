"""The nearest keys are those that sorting all of them gives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.inference.rescoring import nearest as room
from regard.inference.rescoring.nearest import nearest


@settings(max_examples=60)
@given(
    st.integers(1, 7), st.integers(1, 400), st.integers(1, 12), st.integers(1, 40), st.integers(0, 9),
    st.sampled_from([1, 30, 1 << 17]), st.sampled_from([1, 100, 1 << 16]),
)  # fmt: skip
def test_the_nearest_keys_are_those_of_a_sort(rows, count, width, wanted, seed, scores, vectors):
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


@settings(max_examples=40)
@given(
    st.integers(1, 9), st.integers(1, 2000), st.integers(1, 6), st.integers(1, 40), st.integers(0, 9),
    st.sampled_from([30, 1 << 17]),
)  # fmt: skip
def test_equally_distant_keys_are_ordered_by_index(rows, count, width, wanted, seed, scores):
    """Whole numbers, so that most keys have others at just their distance; whatever stands beside a query."""
    draw = torch.Generator().manual_seed(seed)
    keys = torch.randint(-2, 3, (count, width), generator=draw).half()
    queries = torch.randint(-2, 3, (rows, width), generator=draw).float()
    halves, wanted = keys.float().square().sum(1) / 2, min(wanted, count)
    every = (queries[:, None] - keys.float()).square().sum(2)
    values, order = every.sort(dim=1, stable=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "SCORES", scores)
        distances, places = nearest(queries, keys, halves, wanted)
    assert torch.equal(places, order[:, :wanted])
    assert torch.equal(distances, values[:, :wanted].double())


def test_neighbours_do_not_depend_on_other_queries():
    """Keys so far from the origin that float32 cannot tell their scores apart."""
    draw = torch.Generator().manual_seed(3)
    keys = 1000 + torch.randint(-3, 4, (3000, 16), generator=draw).half()
    queries = 1000 + torch.randn(33, 16, generator=draw)
    halves = keys.float().square().sum(1) / 2
    together = nearest(queries, keys, halves, 7)
    alone = [nearest(query[None], keys, halves, 7) for query in queries]
    assert torch.equal(together[0], torch.cat([distances for distances, _ in alone]))
    assert torch.equal(together[1], torch.cat([places for _, places in alone]))
    every = (queries.double()[:, None] - keys.double()).square().sum(2)
    assert torch.equal(together[1], every.sort(dim=1, stable=True).indices[:, :7])


def test_distances_that_float32_takes_for_equal_are_told_apart():
    keys = torch.tensor([[1.0, 2.0**-14], [1.0, 0.0]]).half()
    _, places = nearest(torch.zeros(1, 2), keys, keys.float().square().sum(1) / 2, 2)
    assert places.tolist() == [[1, 0]]
