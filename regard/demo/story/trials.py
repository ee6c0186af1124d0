"""Heads switched off: does the model still know what "it" is?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.demo.story.links import PRONOUNS, Finding, Scene, pronoun
from regard.inference.translator import Translator
from regard.inspection.analysis.ablation import Rivals, ablate
from regard.inspection.analysis.ranking import Ranked

# Where the heads shown are not missed, the next best go off too, up to so many.
MOST_OFF = 6


@dataclass(frozen=True)
class Without:
    """What becomes of one sentence with some heads off."""

    text: str
    before: str
    after: str
    rivals: Rivals | None = None

    @property
    def flips(self) -> bool:
        """Whether il has become elle, or the reverse."""
        return "" != pronoun(self.before) != pronoun(self.after) != ""


@dataclass(frozen=True)
class Trial:
    """Every sentence with the same heads off; the two that are told come first, with their chances."""

    heads: tuple[Ranked, ...]
    sentences: tuple[Without, ...]

    @property
    def told(self) -> tuple[Without, ...]:
        """The two sentences of the story."""
        return self.sentences[:2]

    @property
    def flipped(self) -> int:
        """In how many sentences the pronoun flips."""
        return sum(each.flips for each in self.sentences)


@dataclass(frozen=True)
class Trials:
    """What a finding is worth: its heads off; more of the best, until a sentence told flips.

    `control` is of as many heads as were off in the end, which look least at what matters.
    """

    shown: Trial
    more: Trial | None = None
    control: Trial | None = None

    @property
    def last(self) -> Trial:
        """The trial with the most heads off."""
        return self.more or self.shown


def try_without(
    translator: Translator, scenes: Sequence[Scene], finding: Finding, idle: Sequence[Ranked]
) -> Trials:
    """Switch off the heads of a finding, more of them where they are not missed, and as many `idle` ones."""
    heads, more = finding.shown, None
    shown = _trial(translator, scenes, heads)
    if not any(each.flips for each in shown.told):
        heads = _enough(scenes[:2], finding)
        more = _trial(translator, scenes, heads)
    ablate = set(_parts(heads))
    others = [each for each in idle if _parts([each])[0] not in ablate][: len(heads)]
    return Trials(shown, more, _trial(translator, scenes, others) if len(others) == len(heads) else None)


def _enough(told: Sequence[Scene], finding: Finding) -> tuple[Ranked, ...]:
    """As many of the best heads as it takes to flip a sentence, or as many as are tried at most."""
    for count in range(len(finding.shown) + 1, MOST_OFF):
        if _flips(told, finding.heads[:count]):
            return finding.heads[:count]
    return finding.heads[:MOST_OFF]


def _trial(translator: Translator, scenes: Sequence[Scene], heads: Sequence[Ranked]) -> Trial:
    found = translator.translate([each.linked.text for each in scenes], beams=1, ablate=_parts(heads))
    told = [_rivals(each, heads) for each in scenes[:2]] + [None] * len(scenes[2:])
    return Trial(
        tuple(heads),
        tuple(
            Without(each.linked.text, each.translation, after.text, rivals)
            for each, after, rivals in zip(scenes, found, told, strict=True)
        ),
    )


def _flips(told: Sequence[Scene], heads: Sequence[Ranked]) -> bool:
    """Whether the other pronoun is the likelier one in any sentence; one pass each, nothing is written."""
    found = [_rivals(each, heads) for each in told]
    return any(rivals is not None and rivals.flips for rivals in found)


def _rivals(told: Scene, heads: Sequence[Ranked]) -> Rivals | None:
    if not pronoun(told.translation):
        return None
    return ablate(told.seen, _parts(heads), PRONOUNS, translate=False).rivals


def _parts(heads: Sequence[Ranked]) -> list[tuple[str, int, int]]:
    return [(each.kind, each.layer, each.head) for each in heads]
