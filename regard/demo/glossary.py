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
    """A French word as written and what it says; nothing where the lexicon does not have it."""

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
    found: list[Glossed] = []
    met: list[str] = []
    for token in tokens:
        form = token if token in NAMES else token.lower()
        known = dictionary().get(token) or dictionary().get(form, "")
        found.append(Glossed(token, _standing_for(form, met, english) or known))
        met.append(form)
    return found


def _standing_for(form: str, before: list[str], english: list[str]) -> str:
    """What il or elle stands for, where only one noun or name before it will do."""
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
    """Every French form of the lexicon with its meanings."""
    meanings: dict[str, list[str]] = {}
    for form, meaning in _entries():
        known = meanings.setdefault(form, [])
        if meaning not in known:
            known.append(meaning)
    return {form: " or ".join(known) for form, known in meanings.items()}


@cache
def nouns_by_form() -> dict[str, list[tuple[Noun, bool]]]:
    """The nouns, each with whether it is plural, by their French form."""
    found: dict[str, list[tuple[Noun, bool]]] = {}
    for noun in NOUNS.values():
        found.setdefault(noun.french, []).append((noun, False))
        if noun.french_plural != noun.french:
            found.setdefault(noun.french_plural, []).append((noun, True))
    return found


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
    told = {}
    for tense in ("present", "past", "future"):
        for person in (0, 2, 3, 4, 1):
            told[conjugate(verb, tense, person)] = " ".join(english_verb(verb, tense, person))
    yield from (Word(form, meaning) for form, meaning in told.items())
    for plural in (False, True):
        yield from (participle(verb, "m", plural), participle(verb, "f", plural))
