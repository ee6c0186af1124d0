"""PackedWeights: weight matrices in the memory layout that products with few rows read fastest.

A linear layer stores one row per output. In decoding, with few rows to multiply, most time goes into
reordering the matrix at every call. Reordering it once is faster: a large matrix is packed for oneDNN, which
makes a product with 2 to 64 rows up to three times as fast. A small one is transposed, because there the call
of oneDNN costs more than it saves. Packed matrices are cached per model while the model lives. Each use first
verifies that the weights are unchanged.

R rows, N outputs, K inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

MAX_MODEL_SIZE = 1 << 28  # parameters; a larger model is not copied
MIN_PACKED_SIZE = 1 << 19  # numbers of a matrix from which packing is faster
EXPECTED_ROWS = 32  # the row count that oneDNN packs for; other counts work too

Product = Callable[[Tensor], Tensor]  # of R K to R N


@dataclass(frozen=True)
class PackedMatrix:
    """A packed matrix, and the product of its weights with a fixed vector, which detects changes."""

    matrix: Tensor
    checksum: Tensor  # N


_Key = tuple[int, tuple[int, ...]]
_packed_by_model: WeakKeyDictionary[nn.Module, dict[_Key, PackedMatrix]] = WeakKeyDictionary()


class PackedWeights:
    """Products with the weights of one model; a matrix is packed if it is new or has changed."""

    def __init__(self, model: nn.Module):
        self._model, self._previous = model, _packed_by_model.get(model, {})
        self._current: dict[_Key, PackedMatrix] = {}
        self._is_small_enough = (
            bool(self._previous) or sum(weight.numel() for weight in model.parameters()) <= MAX_MODEL_SIZE
        )

    def __call__(self, weight: Tensor, bias: Tensor | None) -> Product:
        """The function x W^T + b for a weight N K and a bias N."""
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        if not self._is_small_enough or weight.device.type != "cpu" or weight.dtype != torch.float32:
            return _plain_product(weight.T, bias)
        packed = weight.numel() >= MIN_PACKED_SIZE and _can_pack()
        matrix = self._find(weight, _pack if packed else _transpose)
        return _packed_product(matrix, bias) if packed else _plain_product(matrix, bias)

    def keep(self) -> None:
        """Cache the matrices of this object for the next one of the same model."""
        _packed_by_model[self._model] = self._current

    def _find(self, weight: Tensor, pack: Callable[[Tensor], Tensor]) -> Tensor:
        """The packed matrix of a weight, from the cache if it is unchanged."""
        key, checksum = (weight.data_ptr(), tuple(weight.shape)), weight @ _probe(weight.shape[1])
        packed = self._previous.get(key)
        if packed is None or not torch.equal(packed.checksum, checksum):
            packed = PackedMatrix(pack(weight), checksum)
        self._current[key] = packed
        return packed.matrix


def _plain_product(matrix: Tensor, bias: Tensor | None) -> Product:
    if bias is None:
        return lambda x: x @ matrix
    return lambda x: torch.addmm(bias, x, matrix)


def _packed_product(matrix: Tensor, bias: Tensor | None) -> Product:
    multiply = torch.ops.mkldnn._linear_pointwise
    return lambda x: multiply(x, matrix, bias, "none", [], "")


def _transpose(weight: Tensor) -> Tensor:
    return weight.T.contiguous()


def _pack(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), EXPECTED_ROWS)


@cache
def _can_pack() -> bool:
    """Whether this build of torch can pack for oneDNN and computes correct products."""
    weight, x = _probe(48).view(6, 8), _probe(16).view(2, 8)
    try:
        product = _packed_product(_pack(weight), _probe(6))(x)
    except (AttributeError, RuntimeError):
        return False
    return torch.allclose(product, torch.addmm(_probe(6), x, weight.T), atol=1e-5)


@cache
def _probe(width: int) -> Tensor:
    return torch.randn(width, generator=torch.Generator().manual_seed(width), device="cpu")
