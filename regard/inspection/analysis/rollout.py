"""Attention rollout: attention followed through the layers, down to the words that went in.

A block hands on half of what its heads gather on average and half of what came in, which stands for the
residual connection; layer after layer these are multiplied (Abnar and Zuidema 2020). A row says how much
of a position's vector goes back to each word, by attention alone, and sums to 1. Q queries, K keys.
"""

from __future__ import annotations

import numpy as np

from regard.inspection.record.inspection import Inspection

KEPT = 0.5  # what the residual connection keeps


def rollout(seen: Inspection, kind: str, layers: int | None = None, kept: float = KEPT) -> np.ndarray:
    """Where each position's vector comes from after so many layers (all of them where none is given), Q K.

    "encoder" and "decoder" follow self-attention alone. "cross" gives what a target position has from each
    source word, through both stacks, as shares of all that it has from the source.
    """
    if kind != "cross":
        return _self_rollout(seen, kind, layers, kept)
    whole = rollout_to_both(seen, layers, kept)
    source = whole[:, len(seen.side("target")) :]
    return source / source.sum(-1, keepdims=True)


def rollout_to_both(seen: Inspection, layers: int | None = None, kept: float = KEPT) -> np.ndarray:
    """Where each target position's vector comes from: the target words and then the source words."""
    target, source = len(seen.side("target")), len(seen.side("source"))
    memory = np.hstack([np.zeros((source, target)), _self_rollout(seen, "encoder", None, kept)])
    whole = np.eye(target, target + source)
    for layer in range(_checked(seen, "decoder", layers)):
        for kind, there in (("decoder", None), ("cross", memory)):
            gathered = _heads_together(seen, kind, layer) @ (whole if there is None else there)
            whole = _kept_and(gathered, whole, kept)
    return whole


def _self_rollout(seen: Inspection, kind: str, layers: int | None, kept: float) -> np.ndarray:
    count = _checked(seen, kind, layers)
    whole = np.eye(len(seen.sides(kind)[0]))
    for layer in range(count):
        whole = _kept_and(_heads_together(seen, kind, layer) @ whole, whole, kept)
    return whole


def _heads_together(seen: Inspection, kind: str, layer: int) -> np.ndarray:
    return seen.attention(kind, layer).astype(np.float64).mean(0)


def _kept_and(gathered: np.ndarray, before: np.ndarray, kept: float) -> np.ndarray:
    """Both in their shares, and the rows brought to 1: a query that sees nothing gathers nothing."""
    mixed = kept * before + (1 - kept) * gathered
    return mixed / mixed.sum(-1, keepdims=True)


def _checked(seen: Inspection, kind: str, layers: int | None) -> int:
    if layers is None:
        return seen.layers(kind)
    seen.check(kind, layers - 1)
    return layers
