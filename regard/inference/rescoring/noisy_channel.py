"""The way back: hypotheses are ranked also by how well the model says the source again from each of them.

A translation that leaves out a word may well be likely, but its source is not likely given it. A model that
was trained both ways knows both (a noisy channel: Yee, Dauphin and Auli 2019). For a translation y of x, a
weight w and the length penalty of section 6.1:

    rank score = log p(y | x) / penalty(y)  +  w log p(x | y) / penalty(x)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import SettingError
from regard.inference.search.constraints import length_penalty
from regard.inference.translation import Source, Translation
from regard.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from regard.model.transformer import EncoderDecoder
    from regard.model.watch import Part


HEAVIEST = 100


def check_backwards(weight: float, beams: int, tokenizers: Tokenizers) -> None:
    """Refuse a weight of the way back that nothing could be ranked by; 0 asks for nothing."""
    if weight == 0:
        return
    if not 0 < weight <= HEAVIEST:  # not a number is refused too
        raise SettingError(
            f"backwards ({weight}) must lie between 0 and {HEAVIEST}; 0 leaves the way back out"
        )
    if beams == 1:
        raise SettingError(f"backwards ({weight}) has nothing to choose from with one beam; widen it")
    if not tokenizers.are_joint:
        raise SettingError(
            f"backwards ({weight}) needs one vocabulary for both languages, and this model has one for each; "
            "leave it out"
        )


@dataclass(frozen=True)
class Backwards:
    """How much the way back weighs, and who judges it."""

    weight: float
    model: EncoderDecoder
    tokenizers: Tokenizers
    length_penalty: float
    ablate: Sequence[Part] = ()

    def ranked(
        self, sources: Sequence[Source], found: Sequence[Translation], n_best: int
    ) -> list[Translation]:
        """The same translations, each the best of its hypotheses by both ways, with as many as are wanted."""
        pairs = list(zip(sources, found, strict=True))
        hypotheses = [(one, source) for source, best in pairs for one in (best, *best.others)]
        judged = iter(self._judged(hypotheses))
        ranked = []
        for _, first in pairs:
            mine = [next(judged) for _ in range(1 + len(first.others))]
            best, *others = sorted(mine, key=lambda one: -one.rank_score)[:n_best]
            ranked.append(replace(best, others=tuple(others), tree=first.tree))
        return ranked

    def _judged(self, hypotheses: Sequence[tuple[Translation, Source]]) -> list[Translation]:
        """Each hypothesis with the log-probability of its source, and the rank score of both."""
        from regard.inference.scoring import forced

        start, end = self.tokenizers.target.start, self.tokenizers.source.end
        read = [[*_content(one, end), end] for one, _ in hypotheses]
        said = [source.ids for _, source in hypotheses]
        chances = forced(self.model, [[start, *ids[:-1]] for ids in said], said, read, self.ablate)
        judged = []
        for (one, source), row in zip(hypotheses, chances, strict=True):
            back = float(np.cumsum(row, dtype=np.float64)[-1])
            share = self.weight / length_penalty(len(source.ids), self.length_penalty)
            rank = one.rank_score + float(share * back)
            judged.append(replace(one, back_score=back, rank_score=rank, others=(), tree=None))
        return judged


def _content(one: Translation, end: int) -> list[int]:
    """The ids of a translation without its end, which one cut short does not have."""
    ids = one.tokens.ids.tolist()
    return ids[:-1] if ids and ids[-1] == end else ids
