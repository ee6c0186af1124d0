"""Attention rollout: attention multiplied through the layers (Abnar and Zuidema 2020).

Each layer mixes the mean attention of its heads with the identity, which stands for the residual connection.
The product over the layers attributes the vector of each position to the input tokens. Rows sum to 1.
Q queries, K keys.
"""

from __future__ import annotations

import numpy as np

from regard.inspection.record.record import Record

KEPT = 0.5  # the share of the residual connection


def rollout(record: Record, kind: str, layers: int | None = None, kept: float = KEPT) -> np.ndarray:
    """The attribution of each position to the input tokens after `layers` layers, all by default; Q K.

    "encoder" and "decoder" follow self-attention. "cross" attributes target positions to source tokens
    through both stacks, normalised over the source.
    """
    if kind != "cross":
        return _self_rollout(record, kind, layers, kept)
    whole = rollout_to_both(record, layers, kept)
    source = whole[:, len(record.side("target")) :]
    return source / source.sum(-1, keepdims=True)


def rollout_to_both(record: Record, layers: int | None = None, kept: float = KEPT) -> np.ndarray:
    """The attribution of each target position to the target tokens and then the source tokens."""
    target, source = len(record.side("target")), len(record.side("source"))
    memory = np.hstack([np.zeros((source, target)), _self_rollout(record, "encoder", None, kept)])
    whole = np.eye(target, target + source)
    for layer in range(_checked(record, "decoder", layers)):
        for kind, there in (("decoder", None), ("cross", memory)):
            gathered = _heads_together(record, kind, layer) @ (whole if there is None else there)
            whole = _kept_and(gathered, whole, kept)
    return whole


def _self_rollout(record: Record, kind: str, layers: int | None, kept: float) -> np.ndarray:
    count = _checked(record, kind, layers)
    whole = np.eye(len(record.sides(kind)[0]))
    for layer in range(count):
        whole = _kept_and(_heads_together(record, kind, layer) @ whole, whole, kept)
    return whole


def _heads_together(record: Record, kind: str, layer: int) -> np.ndarray:
    return record.attention(kind, layer).astype(np.float64).mean(0)


def _kept_and(gathered: np.ndarray, before: np.ndarray, kept: float) -> np.ndarray:
    """The mixture with rows normalised to 1; a query that attends to nothing has only its residual."""
    mixed = kept * before + (1 - kept) * gathered
    return mixed / mixed.sum(-1, keepdims=True)


def _checked(record: Record, kind: str, layers: int | None) -> int:
    if layers is None:
        return record.layers(kind)
    record.check(kind, layers - 1)
    return layers
