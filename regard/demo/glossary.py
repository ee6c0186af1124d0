"""A gloss under each French word, for people who read no French."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from regard.demo.clauses import conjugate, english_verb, participle
from regard.demo.corpus import split_words
from regard.demo.lexicon import ADJECTIVES, GLOSSES, NOUNS, PROFESSION, VERBS
from regard.demo.people import NAMES
from regard.demo.phrases import he_or_she, inflect, noun_word, standing_for
from regard.demo.senses import PROGRAM
from regard.demo.sentences import ELIDING, Pair
from regard.demo.words import Gender, Noun, Verb, Word

CONTRACTIONS = {"au": "to the", "aux": "to the", "du": "of the, or some", "des": "some, or of the"}
STANDING: dict[str, tuple[Gender, bool]] = {
    "il": ("m", False),
    "elle": ("f", False),
    "ils": ("m", True),
    "elles": ("f", True),
}


class Glossed(NamedTuple):
    """A French word and its gloss, which is empty if the lexicon lacks the word."""

    token: str
    gloss: str


def gloss(what: Pair | str, english: str = "") -> list[Glossed]:
    """A gloss for each French word.

    A pair of the grammar knows where each word comes from ("it, masculine, as animal is"). Any other French
    text is looked up form by form; where the English sentence is given too, il and elle are linked with the
    only noun or name that they agree with.
    """
    if isinstance(what, Pair):
        tokens = split_words(what.french, "fr")
        return [Glossed(token, word.gloss) for token, word in zip(tokens, what.words, strict=True)]
    return _look_up(split_words(what.replace("’", "'"), "fr"), english.lower().split())


def _look_up(tokens: list[str], english: list[str]) -> list[Glossed]:
    glossed: list[Glossed] = []
    met: list[str] = []
    for token in tokens:
        form = token if token in NAMES else token.lower()
        known = dictionary().get(token) or dictionary().get(form, "")
        glossed.append(Glossed(token, _standing_for(form, met, english) or known))
        met.append(form)
    return glossed


def _standing_for(form: str, before: list[str], english: list[str]) -> str:
    """The referent of il or elle, if only one earlier noun or name is possible."""
    fitting: list[str] = []
    for word in before if form in STANDING else ():
        gender, plural = STANDING[form]
        if {"he", "she"} & set(english) and NAMES.get(word) == gender and not plural:
            fitting.append(he_or_she(word, gender).french[0].gloss)
        for noun, several in nouns_by_form().get(word, ()) if {"it", "they"} & set(english) else ():
            if (noun.gender, several) == (gender, plural):
                fitting.append(standing_for(noun, plural).french[0].gloss)
    return fitting[0] if len(fitting) == 1 else ""


@cache
def dictionary() -> dict[str, str]:
    """All French forms of the lexicon with their meanings."""
    meanings: dict[str, list[str]] = {}
    for form, meaning in _entries():
        known = meanings.setdefault(form, [])
        if meaning not in known:
            known.append(meaning)
    return {form: " or ".join(known) for form, known in meanings.items()}


@cache
def nouns_by_form() -> dict[str, list[tuple[Noun, bool]]]:
    """The nouns, each with whether it is plural, by their French form."""
    nouns: dict[str, list[tuple[Noun, bool]]] = {}
    for noun in NOUNS.values():
        nouns.setdefault(noun.french, []).append((noun, False))
        if noun.french_plural != noun.french:
            nouns.setdefault(noun.french_plural, []).append((noun, True))
    return nouns


def _entries() -> Iterator[Word]:
    for form, meaning in (GLOSSES | CONTRACTIONS).items():
        yield Word(form, meaning)
        if form in ELIDING:
            yield Word(form[:-1] + "'", meaning)
    yield from (Word(name, name) for name in NAMES)
    yield from PROGRAM.french
    for noun in NOUNS.values():
        yield from (noun_word(noun, False), noun_word(noun, True))
    for adjective in (*ADJECTIVES.values(), *PROFESSION.values()):
        if " " not in adjective.before_vowel:
            yield Word(adjective.before_vowel, adjective.english)
        for plural in (False, True):
            yield from (*inflect(adjective, "m", plural), *inflect(adjective, "f", plural))
    for verb in VERBS.values():
        yield from _forms_of(verb)


def _forms_of(verb: Verb) -> Iterator[Word]:
    meanings = {}
    for tense in ("present", "past", "future"):
        for person in (0, 2, 3, 4, 1):
            meanings[conjugate(verb, tense, person)] = " ".join(english_verb(verb, tense, person))
    yield from (Word(form, meaning) for form, meaning in meanings.items())
    for plural in (False, True):
        yield from (participle(verb, "m", plural), participle(verb, "f", plural))
