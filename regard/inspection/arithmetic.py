"""A model's own formulas once more, in plain float64 numpy, for one query at a time.

E key width of a head, K keys, D width. A variant that somebody added to a table has no formula here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from regard.model.attention import MultiHeadAttention, SeparateProjections
from regard.model.blocks import LayerNorm, RMSNorm
from regard.model.positions import Rotation
from regard.model.similarity import Additive, Bilinear, Cosine, ScaledDot

Array = np.ndarray


def as_array(tensor: Any) -> Array:
    """A tensor's numbers in float64."""
    return tensor.detach().cpu().double().numpy()


def products(similarity: Any, query: Array, key: Array, head: int) -> Array | None:
    """What is added up to a raw score, K E: for a dot product q_i k_i, and its like for other measures."""
    for known, terms in _TERMS.items():
        if isinstance(similarity, known):
            return terms(similarity, query, key, head)
    return None


def formulas(similarity: Any) -> tuple[str, str]:
    """How its products and its score are written."""
    found = (written for known, written in _FORMULAS.items() if isinstance(similarity, known))
    return next(found, ("", "s = similarity(q, k)"))


def _dot(similarity: ScaledDot, query: Array, key: Array, head: int) -> Array:
    return query * key


def _cosine(similarity: Cosine, query: Array, key: Array, head: int) -> Array:
    return _unit(query) * _unit(key)


def _bilinear(similarity: Bilinear, query: Array, key: Array, head: int) -> Array:
    return (query @ as_array(similarity.weight)[head]) * key


def _additive(similarity: Additive, query: Array, key: Array, head: int) -> Array:
    q, k, v = (as_array(x)[head] for x in (similarity.query_weight, similarity.key_weight, similarity.vector))
    return np.tanh(query @ q + key @ k) * v[:, 0]


_FORMULAS = {
    ScaledDot: ("q_i k_i", "s = q · k"),
    Cosine: ("q_i k_i / (|q| |k|)", "s = q · k / (|q| |k|)"),
    Bilinear: ("(qW)_i k_i", "s = q W k"),
    Additive: ("v_i tanh(Wq + Uk)_i", "s = v · tanh(Wq + Uk)"),
}
_TERMS: dict[type, Callable[[Any, Array, Array, int], Array]] = {
    ScaledDot: _dot, Cosine: _cosine, Bilinear: _bilinear, Additive: _additive,
}  # fmt: skip


def _unit(x: Array) -> Array:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def project(
    attention: MultiHeadAttention, part: str, x: Array, head: int, rotation: Rotation | None
) -> Array | None:
    """xW + b for the queries, keys or values of one head (or of the group that it shares), then turned.

    x is .. D. None where the projections are others than W^Q, W^K and W^V.
    """
    projections = attention.projections
    if not isinstance(projections, SeparateProjections):
        return None
    number = ("query", "key", "value").index(part)
    width = projections.value_width if part == "value" else projections.key_width
    group = head if part == "query" else head * projections.groups // projections.heads
    first = sum(projections.sections[:number]) + group * width
    made = x @ as_array(projections.weight)[first : first + width].T
    if projections.bias is not None:
        made = made + as_array(projections.bias)[first : first + width]
    return made if rotation is None or part == "value" else turn(made, rotation)


def turn(x: Array, rotation: Rotation) -> Array:
    """Each pair (x[i], x[i + E/2]) turned by its token's angle; x is Q E."""
    cosine, sine = (as_array(x).reshape(-1, x.shape[-1]) for x in (rotation.cosine, rotation.sine))
    left, right = np.split(x, 2, axis=-1)
    return np.concatenate([left * cosine - right * sine, right * cosine + left * sine], axis=-1)


def normalise(norm: nn.Module, x: Array) -> Array | None:
    """(x - mean) / deviation, then gamma and beta; or x / root mean square, then gamma."""
    if isinstance(norm, LayerNorm):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + norm.epsilon)
        return scaled * as_array(norm.weight) + as_array(norm.bias)
    if isinstance(norm, RMSNorm):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + norm.epsilon) * as_array(norm.weight)
    return None


def softmax(scores: Array) -> tuple[Array, Array]:
    """e^(score - largest) for every score, and their shares; a row of nothing but -inf weighs 0."""
    largest = scores.max()
    exponentials = np.zeros_like(scores) if np.isneginf(largest) else np.exp(scores - largest)
    total = exponentials.sum()
    return exponentials, exponentials / total if total else exponentials
