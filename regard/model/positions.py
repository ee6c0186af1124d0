"""Positional encodings: sinusoidal (section 3.5), learned, rotary, none.

An encoding is added to the embeddings (`forward`) or rotates queries and keys (`rotation`). B batch,
Q tokens, D width, E key width of a head. `length` is the largest position plus one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import ShapeError
from regard.model.config import ModelConfig, RotaryScaling
from regard.model.frequencies import rotary_frequencies
from regard.model.initialization import random_weight
from regard.registry import Registry


@dataclass(frozen=True)
class Rotation:
    """Cosines and sines of the rotation of queries and keys, each broadcasting to B H Q E/2.

    They are at least float32, also for queries and keys in half precision.
    """

    cosine: Tensor
    sine: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Rotate each pair (x[i], x[i + E/2]) by the angle of its token."""
        left, right = x.chunk(2, dim=-1)
        rotated = (left * self.cosine - right * self.sine, right * self.cosine + left * self.sine)
        return torch.cat(rotated, dim=-1).to(x.dtype)


class Positions(Protocol):
    """The interface of a positional encoding: a module with these two methods."""

    def __call__(self, positions: Tensor, length: int) -> Tensor | None:
        """The encoding added to the embedding at each position, .. D, or None."""
        ...

    def rotation(self, positions: Tensor) -> Rotation | None:
        """The rotation of queries and keys at each position, or None."""
        ...


def sinusoids(positions: Tensor, width: int, halves: bool = False) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)).

    With `halves`, all sines precede all cosines, as in Marian's checkpoints.
    """
    even = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
    angles = positions.double()[..., None] / 10_000 ** (even / width)  # .. D/2
    waves = torch.stack((angles.sin(), angles.cos()), dim=-2 if halves else -1)
    return waves.flatten(-2)[..., :width].float()


class Sinusoidal(nn.Module):
    """The paper's sinusoidal encoding, defined for any position."""

    table: Tensor

    def __init__(self, width: int, prepared: int, halves: bool = False):
        super().__init__()
        self.width, self.halves = width, halves
        positions = torch.arange(min(prepared, 4096), device="cpu")  # not meta: the table is not a weight
        table = sinusoids(positions, width, halves)
        self.register_buffer("table", table, persistent=False)

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """The encoding of each position, .. D."""
        if length > self.table.shape[0]:
            return sinusoids(positions, self.width, self.halves).to(self.table.dtype)
        return F.embedding(positions, self.table)

    def rotation(self, positions: Tensor) -> Rotation | None:
        """None: queries and keys are not rotated."""
        return None


class Learned(nn.Module):
    """One trained vector per position, up to the context."""

    def __init__(self, width: int, context: int):
        super().__init__()
        self.weight = random_weight(context, width, deviation=0.02)

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """The trained vector of each position, .. D."""
        if length > self.weight.shape[0]:
            raise ShapeError(
                f"a sequence of {length} tokens exceeds the {self.weight.shape[0]} learned positions; "
                "shorten the text, or train with a larger context"
            )
        return F.embedding(positions, self.weight)

    def rotation(self, positions: Tensor) -> Rotation | None:
        """None: queries and keys are not rotated."""
        return None


class NoPositions(nn.Module):
    """No positional encoding: the model sees a bag of words."""

    def forward(self, positions: Tensor, length: int) -> Tensor | None:
        """None: nothing is added to the embeddings."""
        return None

    def rotation(self, positions: Tensor) -> Rotation | None:
        """None: queries and keys are not rotated."""
        return None


class Rotary(nn.Module):
    """Queries and keys are rotated by an angle proportional to the position (Su et al. 2021)."""

    frequencies: Tensor

    def __init__(self, key_width: int, theta: float = 10_000.0, scaling: RotaryScaling | None = None):
        super().__init__()
        frequencies = torch.from_numpy(rotary_frequencies(key_width, theta, scaling))
        self.register_buffer("frequencies", frequencies, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        """Keep the frequencies at least in float32: bfloat16 does not represent every integer above 256."""
        exact = self.frequencies
        super()._apply(fn, recurse)
        moved = self.frequencies
        self.frequencies = exact.to(moved.device, torch.promote_types(moved.dtype, torch.float32))
        return self

    def forward(self, positions: Tensor, length: int) -> Tensor | None:
        """None: nothing is added to the embeddings."""
        return None

    def rotation(self, positions: Tensor) -> Rotation | None:
        """The rotation at each position, shared by all heads."""
        angles = positions[..., None] * self.frequencies  # Q E/2 or B Q E/2
        angles = angles[:, None] if angles.dim() == 3 else angles  # B 1 Q E/2
        return Rotation(angles.cos(), angles.sin())


POSITIONS: Registry[Callable[[ModelConfig], Positions]] = Registry(
    "positions",
    {
        "sinusoidal": lambda config: Sinusoidal(config.width, config.context),
        "sinusoidal-halves": lambda config: Sinusoidal(config.width, config.context, halves=True),
        "learned": lambda config: Learned(config.width, config.context),
        "rotary": lambda config: Rotary(config.key_size, config.rotary_theta, config.rotary_scaling),
        "none": lambda config: NoPositions(),
    },
)
