"""A model made of nothing: what follows a sequence is drawn from the sequence itself."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from regard.engine.stepper import Banned, Choices


class FakeStepper:
    """A Stepper in plain Python whose distribution depends on all that a row holds, and on its source.

    `table` says outright what follows some sequences: probabilities, an id each.
    """

    def __init__(self, vocabulary=6, seed=0, limit=None, sharpness=1.5, table=None):
        self.vocabulary, self.limit = vocabulary, limit
        self.seed, self.sharpness, self.table = seed, sharpness, table or {}
        self.held: list[tuple[int, ...]] = []
        self.sources: list[tuple[int, ...]] = []
        self.asked, self.reorders, self.steps = [], 0, 0

    @property
    def rows(self):
        return len(self.held)

    def admit(self, prefixes, sources=None):
        self.held += [tuple(prefix[:-1].tolist()) for prefix in prefixes]
        self.sources += [() if sources is None else tuple(sources[i].tolist()) for i in range(len(prefixes))]

    def step(self, ids, best=None, banned: Banned | None = None):
        assert len(ids) == self.rows > 0
        self.asked.append(best)
        self.steps += self.rows
        self.held = [(*row, int(number)) for row, number in zip(self.held, ids, strict=True)]
        chances = np.stack(
            [self.follows(row, source) for row, source in zip(self.held, self.sources, strict=True)]
        )
        if banned is not None:
            chances[banned.rows, banned.ids] = -np.inf
        if best is None:
            return Choices(None, chances)
        order = np.argsort(-chances, axis=1, kind="stable")[:, :best]
        return Choices(order, np.take_along_axis(chances, order, 1))

    def reorder(self, rows):
        self.reorders += 1
        self.held = [self.held[row] for row in rows]
        self.sources = [self.sources[row] for row in rows]

    def drop(self, rows):
        self.reorder(np.delete(np.arange(self.rows), rows))

    def follows(self, held, source=()):
        """Log-probabilities of every id after a sequence."""
        held = tuple(map(int, held))
        if held in self.table:
            with np.errstate(divide="ignore"):
                return np.log(np.array(self.table[held])).astype(np.float32)
        random = np.random.default_rng(zlib.crc32(repr((self.seed, source, held)).encode()))
        logits = self.sharpness * random.standard_normal(self.vocabulary)
        return (logits - np.log(np.exp(logits).sum())).astype(np.float32)

    def forced(self, prefix, ids, source=()):
        """The log-probability of each id after the prefix and the ids before it."""
        held, found = tuple(prefix), []
        for number in ids:
            found.append(float(self.follows(held, source)[number]))
            held = (*held, int(number))
        return found


@pytest.fixture(scope="session")
def fake():
    """The class, as a fixture, since tests import nothing from one another."""
    return FakeStepper
