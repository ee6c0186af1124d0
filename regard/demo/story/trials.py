"""Ablation of heads: does the model still translate "it" correctly?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.demo.story.links import PRONOUNS, Finding, Scene, pronoun
from regard.inference.translator import Translator
from regard.inspection.analysis.ablation import Rivals, ablate
from regard.inspection.analysis.ranking import Ranked

# If ablating the shown heads changes nothing, the next best are ablated too, up to this number.
MOST_OFF = 6


@dataclass(frozen=True)
class Without:
    """The translation of one sentence with and without ablated heads."""

    text: str
    before: str
    after: str
    rivals: Rivals | None = None

    @property
    def flips(self) -> bool:
        """Whether il became elle, or the reverse."""
        return "" != pronoun(self.before) != pronoun(self.after) != ""


@dataclass(frozen=True)
class Trial:
    """All sentences with the same ablated heads; the two main sentences come first, with probabilities."""

    heads: tuple[Ranked, ...]
    sentences: tuple[Without, ...]

    @property
    def main(self) -> tuple[Without, ...]:
        """The two main sentences of the story."""
        return self.sentences[:2]

    @property
    def flipped(self) -> int:
        """The number of sentences whose pronoun flips."""
        return sum(sentence.flips for sentence in self.sentences)


@dataclass(frozen=True)
class Trials:
    """The trials of a finding: its heads ablated, then more of the best until a main sentence flips.

    `control` ablates the same number of heads with the weakest links.
    """

    shown: Trial
    more: Trial | None = None
    control: Trial | None = None

    @property
    def last(self) -> Trial:
        """The trial with the most ablated heads."""
        return self.more or self.shown


def try_without(
    translator: Translator, scenes: Sequence[Scene], finding: Finding, idle: Sequence[Ranked]
) -> Trials:
    """Ablate the heads of a finding, more of them if no main sentence flips, and as many `idle` ones."""
    heads, more = finding.shown, None
    shown = _trial(translator, scenes, heads)
    if not any(sentence.flips for sentence in shown.main):
        heads = _enough(scenes[:2], finding)
        more = _trial(translator, scenes, heads)
    ablate = set(_parts(heads))
    others = [head for head in idle if _parts([head])[0] not in ablate][: len(heads)]
    return Trials(shown, more, _trial(translator, scenes, others) if len(others) == len(heads) else None)


def _enough(main: Sequence[Scene], finding: Finding) -> tuple[Ranked, ...]:
    """The fewest best heads whose ablation flips a sentence, or the maximum number."""
    for count in range(len(finding.shown) + 1, MOST_OFF):
        if _flips(main, finding.heads[:count]):
            return finding.heads[:count]
    return finding.heads[:MOST_OFF]


def _trial(translator: Translator, scenes: Sequence[Scene], heads: Sequence[Ranked]) -> Trial:
    texts = [scene.linked.text for scene in scenes]
    translations = translator.translate(texts, beams=1, ablate=_parts(heads))
    rivals = [_rivals(scene, heads) for scene in scenes[:2]] + [None] * len(scenes[2:])
    return Trial(
        tuple(heads),
        tuple(
            Without(scene.linked.text, scene.translation, after.text, pair)
            for scene, after, pair in zip(scenes, translations, rivals, strict=True)
        ),
    )


def _flips(main: Sequence[Scene], heads: Sequence[Ranked]) -> bool:
    """Whether the other pronoun becomes likelier in any sentence; one forward pass each."""
    pairs = [_rivals(scene, heads) for scene in main]
    return any(rivals is not None and rivals.flips for rivals in pairs)


def _rivals(scene: Scene, heads: Sequence[Ranked]) -> Rivals | None:
    if not pronoun(scene.translation):
        return None
    return ablate(scene.seen, _parts(heads), PRONOUNS, translate=False).rivals


def _parts(heads: Sequence[Ranked]) -> list[tuple[str, int, int]]:
    return [(ranked.kind, ranked.layer, ranked.head) for ranked in heads]
