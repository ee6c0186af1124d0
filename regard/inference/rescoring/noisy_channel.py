"""Noisy-channel reranking: order the hypotheses of a beam also by the probability of the source given each.

A translation that leaves out a word may be likely, but its source is unlikely given it. A model trained in
both directions scores both (Yee, Dauphin and Auli 2019, here without a language model). For a translation y
of x, a weight w and the length penalty of section 6.1:

    rank score = log p(y | x) / penalty(y)  +  w log p(x | y) / penalty(x)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import SettingError
from regard.inference.search.beam import BeamSettings
from regard.inference.search.constraints import length_penalty
from regard.inference.translation import Source, Translation
from regard.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from regard.inference.translator import Translator
    from regard.model.parts import Part

MAX_WEIGHT = 100


def check_channel_weight(weight: float, tokenizers: Tokenizers) -> None:
    """Raise if the weight is out of range or the two languages do not share a vocabulary."""
    if not 0 <= weight <= MAX_WEIGHT:  # also refuses NaN
        raise SettingError(f"channel_weight ({weight}) must lie between 0 and {MAX_WEIGHT}; 0 turns it off")
    if weight and not tokenizers.are_joint:
        raise SettingError(
            f"channel_weight ({weight}) needs one vocabulary for both languages, and this model has one for "
            "each; leave it out"
        )


@dataclass(frozen=True)
class NoisyChannel:
    """A Rescorer that adds the weighted log-probability of the source to each rank score."""

    translator: Translator
    weight: float
    ablate: Part | Iterable[Part] = ()

    def __post_init__(self):
        check_channel_weight(self.weight, self.translator.tokenizers)

    def __call__(
        self, sources: Sequence[Source], n_best: Sequence[Sequence[Translation]], settings: BeamSettings
    ) -> list[list[Translation]]:
        """Sort the hypotheses of each source by both directions."""
        flat = [
            (source, hypothesis)
            for source, hypotheses in zip(sources, n_best, strict=True)
            for hypothesis in hypotheses
        ]
        rescored = iter(self._rescored(flat, settings.length_penalty))
        return [
            sorted((next(rescored) for _ in hypotheses), key=lambda hypothesis: -hypothesis.rank_score)
            for hypotheses in n_best
        ]

    def _rescored(self, flat: Sequence[tuple[Source, Translation]], alpha: float) -> list[Translation]:
        """Each hypothesis with its channel score, and with the rank score of both directions."""
        from regard.inference.scoring import forced

        start, end = self.translator.tokenizers.target.start, self.translator.tokenizers.source.end
        reads = [[*_without_end(hypothesis, end), end] for _, hypothesis in flat]
        writes = [source.ids for source, _ in flat]
        inputs = [[start, *ids[:-1]] for ids in writes]
        rows = forced(self.translator.model, inputs, writes, reads, self.ablate)
        rescored = []
        for (source, hypothesis), row in zip(flat, rows, strict=True):
            channel = float(np.cumsum(row, dtype=np.float64)[-1])
            share = self.weight / length_penalty(len(source.ids), alpha)
            rank_score = hypothesis.rank_score + float(share * channel)
            rescored.append(replace(hypothesis, channel_score=channel, rank_score=rank_score))
        return rescored


def _without_end(hypothesis: Translation, end: int) -> list[int]:
    """The ids of a hypothesis without its end token, which one of the maximum length does not have."""
    ids = hypothesis.tokens.ids.tolist()
    return ids[:-1] if ids and ids[-1] == end else ids
