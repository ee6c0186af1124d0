"""One id for each row: the likeliest, or one drawn from what temperature, top-k, top-p and min-p leave.

R rows, K candidates a row (V where all are looked at), always in the order of their ids, so that a row
comes to the same id whether its neighbours need the whole distribution or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.inference.rows import Written, taken
from regard.stepping import Choices

COLD = 1e-4  # at a lower temperature the likeliest id is all that is left


@dataclass(frozen=True)
class Taste:
    """How each row chooses, as columns."""

    cold: np.ndarray  # R, True where the likeliest id is taken
    picky: np.ndarray  # R, True where top-k or top-p leave out something
    temperature: np.ndarray  # R
    top_k: np.ndarray  # R
    top_p: np.ndarray  # R
    min_p: np.ndarray  # R
    penalty: np.ndarray  # R
    luck: np.ndarray  # R T, a number between 0 and 1 for each id to come, the first one last
    enough: np.ndarray  # R, how many of the likeliest ids the row has to see


@dataclass(frozen=True)
class Chosen:
    """An id for each row and what the unrestricted model thinks of it."""

    ids: np.ndarray
    log_probabilities: np.ndarray


def choose(choices: Choices, taste: Taste, written: Written) -> Chosen:
    """An id for each row; minus infinity is the log-probability of one that has nothing to choose from."""
    ids, chances = in_order_of_ids(choices)
    wanted = penalised(chances, choices.logits, taste.penalty, written)
    column = wanted.argmax(1)
    warm = np.flatnonzero(~taste.cold)
    if len(warm):
        everybody = len(warm) == len(column)
        some = taste if everybody else taken(taste, warm)
        luck = some.luck[np.arange(len(warm)), -1 - written.generated[warm]]
        column[warm] = draw(wanted if everybody else wanted[warm], some, luck)
    rows = np.arange(len(column))
    return Chosen(column if ids is None else ids[rows, column], chances[rows, column])


def in_order_of_ids(choices: Choices) -> tuple[np.ndarray | None, np.ndarray]:
    """Ids and log-probabilities, R K each; without ids, column i is id i."""
    if choices.ids is None or choices.ids.shape[1] == 1:
        return choices.ids, choices.log_probabilities
    order = choices.ids.argsort(1)
    return np.take_along_axis(choices.ids, order, 1), np.take_along_axis(choices.log_probabilities, order, 1)


def penalised(
    chances: np.ndarray, logits: np.ndarray | None, penalty: np.ndarray, written: Written
) -> np.ndarray:
    """R V: what each row chooses by. Rows without a penalty choose by their log-probabilities.

    The others choose by logits (Keskar et al. 2019): of an id that the row holds already, in its prefix too,
    a logit above 0 is divided by the penalty and one below 0 multiplied. What is banned stays so. Where there
    are no logits, log-probabilities take their place.
    """
    rows = np.flatnonzero(penalty != 1)
    if not len(rows):
        return chances
    wanted = chances.copy()
    if logits is not None:
        wanted[rows] = np.where(np.isneginf(chances[rows]), -np.inf, logits[rows])
    row, place = np.nonzero(written.ids[rows] >= 0)
    row = rows[row]
    ids, factor = written.ids[row, place], penalty[row].astype(chances.dtype)
    held = wanted[row, ids]
    wanted[row, ids] = np.where(held < 0, held * factor, held / factor)
    return wanted


def draw(wanted: np.ndarray, taste: Taste, luck: np.ndarray) -> np.ndarray:
    """A column for each row: the first at which the heaped-up weights pass luck's share of them all."""
    heap = Heap(weights(wanted, taste))
    return heap.passing(luck * heap.total)


def weights(wanted: np.ndarray, taste: Taste) -> np.ndarray:
    """R K: what each candidate weighs in the draw, the likeliest 1, those that are out 0."""
    peak = wanted.max(1, keepdims=True)
    peak = np.where(np.isneginf(peak), 0, peak)
    with np.errstate(over="ignore"):
        cooled = (wanted - peak) / taste.temperature[:, None].astype(wanted.dtype)
    weight = np.exp(cooled)
    if taste.min_p.any():
        weight[weight < taste.min_p[:, None].astype(weight.dtype)] = 0
    if taste.picky.any():
        picky = slice(None) if taste.picky.all() else np.flatnonzero(taste.picky)
        weight[picky] *= survivors(cooled[picky], taste.top_k[picky], taste.top_p[picky])
    return weight


def survivors(cooled: np.ndarray, top_k: np.ndarray, top_p: np.ndarray) -> np.ndarray:
    """R K: which candidates remain: the top k, and of these the fewest that weigh top-p of them."""
    most = np.minimum(top_k, cooled.shape[1])
    falling = -np.sort(-cooled, axis=1)[:, : most.max()]
    heap = Heap(np.exp(falling) * (np.arange(falling.shape[1]) < most[:, None]))
    counts = np.minimum(most, 1 + heap.passing(np.nextafter(top_p * heap.total, 0)))
    return _down_to(falling[np.arange(len(falling)), counts - 1], cooled, counts)


class Heap:
    """The running sums of R K weights in double precision, by blocks and then inside the one that matters."""

    _block = 128

    def __init__(self, weight: np.ndarray):
        self._weight = weight
        starts = np.arange(0, weight.shape[1], self._block)
        sums = np.add.reduceat(weight, starts, axis=1, dtype=np.float64)
        self._before = np.zeros((len(weight), len(starts) + 1))  # what lies before each block, and in all
        np.cumsum(sums, axis=1, out=self._before[:, 1:])

    @property
    def total(self) -> np.ndarray:
        """R: what all weigh."""
        return self._before[:, -1]

    def passing(self, aim: np.ndarray) -> np.ndarray:
        """R: the first column at which the running sum is above the aim, or that reaches the total."""
        row = np.arange(len(aim))
        block = (self._before[:, 1:] > _below(aim, self.total)[:, None]).argmax(1)
        column = block[:, None] * self._block + np.arange(self._block)
        inside = column < self._weight.shape[1]
        weight = np.where(inside, self._weight[row[:, None], np.where(inside, column, 0)], 0)
        sums = self._before[row, block][:, None] + np.cumsum(weight, axis=1, dtype=np.float64)
        return column[row, (sums > _below(aim, sums[:, -1])[:, None]).argmax(1)]


def _below(aim: np.ndarray, top: np.ndarray) -> np.ndarray:
    """The aim, kept from reaching the top by rounding."""
    return np.minimum(aim, np.nextafter(top, 0))


def _down_to(border: np.ndarray, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """R K: so many values from the largest down to the border; of those on it the ones with lower ids."""
    keep = values >= border[:, None]
    crowded = np.flatnonzero(np.count_nonzero(keep, axis=1) > counts)
    if len(crowded):
        above, level = values[crowded] > border[crowded, None], values[crowded] == border[crowded, None]
        left = counts[crowded, None] - above.sum(1, keepdims=True)
        keep[crowded] = above | (level & (np.cumsum(level, axis=1) <= left))
    return keep
