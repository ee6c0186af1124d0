"""What a lexicon entry is, and how a line of the lexicon is read.

A line holds columns between bars; `/` separates a regular form from the irregular ones that follow it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

Gender = Literal["m", "f"]
Tense = Literal["present", "past", "future"]

VOWELS = frozenset("aeiouyhàâæéèêëîïôùûœ")
# Before these an h or an o does not let the word in front of it elide: le hibou, le onze.
ASPIRATED = frozenset(("hibou", "hiboux", "haut", "haute", "hauts", "hautes", "huit", "onze"))


class Word(NamedTuple):
    """A French word before spelling, with what it says in English."""

    form: str
    gloss: str


@dataclass(frozen=True, eq=False)
class Noun:
    """A thing with its gender; both languages' plurals are spelled out."""

    english: str
    french: str
    gender: Gender
    english_plural: str
    french_plural: str
    sense: str = ""

    def name(self, plural: bool) -> str:
        """The English noun."""
        return self.english_plural if plural else self.english


@dataclass(frozen=True, eq=False)
class Adjective:
    """What can be said of a noun, in all the forms that agree with it.

    `before` stands in front of its noun, in the form `before_vowel` where a masculine noun starts with one.
    `verb` says how it is predicated: être fatigué, avoir faim. Only gradable ones follow "too".
    """

    english: str
    forms: tuple[str, str, str, str]  # masculine, feminine, and the plurals of both
    before_vowel: str
    before: bool = False
    verb: str = "be"
    gradable: bool = True

    def form(self, gender: Gender, plural: bool) -> str:
        """The form that agrees."""
        return self.forms[(gender == "f") + 2 * plural]


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb of both languages, with its complement's preposition in each.

    `past` names the French tense of the English simple past: composé for events, imparfait for states.
    """

    english: tuple[str, str, str]  # base, third person, past
    infinitive: str
    present: tuple[str, ...]  # je, il, nous, vous, ils
    participle: str
    future: str
    auxiliary: Literal["have", "be"] = "have"
    past: Literal["composé", "imparfait"] = "composé"
    english_preposition: str = ""
    preposition: str = ""
    reflexive: bool = False


@cache
def starts_with_vowel(form: str) -> bool:
    """Whether the word before it elides: l'animal, l'homme, but le hibou."""
    return form[0].lower() in VOWELS and form not in ASPIRATED


def listed(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def rows(table: str) -> Iterator[list[str]]:
    """The lines of a table as stripped columns."""
    for line in table.strip().splitlines():
        yield [column.strip() for column in line.split("|")]


def english_plural(noun: str) -> str:
    """The regular plural: dogs, boxes, libraries."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def french_plural(word: str) -> str:
    """The regular plural: chiens, ours, oiseaux, chevaux."""
    if word.endswith(("s", "x")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith(("eau", "ou")) else "s")


def french_feminine(adjective: str) -> str:
    """The regular feminine: fatiguée, large, dangereuse."""
    if adjective.endswith("e"):
        return adjective
    return adjective[:-1] + "se" if adjective.endswith("eux") else adjective + "e"


def read_nouns(table: str) -> dict[str, Noun]:
    """Lines of `english:sense/plural | french/pluriel | gender`, under their English name and sense."""
    nouns = {}
    for english, french, gender in rows(table):
        key, _, many = english.partition("/")
        one, _, sense = key.partition(":")
        un, _, plusieurs = french.partition("/")
        assert gender in ("m", "f")
        plurals = many or english_plural(one), plusieurs or french_plural(un)
        nouns[key] = Noun(one, un, gender, *plurals, sense)
    return nouns


def read_adjectives(table: str) -> dict[str, Adjective]:
    """Lines of `english | masculine/feminine/before a vowel | marks`.

    Marks: before, absolute (never "too"), have (avoir faim), invariable.
    """
    adjectives = {}
    for english, french, marks in rows(table):
        masculine, feminine, before_vowel = [*french.split("/"), "", ""][:3]
        feminine = feminine or french_feminine(masculine)
        forms = (masculine, feminine, french_plural(masculine), french_plural(feminine))
        fixed = "invariable" in marks or "have" in marks
        adjectives[english] = Adjective(
            english,
            forms=(masculine, masculine, masculine, masculine) if fixed else forms,
            before_vowel=before_vowel or masculine,
            before="before" in marks,
            verb="have" if "have" in marks else "be",
            gradable="absolute" not in marks,
        )
    return adjectives


def english_forms(base: str, past: str = "") -> tuple[str, str, str]:
    """Base, third person and past of a verb that is regular but perhaps for its past."""
    if base == "have":
        return "have", "has", "had"
    hissing = base.endswith(("s", "x", "ch", "sh", "o"))
    to_ies = base.endswith("y") and base[-2] not in "aeiou"
    stem = base[:-1] + "i" if to_ies else base
    regular = stem + ("d" if base.endswith("e") else "ed")
    return base, stem + ("es" if hissing or to_ies else "s"), past or regular


def french_present(infinitive: str, present: str) -> tuple[str, ...]:
    """The five forms given, or those of a regular verb in -er."""
    stem = infinitive.removesuffix("er")
    return tuple(present.split()) or tuple(stem + ending for ending in ("e", "e", "ons", "ez", "ent"))


def read_verbs(table: str) -> dict[str, Verb]:
    """Lines of `base preposition/past | infinitive preposition | present | participle | marks`.

    An empty present and participle are those of a verb in -er. Marks: être (its auxiliary), imparfait,
    future= (an irregular stem). A verb is found under its base and preposition.
    """
    verbs = {}
    for english, french, present, participle, marks in rows(table):
        name, _, past = english.partition("/")
        base, _, preposition = name.partition(" ")
        reflexive = french.startswith("se ")
        infinitive, _, where = french.removeprefix("se ").partition(" ")
        verbs[name] = Verb(
            english_forms(base, past),
            infinitive,
            present=french_present(infinitive, present),
            participle=participle or infinitive.removesuffix("er") + "é",
            future=dict(mark.split("=") for mark in marks.split() if "=" in mark).get(
                "future", infinitive.removesuffix("e")
            ),
            auxiliary="be" if "être" in marks or reflexive else "have",
            past="imparfait" if "imparfait" in marks else "composé",
            english_preposition=preposition,
            preposition=where,
            reflexive=reflexive,
        )
    return verbs
