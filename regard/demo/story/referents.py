"""The encoder head that leads from a word to its referent: from "it" to its noun, from "she" to the name.

The head is chosen on some pairs of sentences and judged on others; none of them occurs in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.demo.corpus import Corpus
from regard.demo.story.contrasts import Contrast, Reference, contrasts
from regard.inference.translator import Translator
from regard.inspection.inspection import inspect

# Pairs of sentences on which the head is chosen, and number of others on which it is judged.
PAIRS = 30


@dataclass(frozen=True)
class Resolution:
    """How often one encoder head attends most to the referent of a word.

    `right` counts the sentences in which the referent has the largest weight of the row, and `flips` the
    pairs in which both sentences are right. `weight` is the mean weight of the referent.
    """

    word: str
    layer: int
    head: int
    sentences: int
    right: int
    pairs: int
    flips: int
    weight: float

    @property
    def share(self) -> float:
        """The share of sentences in which the referent has the largest weight."""
        return self.right / self.sentences

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


class Row(NamedTuple):
    """The attention row of a word in every head, layers x heads x keys, and the position of its referent."""

    weights: np.ndarray
    referent: int


def resolve(translator: Translator, corpus: Corpus, word: str, pairs: int = PAIRS) -> Resolution:
    """Choose the head for a word on `pairs` pairs of sentences, and judge it on as many others."""
    rows = [_rows(translator, contrast) for contrast in contrasts(corpus, word, 2 * pairs)]
    return judge_head(word, *choose_head(rows[:pairs]), rows[pairs:])


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
    right, flips = int(is_right.sum()), int(is_right.all(1).sum())
    return Resolution(word, layer, head, is_right.size, right, len(pairs), flips, weight)


def _rows(translator: Translator, contrast: Contrast) -> list[Row]:
    return [_row(translator, reference) for reference in contrast]


def _row(translator: Translator, reference: Reference) -> Row:
    seen = inspect(translator, reference.text, "")
    side = seen.side("source")
    (query, *_), (referent, *_) = side.find(reference.word), side.find(reference.referent)
    layers = range(seen.layers("encoder"))
    return Row(np.stack([seen.attention("encoder", layer)[:, query] for layer in layers]), referent)
