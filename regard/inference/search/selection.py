"""Beam selection: the best continuations of every beam, and the tree of everything that was considered."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.engine.stepper import Choices
from regard.inference.search.constraints import length_penalty


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

    def as_dict(self) -> list[dict[str, Any]]:
        """The nodes as dictionaries that JSON can hold."""
        return [asdict(node) for node in self.nodes]

    def _add(self, parent: Node, token: int, chance: float, fate: str) -> int:
        number, step, score = len(self.nodes), parent.step + 1, parent.score + chance
        rank_score = score / length_penalty(step, self._alpha)
        self.nodes.append(Node(number, parent.number, token, step, chance, score, rank_score, fate))
        return number


@dataclass(frozen=True)
class Continuations:
    """What may follow each row, R K, likeliest first, lower ids first among equals."""

    ids: np.ndarray
    log_probabilities: np.ndarray

    def of(self, rows: np.ndarray, count: int) -> Continuations:
        """The best few of some rows."""
        return Continuations(self.ids[rows, :count], self.log_probabilities[rows, :count])


@dataclass(frozen=True)
class Places:
    """Where each row stands: in which request, and as which of its rows."""

    group: np.ndarray  # R
    first: np.ndarray  # G, the row with which a request begins
    width: int  # how many rows the widest request has

    def spread(self, values: np.ndarray, missing: float) -> np.ndarray:
        """R K to G C, in the order of rows; places without a row are filled."""
        wide = np.full((len(self.first), self.width, values.shape[1]), missing, dtype=values.dtype)
        wide[self.group, np.arange(len(self.group)) - self.first[self.group]] = values
        return wide.reshape(len(self.first), -1)

    def gather(self, mask: np.ndarray, count: int) -> Picked:
        """The continuations that a mask of G C picks, in the order of rows."""
        group, place = np.nonzero(mask)
        return Picked(group, place, self.first[group] + place // count, place % count)


@dataclass(frozen=True)
class Picked:
    """Some continuations: their request, their place in it, the row they follow and their column there."""

    group: np.ndarray
    place: np.ndarray
    parent: np.ndarray
    column: np.ndarray

    @property
    def where(self) -> tuple[np.ndarray, np.ndarray]:
        """Where they stand in an array of R K."""
        return self.parent, self.column


@dataclass(frozen=True)
class Selection:
    """G C: which continuations live and which finish."""

    lives: np.ndarray
    finishes: np.ndarray


def continuations(choices: Choices) -> Continuations:
    """The best few of a stepper, equals in the order of their ids."""
    ids, chances = choices.ids, choices.log_probabilities
    assert ids is not None
    if (chances[:, 1:] == chances[:, :-1]).any():
        order = np.lexsort((ids, -chances))
        ids, chances = np.take_along_axis(ids, order, 1), np.take_along_axis(chances, order, 1)
    return Continuations(ids, chances)


def places_of(group: np.ndarray, groups: int) -> Places:
    """Where rows stand that are sorted by their request."""
    first = np.searchsorted(group, np.arange(groups))
    return Places(group, first, int(np.bincount(group, minlength=groups).max()))


def select_beams(scores: np.ndarray, enders: np.ndarray, beams: np.ndarray) -> Selection:
    """Who lives and who finishes, of G C scores; `enders` would finish, each request has so many beams.

    An ender finishes if it stands among the best `beams` continuations of its request; the best `beams`
    of the others live. Of equals the earlier row comes first, and in a row the lower id.
    """
    order = np.argsort(-scores, axis=1, kind="stable") + np.arange(len(scores))[:, None] * scores.shape[1]
    ends, possible = enders.ravel()[order], scores.ravel()[order] > -np.inf
    goes = possible & ~ends
    lives, finishes = np.empty_like(enders), np.empty_like(enders)
    lives.ravel()[order] = goes & (np.cumsum(goes, axis=1) <= beams[:, None])
    finishes.ravel()[order] = possible & ends & (np.arange(scores.shape[1]) < beams[:, None])
    return Selection(lives, finishes)
