"""The encoder head that leads from a word to its referent: from "it" to its noun, from "she" to the name.

The head is chosen on some pairs of sentences and judged on others; none of them occurs in training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.demo.corpus import Corpus
from regard.demo.story.contrasts import Contrast, Reference, contrasts
from regard.inference.translator import Translator
from regard.inspection.inspection import inspect

# The words whose referents are measured, and the share of sentences from which a head is said to find them.
MEASURED, CLEAR = ("it", "she", "bank"), 0.75
# Pairs of sentences on which the head is chosen, and number of others on which it is judged.
PAIRS = 30


@dataclass(frozen=True)
class Resolution:
    """How often one encoder head attends most to the referent of a word.

    A sentence is right if the referent has the largest weight of the row. `first` counts the right first
    sentences of the pairs ("it was tired"), `second` the second ones ("it was wide"), and `flips` the pairs
    in which both are right. `weight` is the mean weight of the referent.
    """

    word: str
    layer: int
    head: int
    pairs: int
    first: int
    second: int
    flips: int
    weight: float

    @property
    def sentences(self) -> int:
        """The number of sentences."""
        return 2 * self.pairs

    @property
    def right(self) -> int:
        """The number of right sentences."""
        return self.first + self.second

    @property
    def is_clear(self) -> bool:
        """Whether the head finds the referent in most sentences."""
        return self.right >= CLEAR * self.sentences


class Row(NamedTuple):
    """The attention row of a word in every head, layers x heads x keys, and the position of its referent."""

    weights: np.ndarray
    referent: int


def resolve(translator: Translator, corpus: Corpus, word: str, pairs: int = PAIRS) -> Resolution:
    """Choose the head for a word on `pairs` pairs of sentences, and judge it on as many others."""
    rows = [_rows(translator, contrast) for contrast in contrasts(corpus, word, 2 * pairs)]
    return judge_head(word, *choose_head(rows[:pairs]), rows[pairs:])


@dataclass(frozen=True)
class Switch:
    """A head that attends most to one noun of a pair where "it" is that noun, and less often where it is not.

    `noun` is "first" or "second". `chosen` counts the sentences in which "it" is that noun and attends most
    to it, and `otherwise` those in which it attends most to it although it is the other noun.
    """

    layer: int
    head: int
    noun: str
    pairs: int
    chosen: int
    otherwise: int

    @property
    def is_clear(self) -> bool:
        """Whether the head tells most of the sentences apart."""
        return self.chosen - self.otherwise >= CLEAR * self.pairs


def find_switch(translator: Translator, corpus: Corpus, pairs: int = PAIRS) -> Switch:
    """Choose the head of "it" that switches most on `pairs` pairs of sentences, and judge it on others."""
    rows = [_rows(translator, contrast) for contrast in contrasts(corpus, "it", 2 * pairs)]
    return judge_switch(*choose_switch(rows[:pairs]), rows[pairs:])


def choose_switch(pairs: Sequence[Sequence[Row]]) -> tuple[int, int, int]:
    """The layer and head that switch most, and the number of the noun to which they switch."""
    counts = np.stack([np.subtract(*_attended(pairs, noun)) for noun in (0, 1)], axis=-1)
    layer, head, noun = np.unravel_index(int(counts.argmax()), counts.shape)
    return int(layer), int(head), int(noun)


def judge_switch(layer: int, head: int, noun: int, pairs: Sequence[Sequence[Row]]) -> Switch:
    """Count the sentences in which one head attends most to a noun."""
    chosen, otherwise = (int(counts[layer, head]) for counts in _attended(pairs, noun))
    return Switch(layer, head, ("first", "second")[noun], len(pairs), chosen, otherwise)


def _attended(pairs: Sequence[Sequence[Row]], noun: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each head attends most to a noun, where "it" is that noun and where it is the other one.

    Both sentences of a pair begin alike, so the noun has one position in both.
    """
    largest = [[row.weights.argmax(-1) == pair[noun].referent for row in pair] for pair in pairs]
    by_sentence = np.sum(largest, axis=0)
    return by_sentence[noun], by_sentence[1 - noun]


def resolutions(facts: Mapping[str, Any]) -> list[Resolution]:
    """The stored measurements of a model."""
    return [Resolution(**values) for values in facts["referents"]]


def choose_head(pairs: Sequence[Sequence[Row]]) -> tuple[int, int]:
    """The layer and head with the most right rows; of equal ones, that with the largest weight."""
    rows = [row for pair in pairs for row in pair]
    right = np.sum([row.weights.argmax(-1) == row.referent for row in rows], axis=0)
    weight = np.mean([row.weights[..., row.referent] for row in rows], axis=0)  # below 1, so it breaks ties
    layer, head = np.unravel_index(int((right + weight).argmax()), right.shape)
    return int(layer), int(head)


def judge_head(word: str, layer: int, head: int, pairs: Sequence[Sequence[Row]]) -> Resolution:
    """Count the rows of one head that are largest at the referent."""
    is_right = np.array(
        [[row.weights[layer, head].argmax() == row.referent for row in pair] for pair in pairs]
    )
    weight = float(np.mean([row.weights[layer, head, row.referent] for pair in pairs for row in pair]))
    first, second = map(int, is_right.sum(0))
    return Resolution(word, layer, head, len(pairs), first, second, int(is_right.all(1).sum()), weight)


def _rows(translator: Translator, contrast: Contrast) -> list[Row]:
    return [_row(translator, reference) for reference in contrast]


def _row(translator: Translator, reference: Reference) -> Row:
    seen = inspect(translator, reference.text, "")
    side = seen.side("source")
    (query, *_), (referent, *_) = side.find(reference.word), side.find(reference.referent)
    layers = range(seen.layers("encoder"))
    return Row(np.stack([seen.attention("encoder", layer)[:, query] for layer in layers]), referent)
