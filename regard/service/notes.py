"""What is known of the demo models' words: those met in training, what French ones say, which are nouns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.demo.corpus import ENGLISH_WORD, FRENCH_WORD
from regard.demo.glossary import gloss, nouns_by_form
from regard.demo.lexicon import NOUNS
from regard.demo.sentences import CURLY
from regard.errors import UsageError
from regard.service.locations import find_home

if TYPE_CHECKING:
    from regard.inspection.record.tokens import Side
    from regard.inspection.render.payload import Notes

IT = "it"
SAYS_IT = re.compile(r"(he or |she or )?it\b")


class DemoNotes:
    """Notes about the words of a model of the demo, from what is kept beside it."""

    def __init__(self, facts: Mapping[str, Any]):
        self._facts = facts
        self._french = {"demo": "target", "demo-reverse": "source"}.get(facts["name"])
        self._read = "target" if facts["name"] == "demo-writing" else "source"

    @cached_property
    def _met(self) -> frozenset[str]:
        return frozenset(self._facts["words"])

    def strange(self, side: Side) -> set[int]:
        """The positions of tokens that the model never met in training."""
        unknown = {n for n, token in enumerate(side.tokens) if token.special == "unknown"}
        if side.name != self._read:
            return unknown
        word = FRENCH_WORD if side.name == self._french else ENGLISH_WORD
        found = word.finditer(side.text.translate(CURLY))
        spans = [match.span() for match in found if match[0].lower() not in self._met]
        return unknown.union(n for span in spans for n in _covering(side, *span))

    def glosses(self, side: Side, other: Side | None) -> dict[int, str]:
        """What each French word says, by its number."""
        if side.name != self._french:
            return {}
        text = side.text.replace("’", "'")
        spans = [match.span() for match in FRENCH_WORD.finditer(text)]
        said: dict[int, list[str]] = {}
        for span, each in zip(spans, gloss(text, other.text if other else ""), strict=True):
            for word in dict.fromkeys(side.tokens[n].word for n in _covering(side, *span)):
                said.setdefault(word, []).append(each.gloss)
        return {word: " ".join(filter(None, each)) for word, each in said.items() if any(each)}

    def nouns(self, side: Side) -> list[int]:
        """The numbers of words that "it" may stand for."""
        known = nouns_by_form() if side.name == self._french else english_nouns()
        places = [place for form, place in self._words(side) if form.lower() in known]
        return list(dict.fromkeys(side.tokens[place].word for place in places if place is not None))

    def pronouns(self, side: Side, other: Side | None) -> list[int]:
        """The positions at which "it" stands, or the il or elle that says it."""
        words = self._words(side)
        if side.name != self._french:
            return [place for form, place in words if form.lower() == IT and place is not None]
        if other is not None and IT not in (form.lower() for form, _ in self._words(other)):
            return []
        told = gloss(side.text.translate(CURLY), other.text if other else "")
        said = [place for (_, place), each in zip(words, told, strict=True) if SAYS_IT.match(each.gloss)]
        return [place for place in said if place is not None]

    def _words(self, side: Side) -> list[tuple[str, int | None]]:
        """The words as the demo's language counts them, each with the position of its first token."""
        word = FRENCH_WORD if side.name == self._french else ENGLISH_WORD
        found = word.finditer(side.text.translate(CURLY))
        return [(match[0], min(_covering(side, *match.span()), default=None)) for match in found]


def notes_of(folder: Path) -> Notes:
    """What may be said about the words of the model in a folder."""
    from regard.inspection.render.payload import NOTHING

    try:
        facts = find_home(folder).facts()
    except UsageError:  # a folder of another library, or none
        return NOTHING
    return DemoNotes(facts) if facts else NOTHING


@cache
def english_nouns() -> frozenset[str]:
    """Every noun of the lexicon, one and several."""
    return frozenset(noun.name(plural).lower() for noun in NOUNS.values() for plural in (False, True))


def _covering(side: Side, start: int, end: int) -> list[int]:
    """The positions of tokens that share a character with a part of the text."""
    return [
        place
        for place, token in enumerate(side.tokens)
        if token.start is not None and token.end is not None and token.start < end and token.end > start
    ]
