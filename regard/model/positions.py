"""Where a token stands: sinusoidal (section 3.5), learned, rotary, or nowhere at all.

A position is added to the embeddings (`forward`), or turns queries and keys (`rotation`). B batch,
Q tokens, D width, E key width of a head. `reach` is one more than the largest position that can occur.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import SettingError, ShapeError
from regard.model.config import ModelConfig, RotaryScaling
from regard.model.initialization import random_weight
from regard.registry import Registry


@dataclass(frozen=True)
class Rotation:
    """Cosines and sines by which a call's queries and keys are turned, each broadcasting to B H Q E/2.

    They are float32 at least, also for queries and keys in half precision.
    """

    cosine: Tensor
    sine: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Turn each pair (x[i], x[i + E/2]) by its token's angle."""
        left, right = x.chunk(2, dim=-1)
        turned = (left * self.cosine - right * self.sine, right * self.cosine + left * self.sine)
        return torch.cat(turned, dim=-1).to(x.dtype)


class Positions(Protocol):
    """What a kind of position does: a small module with these two methods."""

    def __call__(self, positions: Tensor, reach: int) -> Tensor | None:
        """What is added to the embedding at each position, .. D, or nothing."""
        ...

    def rotation(self, positions: Tensor) -> Rotation | None:
        """How queries and keys are turned at each position, or not at all."""
        ...


def sinusoids(positions: Tensor, width: int, halves: bool = False) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same), for any positions.

    With `halves`, all sines come first and all cosines after them, as Marian's checkpoints have it.
    """
    even = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
    angles = positions.double()[..., None] / 10_000 ** (even / width)  # .. D/2
    waves = torch.stack((angles.sin(), angles.cos()), dim=-2 if halves else -1)
    return waves.flatten(-2)[..., :width].float()


class Sinusoidal(nn.Module):
    """The paper's encoding: waves of growing length, defined for any position."""

    table: Tensor

    def __init__(self, width: int, prepared: int, halves: bool = False):
        super().__init__()
        if halves and width % 2:
            raise SettingError(f"width ({width}) must be even for half sines, half cosines")
        self.width, self.halves = width, halves
        places = torch.arange(min(prepared, 4096), device="cpu")  # real even where weights are not
        table = sinusoids(places, width, halves)
        self.register_buffer("table", table, persistent=False)

    def forward(self, positions: Tensor, reach: int) -> Tensor:
        """The encoding of each position, .. D."""
        if reach > self.table.shape[0]:
            return sinusoids(positions, self.width, self.halves).to(self.table.dtype)
        return F.embedding(positions, self.table)

    def rotation(self, positions: Tensor) -> Rotation | None:
        """Nothing is turned."""
        return None


class Learned(nn.Module):
    """One trained vector a position, and none beyond those."""

    def __init__(self, width: int, context: int):
        super().__init__()
        self.weight = random_weight(context, width, deviation=0.02)

    def forward(self, positions: Tensor, reach: int) -> Tensor:
        """The trained vector of each position, .. D."""
        if reach > self.weight.shape[0]:
            raise ShapeError(
                f"a sequence of {reach} tokens; this model learned {self.weight.shape[0]} positions: "
                "shorten the text, or train with a larger context"
            )
        return F.embedding(positions, self.weight)

    def rotation(self, positions: Tensor) -> Rotation | None:
        """Nothing is turned."""
        return None


class NoPositions(nn.Module):
    """A sentence as a bag of words."""

    def forward(self, positions: Tensor, reach: int) -> Tensor | None:
        """Nothing is added."""
        return None

    def rotation(self, positions: Tensor) -> Rotation | None:
        """Nothing is turned."""
        return None


class Rotary(nn.Module):
    """Queries and keys are turned by an angle that grows with the position (Su et al. 2021)."""

    frequencies: Tensor

    def __init__(self, key_width: int, theta: float = 10_000.0, scaling: RotaryScaling | None = None):
        super().__init__()
        self.register_buffer("frequencies", rotary_frequencies(key_width, theta, scaling), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        """Move with the model, in float32 at least: bfloat16 has no whole numbers of its own above 256."""
        exact = self.frequencies
        super()._apply(fn, recurse)
        moved = self.frequencies
        self.frequencies = exact.to(moved.device, torch.promote_types(moved.dtype, torch.float32))
        return self

    def forward(self, positions: Tensor, reach: int) -> Tensor | None:
        """Nothing is added."""
        return None

    def rotation(self, positions: Tensor) -> Rotation | None:
        """The turn of each position; the same for every head."""
        angles = positions[..., None] * self.frequencies  # Q E/2 or B Q E/2
        angles = angles[:, None] if angles.dim() == 3 else angles  # B 1 Q E/2
        return Rotation(angles.cos(), angles.sin())


def rotary_frequencies(width: int, theta: float, scaling: RotaryScaling | None = None) -> Tensor:
    """The angle a position adds to each pair, E/2 of them, from fast to slow."""
    frequencies = theta ** -(torch.arange(0, width, 2, dtype=torch.float32, device="cpu") / width)
    if scaling is None:
        return frequencies
    slow = frequencies / scaling.factor
    if scaling.kind == "linear":
        return slow
    turns = scaling.original_context * frequencies / (2 * math.pi)
    fast = ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0, 1)
    return fast * frequencies + (1 - fast) * slow


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
