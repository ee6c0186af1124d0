"""What a lecture expects of the raw scores of "it": its noun highest, itself moderate, the others lower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.demo.story.links import Scene
from regard.model.watch import attention_path


@dataclass(frozen=True)
class Expected:
    """In how many cases, the encoder's heads times the sentences, the expectation holds."""

    cases: int
    noun_highest: int
    whole: int  # and "it" itself next
    by_chance: float  # how often the noun would be highest if the order were drawn


def expected_order(scenes: Sequence[Scene]) -> Expected:
    """Count, over every head of the encoder and every scene, where the raw scores stand as expected."""
    found = [(_scores(each), each) for each in scenes]
    noun, itself = np.concatenate([_places(scores, each) for scores, each in found]).T
    highest = noun == 0
    chances = sum(len(scores) / scores.shape[1] for scores, _ in found)
    return Expected(len(noun), int(highest.sum()), int((highest & (itself == 1)).sum()), chances)


def _scores(told: Scene) -> np.ndarray:
    """The raw scores of "it" with every word, heads of all layers x words."""
    query, layers = told.query("encoder"), range(told.seen.layers("encoder"))
    scores = [told.seen[f"{attention_path('encoder', layer)}.scores"][:, query] for layer in layers]
    return np.concatenate(scores)[:, _words(told)]


def _places(scores: np.ndarray, told: Scene) -> np.ndarray:
    """The places of the noun and of "it" itself by score, heads x 2, the highest 0."""
    words, source = _words(told), told.seen.side("source")
    at = [words.index(source.find(word)[0]) for word in (told.linked.noun, "it")]
    return np.stack([(scores > scores[:, [place]]).sum(-1) for place in at], axis=-1)


def _words(told: Scene) -> list[int]:
    return [place for place, token in enumerate(told.seen.tokens("source")) if token.special is None]
