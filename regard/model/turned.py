"""Weights the other way round, as a product with few rows reads them fastest.

A linear layer keeps its matrix with a row for each output, which suits training. With few rows to multiply,
as in decoding, a processor is up to twice as quick with a row for each input, and turning a matrix costs
more than multiplying by it. So what was turned is kept beside the model that it came from, for as long as
that lives, and every use starts with a proof that the weights are still the same.

N outputs, K inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

AT_MOST = 1 << 28  # numbers of a model: a second copy of more would be a burden


@dataclass(frozen=True)
class Turned:
    """A matrix K N, and a product with the weights it was made of, which changes when any of them does."""

    matrix: Tensor
    proof: Tensor  # N


_Place = tuple[int, tuple[int, ...]]
_kept: WeakKeyDictionary[nn.Module, dict[_Place, Turned]] = WeakKeyDictionary()


class Turner:
    """Turns the weights of one model, each only if it was not turned before or has changed since."""

    def __init__(self, model: nn.Module):
        self._model, self._before = model, _kept.get(model, {})
        self._now: dict[_Place, Turned] = {}
        self._has_room = bool(self._before) or sum(one.numel() for one in model.parameters()) <= AT_MOST

    def __call__(self, weight: Tensor) -> Tensor:
        """K N of a weight N K: a copy where that gains something, the weight itself seen so where not."""
        weight = weight.detach()
        if not self._has_room or weight.device.type != "cpu" or weight.dtype != torch.float32:
            return weight.T
        place, proof = (weight.data_ptr(), tuple(weight.shape)), weight @ _probe(weight.shape[1])
        turned = self._before.get(place)
        if turned is None or not torch.equal(turned.proof, proof):
            turned = Turned(weight.T.contiguous(), proof)
        self._now[place] = turned
        return turned.matrix

    def keep(self) -> None:
        """Keep what was asked for, and nothing else, for the next time."""
        _kept[self._model] = self._now


@cache
def _probe(width: int) -> Tensor:
    return torch.randn(width, generator=torch.Generator().manual_seed(width), device="cpu")
