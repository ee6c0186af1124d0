"""Recall: how much what is remembered counts, chosen by what other text becomes likeliest with it.

R rows, K neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.settings import Settings

WEIGHTS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
TEMPERATURES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
NEIGHBOURS = (4, 8, 16, 32, 64)


class Recall(Settings):
    """How much what is remembered counts, and how sharply near is told from far."""

    weight: Annotated[float, Field(ge=0, le=0.99)] = 0.3  # its share of every probability
    neighbours: Annotated[int, Field(ge=1, le=4096)] = 16  # keys that have a say
    temperature: Annotated[float, Field(gt=0, le=1000)] = 0.15  # low: the nearest alone; high: all alike


@dataclass(frozen=True)
class Nearest:
    """The keys nearest to each row, the nearest first; R K each."""

    distances: Tensor  # squared, in units
    places: Tensor  # which keys
    counts: Tensor  # how many remembered tokens each of them stands for


def shares(distances: Tensor, counts: Tensor, temperature: float) -> Tensor:
    """What keys so far away, each met so many times, weigh, R K."""
    return (counts.log() - distances / temperature).softmax(-1)


@dataclass(frozen=True)
class Evidence:
    """For tokens of known text, what the model gave each and how much of each neighbour is the same token."""

    most: ClassVar[int] = max(NEIGHBOURS)

    chances: Tensor  # R, probabilities
    distances: Tensor  # R K
    counts: Tensor  # R K
    right: Tensor  # R K, the share of a neighbour's tokens

    @classmethod
    def of(cls, near: Nearest, right: Tensor, log_probabilities: np.ndarray) -> Evidence:
        """Evidence from neighbours, the share of each that did follow, and what the model thought of that."""
        chances = torch.from_numpy(log_probabilities.astype(np.float64)).exp()
        return cls(chances, *(x.cpu().double() for x in (near.distances, near.counts, right)))

    def remembered(self, neighbours: int, temperature: float) -> Tensor:
        """The probability that the neighbours alone give each token, R."""
        near = slice(neighbours)
        weights = shares(self.distances[:, near], self.counts[:, near], temperature)
        return (weights * self.right[:, near]).sum(1)


def choose(evidence: Sequence[Evidence]) -> Recall:
    """The recall under which the tokens are likeliest; weight 0 where none is better than the model alone."""
    chances = torch.cat([each.chances for each in evidence])
    best, chosen = float(chances.log().mean()), Recall(weight=0.0)
    for neighbours, temperature in product(NEIGHBOURS, TEMPERATURES):
        found = torch.cat([each.remembered(neighbours, temperature) for each in evidence])
        for weight in WEIGHTS:
            likely = float(torch.lerp(chances, found, weight).log().mean())
            if likely > best:
                best, chosen = likely, Recall(weight=weight, neighbours=neighbours, temperature=temperature)
    return chosen
