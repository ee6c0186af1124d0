"""A word whose meaning is still open: "bank" before and after the sentence says what was crossed."""

from __future__ import annotations

from dataclasses import dataclass

from regard.inference.translator import Translator
from regard.inspection.analysis.ablation import chance
from regard.inspection.record.inspection import inspect

UNFINISHED = "I arrived at the bank after crossing the"
ENDINGS = ("…", "river", "street")
BEFORE = "Je suis arrivé à la"  # what stands before the word in each translation
SENSES = {"rive": "a river's", "banque": "with money"}


@dataclass(frozen=True)
class Meanings:
    """How likely each meaning of "bank" is, after one ending of the sentence or none."""

    ending: str
    chances: dict[str, float]


def bank_meanings(translator: Translator) -> list[Meanings]:
    """The chances of *rive* and *banque* where the French names the bank, for each ending."""
    found = []
    for ending in ENDINGS:
        text = UNFINISHED if ending == "…" else f"{UNFINISHED} {ending}"
        seen = inspect(translator, text, BEFORE)
        found.append(Meanings(ending, {word: chance(seen, word, -1) for word in SENSES}))
    return found
