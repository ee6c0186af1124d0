"""The tree of a beam search as plain data, for a picture: every hypothesis, what became of it and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.inference.candidates import Continuations
from regard.inference.limits import length_penalty


@dataclass
class Node:
    """A hypothesis: its parent and one token more.

    `fate` is "kept" where it went on, "outranked" where better ones filled the beam, "abandoned" where the
    search was over before it, or why it finished: end, stop, length, stuck, cancelled. `place` is that
    of a finished one among the results; None where others were better.
    """

    number: int
    parent: int | None
    token: int | None  # None at the root, which is the prefix
    step: int  # how many ids it has generated
    log_probability: float  # of the token
    score: float
    rank_score: float
    fate: str = "kept"
    place: int | None = None


class Tree:
    """Every hypothesis of a request in the order in which it was met; the first is the prefix."""

    def __init__(self, alpha: float):
        self.nodes = [Node(0, None, None, 0, 0.0, 0.0, 0.0)]
        self._alpha = alpha

    def grow(self, parents: np.ndarray, may: Continuations, lives: np.ndarray) -> np.ndarray:
        """Add the continuations of R nodes; their numbers, R K, 0 for those that cannot be."""
        numbers = np.zeros(may.ids.shape, dtype=np.int64)
        for row, column in np.argwhere(may.log_probabilities > -np.inf):
            fate = "kept" if lives[row, column] else "outranked"
            token, chance = int(may.ids[row, column]), float(may.log_probabilities[row, column])
            numbers[row, column] = self._add(self.nodes[parents[row]], token, chance, fate)
        return numbers

    def as_data(self) -> list[dict[str, Any]]:
        """The nodes as dictionaries that JSON can hold."""
        return [asdict(node) for node in self.nodes]

    def _add(self, parent: Node, token: int, chance: float, fate: str) -> int:
        number, step, score = len(self.nodes), parent.step + 1, parent.score + chance
        rank_score = score / length_penalty(step, self._alpha)
        self.nodes.append(Node(number, parent.number, token, step, chance, score, rank_score, fate))
        return number
