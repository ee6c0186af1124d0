"""Value-weighted attention: the length of what each key adds to a query (Kobayashi et al. 2020).

A head adds a v W^O for each key: the weight a, times the key's value v, times its part of W^O. A large weight
on a short vector adds little, so the lengths can differ from the weights. H heads, Q queries, K keys,
D width, F value width of a head.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.errors import UsageError
from regard.inspection.record.record import Record
from regard.inspection.record.tokens import Side
from regard.model.attention import MultiHeadAttention
from regard.model.watch import attention_path


def value_weighted(
    record: Record, kind: str, layer: int, head: int | None = None, words: bool = False
) -> np.ndarray:
    """The length of the vector that each key adds to each query, Q K.

    It is the vector of one head, or without `head` the sum over all heads of the layer, in which the vectors
    of different heads can cancel. With `words`, vectors of the tokens of a word are summed over keys and
    averaged over queries before their length is taken.
    """
    record.check(kind, layer, head)
    queries, keys = record.sides(kind)
    weights = record.attention(kind, layer).astype(np.float64)  # H Q K
    added = _added(record, kind, layer)  # H K D
    if head is not None:
        weights, added = weights[head : head + 1], added[head : head + 1]
    if words:
        weights = np.stack([weights[:, list(word.positions)].mean(1) for word in queries.words], axis=1)
    lengths = [
        np.linalg.norm(np.einsum("hqk,hkd->qd", weights[..., places], added[:, places]), axis=-1)
        for places in _places(keys, words)
    ]
    return np.stack(lengths, axis=-1)


def _places(keys: Side, words: bool) -> list[list[int]]:
    return [list(word.positions) for word in keys.words] if words else [[n] for n in range(len(keys))]


def _added(record: Record, kind: str, layer: int) -> np.ndarray:
    """The value of each key times W^O, for each head; 0 for an ablated head. H K D."""
    path = attention_path(kind, layer)
    stack, _, name = path.rpartition(".")
    blocks: Any = record.model.get_submodule(stack.partition(".")[0])
    attention = getattr(blocks.blocks[layer], name)
    if not isinstance(attention, MultiHeadAttention):
        raise UsageError(
            f"{type(attention).__name__} has no values to weigh; it is defined for multi-head attention"
        )
    values = record[f"{path}.value"].astype(np.float64)  # groups K F
    values = values[np.arange(record.heads) * len(values) // record.heads]
    weight = attention.output.weight.detach().cpu().double().numpy()
    weight = weight.reshape(len(weight), record.heads, -1)  # D H F
    added = np.einsum("hkf,dhf->hkd", values, weight)
    added[[h for h in range(record.heads) if (kind, layer, h) in record.recording.ablated]] = 0.0
    return added
