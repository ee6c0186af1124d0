"""Products with few rows, as decoding has them, with weights laid out beforehand as a processor reads them.

A linear layer keeps its matrix with a row for each output, which suits training. With few rows to multiply
most of the time goes into bringing the matrix into another order, at every call anew. So it is done once:
a large matrix is packed as oneDNN wants it, which makes a product with 2 to 64 rows up to three times as
quick; a small one, where oneDNN's call costs more than it gains, is turned to a row for each input. What was
laid out is kept beside the model that it came from, for as long as that lives, and every use starts with a
proof that the weights are still the same.

R rows, N outputs, K inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

AT_MOST = 1 << 28  # numbers of a model: a second copy of more would be a burden
LARGE = 1 << 19  # numbers of a matrix from which on packing gains
USUAL_ROWS = 32  # for which a matrix is packed; it serves any other number as well

Product = Callable[[Tensor], Tensor]  # of R K to R N


@dataclass(frozen=True)
class PackedMatrix:
    """A matrix laid out, and a product with the weights it was made of, which changes as they do."""

    matrix: Tensor
    proof: Tensor  # N


_Place = tuple[int, tuple[int, ...]]
_kept: WeakKeyDictionary[nn.Module, dict[_Place, PackedMatrix]] = WeakKeyDictionary()


class PackedWeights:
    """Products with the weights of one model; each is laid out unless it was before and has not changed."""

    def __init__(self, model: nn.Module):
        self._model, self._before = model, _kept.get(model, {})
        self._now: dict[_Place, PackedMatrix] = {}
        self._has_room = bool(self._before) or sum(one.numel() for one in model.parameters()) <= AT_MOST

    def __call__(self, weight: Tensor, bias: Tensor | None) -> Product:
        """What gives x W^T + b for a weight N K and a bias N."""
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        if not self._has_room or weight.device.type != "cpu" or weight.dtype != torch.float32:
            return _plain(weight.T, bias)
        packed = weight.numel() >= LARGE and _can_pack()
        matrix = self._laid(weight, _pack if packed else _turn)
        return _packed(matrix, bias) if packed else _plain(matrix, bias)

    def keep(self) -> None:
        """Keep what was asked for, and nothing else, for the next time."""
        _kept[self._model] = self._now

    def _laid(self, weight: Tensor, lay_out: Callable[[Tensor], Tensor]) -> Tensor:
        place, proof = (weight.data_ptr(), tuple(weight.shape)), weight @ _probe(weight.shape[1])
        laid = self._before.get(place)
        if laid is None or not torch.equal(laid.proof, proof):
            laid = PackedMatrix(lay_out(weight), proof)
        self._now[place] = laid
        return laid.matrix


def _plain(matrix: Tensor, bias: Tensor | None) -> Product:
    if bias is None:
        return lambda x: x @ matrix
    return lambda x: torch.addmm(bias, x, matrix)


def _packed(matrix: Tensor, bias: Tensor | None) -> Product:
    multiply = torch.ops.mkldnn._linear_pointwise
    return lambda x: multiply(x, matrix, bias, "none", [], "")


def _turn(weight: Tensor) -> Tensor:
    return weight.T.contiguous()


def _pack(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), USUAL_ROWS)


@cache
def _can_pack() -> bool:
    """Whether this build of torch packs for oneDNN (torch.compile does), and the products come out right."""
    weight, x = _probe(48).view(6, 8), _probe(16).view(2, 8)
    try:
        found = _packed(_pack(weight), _probe(6))(x)
    except (AttributeError, RuntimeError):
        return False
    return torch.allclose(found, torch.addmm(_probe(6), x, weight.T), atol=1e-5)


@cache
def _probe(width: int) -> Tensor:
    return torch.randn(width, generator=torch.Generator().manual_seed(width), device="cpu")
