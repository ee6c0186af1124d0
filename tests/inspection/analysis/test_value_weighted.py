"""Value-weighted attention against the attention's own output with one key kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.inspection.analysis.value_weighted import value_weighted
from regard.inspection.record.tokens import merge_words

from ..conftest import inspected


def output_of_keys(seen, kind: str, layer: int, heads: list[int], keys: list[int]) -> np.ndarray:
    """What the attention adds, without its bias, if only these keys of these heads keep their weight; Q D."""
    path = f"{'decoder' if kind == 'cross' else kind}.{layer}.{'cross' if kind == 'cross' else 'attention'}"
    own = torch.as_tensor(seen[f"{path}.weights"])
    kept = torch.zeros_like(own)
    for head in heads:
        kept[head][:, keys] = own[head][:, keys]
    nothing = seen.again(patch={f"{path}.weights": torch.zeros_like(own)[None]})[f"{path}.output"]
    return seen.again(patch={f"{path}.weights": kept[None]})[f"{path}.output"] - nothing


@pytest.mark.parametrize("variant", ["paper", "llama", "wide"])
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_a_length_is_that_of_what_the_key_alone_adds(words, variant, kind):
    seen = inspected(words, variant)
    one, layer = value_weighted(seen, kind, 1, head=2), value_weighted(seen, kind, 1)
    queries, keys = seen.sides(kind)
    assert one.shape == layer.shape == (len(queries), len(keys))
    for key in (0, 3, len(keys) - 1):
        alone = output_of_keys(seen, kind, 1, [2], [key])
        assert one[:, key] == pytest.approx(np.linalg.norm(alone, axis=-1), abs=1e-5)
        together = output_of_keys(seen, kind, 1, list(range(4)), [key])
        assert layer[:, key] == pytest.approx(np.linalg.norm(together, axis=-1), abs=1e-5)


def test_words_add_their_vectors_before_the_length_is_taken(pieces):
    seen = inspected(pieces)
    found = value_weighted(seen, "encoder", 0, head=1, words=True)
    words = seen.words("source")
    many = max(range(len(words)), key=lambda n: len(words[n].positions))
    assert len(words[many].positions) > 1
    alone = output_of_keys(seen, "encoder", 0, [1], list(words[many].positions))
    rows = np.stack([alone[list(word.positions)].mean(0) for word in words])
    assert found[:, many] == pytest.approx(np.linalg.norm(rows, axis=-1), abs=1e-5)
    summed = merge_words(value_weighted(seen, "encoder", 0, head=1), seen.source, seen.source)
    assert (found <= summed + 1e-9).all(), "vectors in different directions are shorter together"


def test_a_head_that_is_off_adds_nothing(words):
    seen = inspected(words).again(ablate=[("encoder", 1, 2)])
    assert (value_weighted(seen, "encoder", 1, head=2) == 0).all()
    assert (value_weighted(seen, "encoder", 1, head=1) > 0).any()
    own = output_of_keys(seen, "encoder", 1, [0, 1, 3], [4])
    assert value_weighted(seen, "encoder", 1)[:, 4] == pytest.approx(np.linalg.norm(own, axis=-1), abs=1e-5)
