"""Tasks with known answers for small models: batches of ids, drawn from a random generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.lessons.experiment import labelled_batch
from regard.text.collate import LabelledBatch, ParallelBatch


@dataclass(frozen=True)
class LookUp:
    """Find the value of a key among pairs: a soft dictionary.

    A row is a query followed by pairs. Each pair is one token that has a key and a value; the keys of a row
    differ. The label is the value of the pair whose key is the query's. With `flips`, the query also has a
    number below `flips`, and the label is the exclusive or of the bits of this number and of the value.
    """

    keys: int = 16
    values: int = 8
    pairs: int = 8
    rows: int = 64
    flips: int = 1

    @property
    def vocabulary(self) -> int:
        """Every pair of a key and a value, and every key with a number as a query."""
        return self.keys * self.values + self.keys * self.flips

    @property
    def classes(self) -> int:
        """One for each value."""
        return self.values

    def draw(self, random: np.random.Generator) -> LabelledBatch:
        """A batch of rows."""
        keys = random.permuted(np.tile(np.arange(self.keys), (self.rows, 1)), axis=1)[:, : self.pairs]
        values = random.integers(self.values, size=keys.shape)
        chosen, every = random.integers(self.pairs, size=self.rows), np.arange(self.rows)
        flips = random.integers(self.flips, size=self.rows) if self.flips > 1 else 0
        queries = self.keys * self.values + keys[every, chosen] * self.flips + flips
        labels = values[every, chosen] ^ flips
        return labelled_batch(np.c_[queries, keys * self.values + values], labels)


@dataclass(frozen=True)
class Recall:
    """Which value stood at the start of a source, after `distance` tokens that do not matter.

    The values are the first ids, the other tokens the next ones; the last id starts a target.
    """

    distance: int
    values: int = 8
    others: int = 8
    rows: int = 32

    @property
    def vocabulary(self) -> int:
        """Values, other tokens and the start of a target."""
        return self.values + self.others + 1

    def draw(self, random: np.random.Generator) -> ParallelBatch:
        """A batch of sources whose targets are the values."""
        values = random.integers(self.values, size=(self.rows, 1))
        others = self.values + random.integers(self.others, size=(self.rows, self.distance))
        source, start = np.c_[values, others], np.full_like(values, self.vocabulary - 1)
        return ParallelBatch(source, np.ones_like(source, bool), start, values, np.ones_like(values, bool))


@dataclass(frozen=True)
class FirstOfTwo:
    """Which of two tokens comes first, or how often each occurs: the first needs order, the second does not.

    A row starts with id 0. Ids 1 and 2 are the two tokens, all others are filler. All rows of a batch have
    one length: `length`, or one drawn between `shortest` and `length`.
    """

    length: int = 8
    shortest: int | None = None
    rows: int = 64
    needs_order: bool = True
    vocabulary: int = 12
    classes: int = 2

    def draw(self, random: np.random.Generator) -> LabelledBatch:
        """A batch of rows; half of the labels are 1."""
        length = (
            self.length if self.shortest is None else int(random.integers(self.shortest, self.length + 1))
        )
        ids = random.integers(3, self.vocabulary, size=(self.rows, length))
        labels, every = random.integers(2, size=self.rows), np.arange(self.rows)
        places = random.permuted(np.tile(np.arange(1, length), (self.rows, 1)), axis=1)[:, :3]
        if self.needs_order:
            first, second = places[:, :2].min(1), places[:, :2].max(1)
            ids[every, first], ids[every, second] = 1 + labels, 2 - labels
        else:
            ids[every, places[:, 0]] = ids[every, places[:, 1]] = 1 + labels
            ids[every, places[:, 2]] = 2 - labels
        ids[:, 0] = 0
        return labelled_batch(ids, labels)


@dataclass(frozen=True)
class MarkovText:
    """Text in which each token is followed by one of few tokens, with known probabilities.

    `entropy` is the lowest loss that a model of the past can reach, in nats per token.
    """

    vocabulary: int = 16
    branches: int = 4
    length: int = 24
    rows: int = 32
    seed: int = 1

    @property
    def entropy(self) -> float:
        """ln of the number of equally likely next tokens."""
        return float(np.log(self.branches))

    def successors(self) -> np.ndarray:
        """The possible next tokens of each token, V x branches."""
        random = np.random.default_rng(self.seed)
        return np.stack(
            [random.permutation(self.vocabulary)[: self.branches] for _ in range(self.vocabulary)]
        )

    def draw_ids(self, random: np.random.Generator) -> np.ndarray:
        """Rows of `length` + 1 ids."""
        table, ids = self.successors(), [random.integers(self.vocabulary, size=self.rows)]
        for _ in range(self.length):
            ids.append(table[ids[-1], random.integers(self.branches, size=self.rows)])
        return np.stack(ids, 1)
