"""Interventions: rows of attention weights that a person sets in place of the model's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.errors import SettingError, UnknownName, nearest
from regard.inspection.record.recording import kinds_of
from regard.model.transformer import Transformer
from regard.model.watch import Replacement, attention_path, replace_row

TOLERANCE = 0.01  # of a row's sum; typed numbers are rounded


@dataclass(frozen=True)
class Intervention:
    """One query's row in one head: a weight for each key, with the sum 1."""

    kind: str
    layer: int
    head: int
    query: int
    row: tuple[float, ...]


def check_intervention(model: Transformer, row: Intervention, keys: int | None = None) -> None:
    """Raise if the model has no such row, or if its numbers are not attention weights."""
    kinds, config, weights = kinds_of(model), model.config, row.row
    if row.kind not in kinds:
        raise UnknownName(f"unknown kind of attention {row.kind!r}; {nearest(row.kind, kinds)}")
    layers = config.layers if row.kind == "encoder" else config.decoder_layers or config.layers
    for name, value, count in (("layer", row.layer, layers), ("head", row.head, config.heads)):
        if not 0 <= value < count:
            raise SettingError(f"no {name} {value} of {row.kind} attention; there are {count}, from 0 on")
    if row.kind == "encoder" and keys is not None and row.query >= keys:
        raise SettingError(f"no query {row.query}; the source has {keys} tokens, counted from 0")
    if keys is not None and len(weights) != keys:
        raise SettingError(f"the intervention has {len(weights)} weights; this row has {keys} keys")
    if row.kind == "decoder" and any(weights[row.query + 1 :]):
        raise SettingError("the intervention attends to later tokens, which do not exist yet; give those 0")
    if min(weights, default=0.0) < 0 or abs(sum(weights) - 1) > TOLERANCE:
        raise SettingError(f"the weights sum to {sum(weights):.3g}; give weights of 0 or more with the sum 1")


def patches(interventions: Iterable[Intervention]) -> dict[str, Replacement]:
    """The patches for `watch` that put these rows in place of the model's."""
    by_name: dict[str, list[Intervention]] = {}
    for row in interventions:
        by_name.setdefault(f"{attention_path(row.kind, row.layer)}.weights", []).append(row)
    return {name: _patch(rows) for name, rows in by_name.items()}


def _patch(rows: Sequence[Intervention]) -> Replacement:
    def replace(weights: Tensor) -> Tensor:
        queries, keys = weights.shape[-2:]
        for row in rows:
            if row.query < queries:  # the output may be shorter
                patch = replace_row(row.query, _fitted(row, keys), row.head)
                assert callable(patch)
                weights = patch(weights)
        return weights

    return replace


def _fitted(row: Intervention, keys: int) -> list[float]:
    """The weights for an output of another length; tokens after the query have no weight."""
    if row.kind != "decoder":
        return list(row.row)
    visible = row.row[: row.query + 1]
    return [*visible, *[0.0] * (keys - len(visible))]
