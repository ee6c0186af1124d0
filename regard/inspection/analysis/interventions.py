"""Attention pulled by hand: rows of weights that a person sets in place of the model's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import SettingError, UnknownName, nearest
from regard.inspection.record.recording import at_rest, kinds_of
from regard.model.transformer import EncoderDecoder, Transformer
from regard.model.watch import Part, Replacement, attention_path, replace_row, watch

TOLERANCE = 0.01  # of a row's sum; what a person types is rounded


@dataclass(frozen=True)
class Pull:
    """One query's row in one head: a weight for each key, 1 in all."""

    kind: str
    layer: int
    head: int
    query: int
    row: tuple[float, ...]


def check_pull(model: Transformer, pull: Pull, keys: int | None = None) -> None:
    """Refuse a row that this model has no place for, or that is none of weights."""
    kinds = kinds_of(model)
    if pull.kind not in kinds:
        raise UnknownName(f"unknown kind of attention {pull.kind!r}; {nearest(pull.kind, kinds)}")
    config = model.config
    layers = config.layers if pull.kind == "encoder" else config.decoder_layers or config.layers
    for name, value, count in (("layer", pull.layer, layers), ("head", pull.head, config.heads)):
        if not 0 <= value < count:
            raise SettingError(f"no {name} {value} of {pull.kind} attention; there are {count}, from 0 on")
    if pull.kind == "encoder" and keys is not None and pull.query >= keys:
        raise SettingError(f"no query {pull.query}; the source has {keys} tokens, counted from 0")
    if keys is not None and len(pull.row) != keys:
        raise SettingError(f"a pulled row of {len(pull.row)} numbers; this one has {keys} keys")
    if pull.kind == "decoder" and any(pull.row[pull.query + 1 :]):
        raise SettingError("a pulled row looks at later words, which are not written yet; give those 0")
    if min(pull.row, default=0.0) < 0 or abs(sum(pull.row) - 1) > TOLERANCE:
        raise SettingError(f"a pulled row sums to {sum(pull.row):.3g}; weights of 0 or more that sum to 1 do")


def patches(pulls: Iterable[Pull]) -> dict[str, Replacement]:
    """What `watch` puts in place of the model's weights."""
    by_name: dict[str, list[Pull]] = {}
    for pull in pulls:
        by_name.setdefault(f"{attention_path(pull.kind, pull.layer)}.weights", []).append(pull)
    return {name: _patch(rows) for name, rows in by_name.items()}


def _patch(rows: Sequence[Pull]) -> Replacement:
    def put(weights: Tensor) -> Tensor:
        queries, keys = weights.shape[-2:]
        for pull in rows:
            if pull.query < queries:  # the output may end before it
                row: Any = replace_row(pull.query, _fitting(pull, keys), pull.head)
                weights = row(weights)
        return weights

    return put


def _fitting(pull: Pull, keys: int) -> list[float]:
    """A decoder's row may have been pulled in a longer or shorter output; what lies ahead has no weight."""
    if pull.kind != "decoder":
        return list(pull.row)
    seen = pull.row[: pull.query + 1]
    return [*seen, *[0.0] * (keys - len(seen))]


@torch.no_grad()
def write_pulled(
    model: EncoderDecoder,
    source: Sequence[int],
    start: int,
    end: int,
    longest: int,
    off: Iterable[Part],
    patch: Mapping[str, Replacement],
) -> list[int]:
    """What a model writes, the likeliest id each time, while rows are pulled.

    Every step reads the output as a whole: a row of a longer output has no place in a step of one token.
    """
    device = next(model.parameters()).device
    written = torch.tensor([[start]], device=device)
    with at_rest(model), watch(model, only=(), off=off, patch=patch):
        memory = model.encode(torch.tensor([list(source)], device=device))
        while written.shape[1] <= longest:
            best = model.head(model.decode(written, memory)[:, -1:])[:, -1].argmax(-1)
            if int(best) == end:
                break
            written = torch.cat([written, best[:, None]], dim=1)
    return written[0, 1:].tolist()
