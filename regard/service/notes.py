"""Notes about the words of demo models: unknown words, glosses of French words, nouns and pronouns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.demo.corpus import ENGLISH_WORD, FRENCH_WORD
from regard.demo.glossary import gloss, nouns_by_form
from regard.demo.lexicon import NOUNS
from regard.demo.sentences import CURLY
from regard.errors import UsageError
from regard.service.locations import demo_facts, find_location

if TYPE_CHECKING:
    from regard.inspection.record.tokens import Side
    from regard.inspection.render.payload import Notes

IT = "it"
SAYS_IT = re.compile(r"(he or |she or )?it\b")
AS_NOUN = re.compile(r"\bas (.+) is$")  # in the gloss of il or elle: the noun that it agrees with


class DemoNotes:
    """Notes about the words of a demo model, from its stored facts."""

    def __init__(self, facts: Mapping[str, Any]):
        self._facts = facts
        self._french = {"demo": "target", "demo-reverse": "source"}.get(facts["name"])
        self._read = "target" if facts["name"] == "demo-language-model" else "source"

    @cached_property
    def _met(self) -> frozenset[str]:
        return frozenset(self._facts["words"])

    def strange(self, side: Side) -> set[int]:
        """The positions of tokens in words that do not occur in the training text."""
        unknown = {n for n, token in enumerate(side.tokens) if token.special == "unknown"}
        if side.name != self._read:
            return unknown
        word = FRENCH_WORD if side.name == self._french else ENGLISH_WORD
        matches = word.finditer(side.text.translate(CURLY))
        spans = [match.span() for match in matches if match[0].lower() not in self._met]
        return unknown.union(n for span in spans for n in _covering(side, *span))

    def glosses(self, side: Side, other: Side | None) -> dict[int, str]:
        """The gloss of each French word, by its number."""
        if side.name != self._french:
            return {}
        text = side.text.replace("’", "'")
        spans = [match.span() for match in FRENCH_WORD.finditer(text)]
        glosses: dict[int, list[str]] = {}
        for span, glossed in zip(spans, gloss(text, other.text if other else ""), strict=True):
            for word in dict.fromkeys(side.tokens[n].word for n in _covering(side, *span)):
                glosses.setdefault(word, []).append(glossed.gloss)
        return {word: " ".join(filter(None, parts)) for word, parts in glosses.items() if any(parts)}

    def nouns(self, side: Side, other: Side | None = None) -> list[int]:
        """The numbers of words that "it" may refer to: the noun that il or elle agrees with, if known."""
        is_french = side.name == self._french
        names = french_names() if is_french else english_names()
        words = [(names[form.lower()], place) for form, place in self._words(side) if form.lower() in names]
        meant = self._meant(*((side, other) if is_french else (other, side)))
        chosen = [place for found, place in words if found & meant] or [place for _, place in words]
        return list(dict.fromkeys(side.tokens[place].word for place in chosen if place is not None))

    def _meant(self, french: Side | None, english: Side | None) -> set[str]:
        """The English names of the nouns that il and elle agree with, in a sentence with "it"."""
        if french is None or english is None or french.name != self._french:
            return set()
        glosses = gloss(french.text.translate(CURLY), english.text)
        agreeing = (AS_NOUN.search(glossed.gloss) for glossed in glosses if SAYS_IT.match(glossed.gloss))
        return {found[1] for found in agreeing if found}

    def pronouns(self, side: Side, other: Side | None) -> list[int]:
        """The positions of "it", or of il and elle that translate it."""
        words = self._words(side)
        if side.name != self._french:
            return [place for form, place in words if form.lower() == IT and place is not None]
        if other is not None and IT not in (form.lower() for form, _ in self._words(other)):
            return []
        glosses = gloss(side.text.translate(CURLY), other.text if other else "")
        pairs = zip(words, glosses, strict=True)
        positions = [position for (_, position), glossed in pairs if SAYS_IT.match(glossed.gloss)]
        return [position for position in positions if position is not None]

    def _words(self, side: Side) -> list[tuple[str, int | None]]:
        """The words of a side by the demo's rules, each with the position of its first token."""
        word = FRENCH_WORD if side.name == self._french else ENGLISH_WORD
        matches = word.finditer(side.text.translate(CURLY))
        return [(match[0], min(_covering(side, *match.span()), default=None)) for match in matches]


def notes_of(folder: Path) -> Notes:
    """The notes about the words of the model in a folder."""
    from regard.inspection.render.payload import NOTHING

    try:
        facts = demo_facts(find_location(folder))
    except UsageError:  # a folder of another library, or no folder
        return NOTHING
    return DemoNotes(facts) if facts else NOTHING


@cache
def english_names() -> dict[str, set[str]]:
    """The names of the nouns with an English form, singular or plural."""
    return _by_form(
        (noun.name(plural), noun.name(False)) for noun in NOUNS.values() for plural in (False, True)
    )


@cache
def french_names() -> dict[str, set[str]]:
    """The English names of the nouns with a French form."""
    nouns = nouns_by_form().items()
    return _by_form((form, noun.name(False)) for form, entries in nouns for noun, _ in entries)


def _by_form(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    names: dict[str, set[str]] = {}
    for form, name in pairs:
        names.setdefault(form.lower(), set()).add(name)
    return names


def _covering(side: Side, start: int, end: int) -> list[int]:
    """The positions of tokens that overlap a span of the text."""
    return [
        place
        for place, token in enumerate(side.tokens)
        if token.start is not None and token.end is not None and token.start < end and token.end > start
    ]
