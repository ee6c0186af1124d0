"""Noun phrases in both languages at once: determiners, adjectives and their order, pronouns.

Conventions, because one English sentence has one French one: "you" is vous; "I", "you", "we" and "they" are
masculine where French must choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from regard.demo.lexicon import words
from regard.demo.words import Adjective, Gender, Noun, Word, starts_with_vowel


@dataclass(slots=True)
class Phrase:
    """The same thing said in both languages; French not yet elided."""

    english: tuple[str, ...] = ()
    french: tuple[Word, ...] = ()

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.english + other.english, self.french + other.french)


@dataclass(slots=True)
class Subject(Phrase):
    """A phrase that a verb agrees with; person counts je, il, nous, vous, ils from 0."""

    person: int = 1
    gender: Gender = "m"
    plural: bool = False


NUMBERS = {
    "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six", "eight": "huit",
    "ten": "dix",
}  # fmt: skip

# English determiner: French before a masculine, a feminine and a plural noun. "some" is du, de la or des;
# after a negation "a" and "any" are de.
DETERMINERS = {
    "": ("", "", ""),
    "the": ("le", "la", "les"),
    "a": ("un", "une", ""),
    "not a": ("de", "de", ""),
    "some": ("de le", "de la", "des"),
    "any": ("de", "de", "de"),
    "my": ("mon", "ma", "mes"),
    "your": ("votre", "votre", "vos"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
    "this": ("ce", "cette", ""),
    **{english: ("", "", french) for english, french in NUMBERS.items()},
}
BEFORE_VOWEL = {"ma": "mon", "sa": "son", "ce": "cet"}
OWN = {0: "my", 2: "our", 3: "your", 4: "their"}


@cache
def say(english: str, french: str) -> Phrase:
    """A fixed phrase; a French word without a gloss of its own is written form:gloss."""
    return Phrase(tuple(english.split()), words(french))


@cache
def inflect(adjective: Adjective, gender: Gender, plural: bool) -> tuple[Word, ...]:
    """The adjective as it agrees, with a note in the gloss where that shows."""
    form = adjective.form(gender, plural)
    notes = ["feminine"] * (form != adjective.form("m", plural)) + ["plural"] * (
        plural and form != adjective.form(gender, False)
    )
    gloss = ", ".join([adjective.english, *notes])
    *first, last = form.split()
    return (*words(" ".join(first)), Word(last, gloss))


@cache
def noun_word(noun: Noun, plural: bool) -> Word:
    """The noun in French, glossed with the English one."""
    gloss = f"{noun.name(plural)} ({noun.sense})" if noun.sense else noun.name(plural)
    return Word(noun.french_plural if plural else noun.french, gloss)


@cache
def noun_phrase(
    noun: Noun, determiner: str = "the", adjectives: tuple[Adjective, ...] = (), plural: bool = False
) -> Subject:
    """A noun with what stands around it: "a small blue house", une petite maison bleue.

    Adjectives that follow the noun in French come in the reverse of the English order, joined by et.
    """
    english = (determiner.removeprefix("not "), *(one.english for one in adjectives), noun.name(plural))
    before = [one for one in adjectives if one.before]
    after = [one for one in reversed(adjectives) if not one.before]
    french = (*_in_front(before, noun, plural), noun_word(noun, plural))
    for place, adjective in enumerate(after):
        french += words("et") * (place > 0) + inflect(adjective, noun.gender, plural)
    french = _determiner(determiner, noun.gender, plural, french[0].form, bool(before)) + french
    return Subject(tuple(filter(None, english)), french, 4 if plural else 1, noun.gender, plural)


def _in_front(before: list[Adjective], noun: Noun, plural: bool) -> tuple[Word, ...]:
    found: tuple[Word, ...] = ()
    following = noun_word(noun, plural).form
    for adjective in reversed(before):
        word = inflect(adjective, noun.gender, plural)[0]
        if noun.gender == "m" and not plural and starts_with_vowel(following):
            word = Word(adjective.before_vowel, word.gloss)
        found, following = (word, *found), word.form
    return found


def _determiner(
    english: str, gender: Gender, plural: bool, following: str, has_adjective: bool
) -> tuple[Word, ...]:
    form = DETERMINERS[english][2 if plural else gender == "f"]
    if starts_with_vowel(following):
        form = BEFORE_VOWEL.get(form, form)
    if form == "des" and has_adjective:
        form = "de"
    if english in ("his", "her"):
        return tuple(Word(form, english) for _ in [form])
    if english in ("some", "any", "not a"):
        return _partitive(form, english.removeprefix("not "))
    return words(form)


def _partitive(form: str, english: str) -> tuple[Word, ...]:
    return tuple(Word(part, english) for part in form.split())


PRONOUNS = {
    "I": Subject(("I",), words("je"), 0),
    "you": Subject(("you",), words("vous"), 3),
    "he": Subject(("he",), words("il:he"), 1),
    "she": Subject(("she",), words("elle:she"), 1, "f"),
    "we": Subject(("we",), words("nous"), 2, plural=True),
    "they": Subject(("they",), words("ils"), 4, plural=True),
}
YOU_ALL = Subject(("you",), words("vous"), 3, plural=True)


@cache
def standing_for(noun: Noun, plural: bool = False) -> Subject:
    """ "it" or "they" for a noun: il, elle, ils or elles, and the gloss says as what."""
    french = {"m": "il", "f": "elle"}[noun.gender] + "s" * plural
    english = "they" if plural else "it"
    word = Word(french, as_noun(english, noun, plural))
    return Subject((english,), (word,), 4 if plural else 1, noun.gender, plural)


def as_noun(pronoun: str, noun: Noun, plural: bool) -> str:
    """A gloss that says why a pronoun has its gender: "it, masculine, as animal is"."""
    gender = "masculine" if noun.gender == "m" else "feminine"
    return f"{pronoun}, {gender}, as {noun.name(plural)} {'are' if plural else 'is'}"


@cache
def named(name: str, gender: Gender) -> Subject:
    """A person by name, the same in both languages."""
    return Subject((name,), (Word(name, name),), 1, gender)


@cache
def he_or_she(name: str, gender: Gender) -> Subject:
    """ "he" or "she" for a named person."""
    english, french = ("he", "il") if gender == "m" else ("she", "elle")
    return Subject((english,), (Word(french, f"{english}, as {name} is"),), 1, gender)
