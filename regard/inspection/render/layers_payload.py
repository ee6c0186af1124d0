"""The payload of the view's tab Layers: the logit lens, where a row gets its information, and attribution.

L layers, Q queries, K keys, T most probable tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.errors import SettingError, UnknownName, nearest
from regard.inspection.analysis.attribution import attribute
from regard.inspection.analysis.lens import logit_lens
from regard.inspection.analysis.rollout import rollout
from regard.inspection.analysis.value_weighted import value_weighted
from regard.inspection.record.record import Record
from regard.inspection.record.tokens import merge_words, word_of
from regard.inspection.render.payload import half, pack
from regard.model.transformer import EncoderOnly

TOP = 5


def lens(record: Record, top: int = TOP) -> bytes:
    """The sheet of the logit lens.

    `ids` and `probabilities` are the most probable tokens of every layer at every position, L Q T. `course`
    has, for the most probable tokens of the last layer, their probability in every layer, L Q T. `written` is
    the probability of the token that was written, L Q; a masked model has none.
    """
    found = logit_lens(record)
    layers = range(found.layers)
    ranked = [found.ranked(layer, top) for layer in layers]
    ids = np.stack([ids for ids, _ in ranked])
    arrays = {
        "ids": ids.astype(np.float32),  # exact below 2^24
        "probabilities": np.stack([probabilities for _, probabilities in ranked]),
        "course": np.stack([found.chances(layer, ids[-1]) for layer in layers]),
    }
    followed = None if isinstance(record.model, EncoderOnly) else record.followed
    if followed is not None and len(followed):
        rows = np.zeros((ids.shape[1], 1), dtype=np.int64)
        rows[: len(followed), 0] = followed
        arrays["written"] = np.stack([found.chances(layer, rows)[: len(followed), 0] for layer in layers])
    tokenizer = record.written.tokenizer
    known = set(np.unique(ids).tolist()) | set([] if followed is None else followed.tolist())
    texts = {str(number): word_of(tokenizer, number) for number in sorted(known)}
    meta = {"side": record.written.name, "texts": texts}
    return pack({**meta, "followed": None if followed is None else followed.tolist()}, arrays)


def flow(record: Record, measure: str, kind: str, words: bool = False) -> bytes:
    """The sheet of what each query takes from each key, in every layer: `values` L Q K, and `visible` Q K.

    The measure is "attention", the mean over the heads; "values", the length of what the key adds, summed
    over the heads; or "rollout", attention rollout up to and including the layer.
    """
    if measure not in MEASURES:
        raise UnknownName(f"unknown measure {measure!r}; {nearest(measure, MEASURES)}")
    layers = [MEASURES[measure](record, kind, layer, words) for layer in range(record.layers(kind))]
    visible = record.visible(kind, 0, words=words)
    return pack(
        {"measure": measure, "kind": kind, "words": words},
        {"values": half(np.stack(layers)), "visible": visible},
    )


def attribution(
    record: Record, position: int, word: int | None, instead: int | None, method: str, points: int
) -> bytes:
    """The sheet of an attribution: the share of each token, in an array for each side."""
    count = 1 if record.recording.output.dim() == 1 else len(record.written)
    if not 0 <= position < count:
        raise SettingError(f"no position {position}; there are {count}, counted from 0")
    found = attribute(record, word, instead, position, method, points)
    meta: dict[str, Any] = found.as_dict()
    del meta["tokens"]
    return pack(meta, dict(found.tokens))


def _mean_of_heads(record: Record, kind: str, layer: int, words: bool) -> np.ndarray:
    return record.attention(kind, layer, words=words).mean(0)


def _lengths(record: Record, kind: str, layer: int, words: bool) -> np.ndarray:
    return value_weighted(record, kind, layer, words=words)


def _rolled_out(record: Record, kind: str, layer: int, words: bool) -> np.ndarray:
    shares = rollout(record, kind, layers=layer + 1)
    return merge_words(shares, *record.sides(kind)) if words else shares


MEASURES: dict[str, Callable[[Record, str, int, bool], np.ndarray]] = {
    "attention": _mean_of_heads,
    "values": _lengths,
    "rollout": _rolled_out,
}
