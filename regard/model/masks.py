"""Mask: who may look at whom. True means "may look".

B batch, H heads, Q queries, K keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import ShapeError


@dataclass(frozen=True)
class Mask:
    """A small value that becomes a Q x K matrix only where one is written out or was given.

    causal  a query looks at its own place and earlier ones, never at later ones (section 3.2.3)
    keys    B K, which keys exist; padding, on either side, is False
    matrix  anything else: Q K, the same for every sequence and head, or four axes that broadcast to B H Q K
    first   the place of the first query among the keys: a number, or B of them, where a cache goes on
    """

    causal: bool = False
    keys: Tensor | None = None
    matrix: Tensor | None = None
    first: int | Tensor = 0

    def __post_init__(self):
        for name, value, axes in (("keys", self.keys, (2,)), ("matrix", self.matrix, (2, 4))):
            if value is not None and value.dtype != torch.bool:
                raise ShapeError(f"{name} of {value.dtype} must be bool, True where a query may look")
            if value is not None and value.dim() not in axes:
                wanted = "B K" if name == "keys" else "Q K, or B H Q K with 1 where it is the same for all"
                raise ShapeError(f"{name} of shape {tuple(value.shape)} must be {wanted}; give it these axes")

    @classmethod
    def of_padding(cls, ids: Tensor, pad: int) -> Mask:
        """Every token may be looked at, the padding may not."""
        return cls(keys=ids != pad)

    @property
    def goes_on(self) -> bool:
        """Whether the first query stands behind keys of an earlier call."""
        return isinstance(self.first, Tensor) or self.first > 0

    def dense(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        """The mask written out, broadcasting to B H Q K, or None where everything may be seen."""
        parts = []
        if self.matrix is not None:
            parts.append(_fitting("matrix", self.matrix, queries, keys))
        if self.keys is not None:
            parts.append(_fitting("keys", self.keys[:, None, None, :], queries, keys))
        if self.causal:
            parts.append(self._causal(queries, keys, device))
        if not parts:
            return None
        dense = parts[0]
        for part in parts[1:]:
            dense = dense & part
        return dense

    def _causal(self, queries: int, keys: int, device: torch.device | None) -> Tensor:
        query = torch.arange(queries, device=device)
        key = torch.arange(keys, device=device)
        if isinstance(self.first, Tensor):
            query = query + self.first[:, None]  # B Q
            return (key <= query[:, :, None])[:, None]  # B 1 Q K
        return key <= (query + self.first)[:, None]  # Q K

    def positions(self, queries: int, device: torch.device | None = None) -> Tensor:
        """The place of each query in its own sequence, Q or B Q: padding before it is not counted."""
        if self.keys is not None:
            return (self.keys.long().cumsum(-1) - 1).clamp_min(0)[:, -queries:]
        places = torch.arange(queries, device=device)
        return places + (self.first[:, None] if isinstance(self.first, Tensor) else self.first)

    def reach(self, queries: int) -> int:
        """One more than the largest position a query can have."""
        return queries + int(self.first.max() if isinstance(self.first, Tensor) else self.first)


def _fitting(name: str, part: Tensor, queries: int, keys: int) -> Tensor:
    rows, columns = part.shape[-2:]
    if rows not in (1, queries) or columns not in (1, keys):
        raise ShapeError(
            f"{name} has {rows} x {columns} for {queries} queries and {keys} keys; give a value for each"
        )
    return part


EVERYTHING = Mask()
