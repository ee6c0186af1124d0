"""Mask: which keys each query may attend to. True means "may attend".

B batch, H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import ShapeError


@dataclass(frozen=True)
class Mask:
    """A description of a mask, expanded to a Q x K matrix only where a kernel needs one.

    causal  a query attends to its own position and earlier ones only (section 3.2.3)
    keys    B K, which keys exist; padding, on either side, is False
    matrix  any other mask: Q K, shared by all sequences and heads, or four axes that broadcast to B H Q K
    offset  position of the first query among the keys, if a cache holds earlier keys: one number or B of them
    """

    causal: bool = False
    keys: Tensor | None = None
    matrix: Tensor | None = None
    offset: int | Tensor = 0

    def __post_init__(self):
        for name, value, axes in (("keys", self.keys, (2,)), ("matrix", self.matrix, (2, 4))):
            if value is not None and value.dtype != torch.bool:
                raise ShapeError(f"{name} of {value.dtype} must be bool, True where a query may attend")
            if value is not None and value.dim() not in axes:
                wanted = "B K" if name == "keys" else "Q K or B H Q K; an axis of size 1 broadcasts"
                raise ShapeError(f"{name} of shape {tuple(value.shape)} must be {wanted}")

    @classmethod
    def of_padding(cls, ids: Tensor, pad: int) -> Mask:
        """Mask the padding of B K ids."""
        return cls(keys=ids != pad)

    @property
    def has_offset(self) -> bool:
        """Whether a cache holds keys before the first query."""
        return isinstance(self.offset, Tensor) or self.offset > 0

    def dense(
        self, queries: int, keys: int, device: torch.device | None = None, rows: Sequence[int] = ()
    ) -> Tensor | None:
        """Expand to a tensor that broadcasts to B H Q K, or None if nothing is masked.

        `rows` has B and H, with which the sizes of the mask are compared if it is given.
        """
        parts = []
        if self.matrix is not None:
            parts.append(_check_size("matrix", self.matrix, queries, keys, rows))
        if self.keys is not None:
            parts.append(_check_size("keys", self.keys[:, None, None, :], queries, keys, rows))
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
        if isinstance(self.offset, Tensor):
            query = query + self.offset[:, None]  # B Q
            return (key <= query[:, :, None])[:, None]  # B 1 Q K
        return key <= (query + self.offset)[:, None]  # Q K

    def positions(self, queries: int, device: torch.device | None = None) -> Tensor:
        """Position of each query in its own sequence, Q or B Q; padding before it is not counted."""
        if self.keys is not None:
            if self.keys.shape[1] < queries:
                raise ShapeError(f"keys of {self.keys.shape[1]} positions must have all {queries} queries")
            return (self.keys.long().cumsum(-1) - 1).clamp_min(0)[:, -queries:]
        positions = torch.arange(queries, device=device)
        return positions + (self.offset[:, None] if isinstance(self.offset, Tensor) else self.offset)

    def length(self, queries: int) -> int:
        """Length of the longest sequence: the largest position of a query, plus one."""
        return queries + (int(self.offset.max()) if isinstance(self.offset, Tensor) else self.offset)


def _check_size(name: str, part: Tensor, queries: int, keys: int, rows: Sequence[int]) -> Tensor:
    height, width = part.shape[-2:]
    if height not in (1, queries) or width not in (1, keys):
        raise ShapeError(
            f"{name} of {height} x {width} must match {queries} queries and {keys} keys, or be 1 to broadcast"
        )
    own = part.shape[:-2]
    if any(size not in (1, wanted) for size, wanted in zip(own, rows, strict=False)):
        raise ShapeError(
            f"{name} for {own[0]} sequences and {own[1]} heads must match {rows[0]} sequences and "
            f"{rows[1]} heads, or be 1 to broadcast"
        )
    return part


EVERYTHING = Mask()
