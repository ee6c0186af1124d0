"""Alignment: which source tokens a translation's tokens came from, read off the cross-attention.

L layers, H heads, T target tokens, S source tokens, the end among them on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.errors import SettingError


@dataclass(frozen=True, eq=False)
class Alignment:
    """How each target token's step looked at the source, in every layer and head of one forced pass.

    The head that aligns best is the one whose attention tells most about which target token is asking:
    the mutual information, in nats, of a target token drawn evenly and the source token it looks at. A
    head that looks everywhere, or always at one place, tells nothing.
    """

    source: tuple[str, ...]  # the text of each source token; the end has none
    target: tuple[str, ...]
    weights: np.ndarray  # L H T S
    ended: bool = True  # whether the last target token is the end

    @cached_property
    def information(self) -> np.ndarray:
        """L H: how much each head tells, in nats."""
        return entropy(self.weights.mean(axis=2)) - entropy(self.weights).mean(axis=2)

    @property
    def layer(self) -> int:
        """The layer of the head that aligns best."""
        return int(self.information.argmax()) // self.weights.shape[1]

    @property
    def head(self) -> int:
        """The head that aligns best, in its layer."""
        return int(self.information.argmax()) % self.weights.shape[1]

    @property
    def matrix(self) -> np.ndarray:
        """T S: the weights of the head that aligns best."""
        return self.weights[self.layer, self.head]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each target token with the source token it came from, by the head that aligns best."""
        return self.pairs_of(self.layer, self.head)

    def pairs_of(self, layer: int, head: int) -> list[tuple[int, int]]:
        """(target, source) of every token but the ends: where its step looked most."""
        layers, heads = self.weights.shape[:2]
        if not (0 <= layer < layers and 0 <= head < heads):
            raise SettingError(
                f"layer {layer}, head {head}: there are {layers} layers of {heads} heads, counted from 0"
            )
        words = self.weights[layer, head, : len(self.target) - self.ended, :-1]
        return list(enumerate(words.argmax(axis=1).tolist()))

    def as_dict(self) -> dict[str, Any]:
        """The head that aligns best and its pairs, in values that JSON can hold."""
        return {
            "layer": self.layer,
            "head": self.head,
            "pairs": self.pairs,
            "source": list(self.source),
            "target": list(self.target),
        }


def entropy(weights: np.ndarray) -> np.ndarray:
    """- sum of p log p over the last axis, in nats."""
    return -(weights * np.log(np.maximum(weights, 1e-30))).sum(axis=-1)
