"""Sentence: what a rule of the grammar says, before it is written; Pair: the same once written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from regard.demo.phrases import Phrase
from regard.demo.words import Word, listed, starts_with_vowel

# written: a capital and a full stop; bare: a capital only; lower: neither; title: English titles.
Style = Literal["written", "bare", "lower", "title"]

ELIDING = frozenset(listed("le la je ne que de se me ce jusque"))
CONTRACTED = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}

NEGATIONS = listed("do does did is are was were")
SHORT = {(verb, "not"): f"{verb}n't" for verb in NEGATIONS} | {("will", "not"): "won't"}
SHORT_BE = {
    ("I", "am"): "I'm", ("he", "is"): "he's", ("she", "is"): "she's", ("it", "is"): "it's",
    ("we", "are"): "we're", ("you", "are"): "you're", ("they", "are"): "they're", ("there", "is"): "there's",
}  # fmt: skip
LONG: dict[str, str] = {short.lower(): " ".join(pair).lower() for pair, short in (SHORT | SHORT_BE).items()}
CONSONANT_U = re.compile(r"(?:use|uni|eu)")
CURLY = str.maketrans("’‘`´“”", "''''\"\"")


def write_english(words: tuple[str, ...], mark: str, style: Style, short: bool) -> str:
    """Written English, with contractions (didn't) where asked for."""
    spelled = _with_an(words)
    if short:
        spelled = _contract(spelled)
    if style == "title":
        return " ".join(word if word == "and" else word.capitalize() for word in spelled)
    return _finish(" ".join(spelled), mark, style)


def write_french(tokens: tuple[Word, ...], mark: str, style: Style) -> str:
    """Written French, from words already elided; a question mark has a space before it."""
    text = " ".join(token.form for token in tokens).replace("' ", "'")
    return _finish(text, " ?" if mark == "?" else mark, "bare" if style == "title" else style)


def _finish(text: str, mark: str, style: Style) -> str:
    if style == "lower":
        return text
    return text[0].upper() + text[1:] + (mark if style == "written" else "")


def _with_an(words: tuple[str, ...]) -> list[str]:
    spelled = list(words)
    for place, word in enumerate(words[:-1]):
        if word == "a" and words[place + 1][0] in "aeiou" and not CONSONANT_U.match(words[place + 1]):
            spelled[place] = "an"
    return spelled


def _contract(words: list[str]) -> list[str]:
    spelled: list[str] = []
    for place, word in enumerate(words):
        last = spelled[-1] if spelled else ""
        follows = words[place + 1 : place + 2]
        if (last, word) in SHORT and place != len(words) - 1:
            spelled[-1] = SHORT[last, word]
        elif (last, word) in SHORT_BE and follows and follows != ["not"]:
            spelled[-1] = SHORT_BE[last, word]
        else:
            spelled.append(word)
    return spelled


@cache
def _elided(form: str) -> str:
    return form[:-1] + "'"


def elide(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The same words as French spells them side by side: l'animal, qu'il, au marché, des enfants."""
    spelled: list[Word] = []
    following = ""
    for word in reversed(words):
        form = word.form
        if form in ELIDING and following and starts_with_vowel(following):
            word = Word(_elided(form), word.gloss)
        elif (form, following) in CONTRACTED:
            merged = spelled.pop()
            gloss = word.gloss if word.gloss == merged.gloss else f"{word.gloss} {merged.gloss}"
            word = Word(CONTRACTED[form, following], gloss)
        spelled.append(word)
        following = word.form
    return tuple(reversed(spelled))


def same(text: str) -> str:
    """What two writings of one sentence share: no case, no punctuation, no contraction, straight quotes."""
    words: list[str] = re.findall(r"[\w'-]+", text.translate(CURLY).casefold())
    return " ".join(LONG.get(word, word) for word in words)


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and its translation, with the French words and what each says.

    `combinations` names the nouns that meet ("animal/street") and the adjectives that meet a noun
    ("tired animal"), which is what a test can hold out.
    """

    source: str
    target: str
    family: str
    combinations: tuple[str, ...]
    words: tuple[Word, ...]
    reverse: bool = False

    @property
    def french(self) -> str:
        """The French side."""
        return self.source if self.reverse else self.target

    @property
    def english(self) -> str:
        """The English side."""
        return self.target if self.reverse else self.source


@dataclass(slots=True)
class Sentence:
    """A phrase with its closing mark; `styles` says how it may be written besides the usual way."""

    phrase: Phrase
    mark: str = "."
    combinations: tuple[str, ...] = ()
    usual: Style = "written"
    styles: tuple[Style, ...] = ("bare", "lower")

    def key(self) -> str:
        """What two writings of this sentence share in English."""
        return " ".join(self.phrase.english).lower()

    def pair(self, family: str, style: Style, short: bool = False, reverse: bool = False) -> Pair:
        """Both sides written alike; `reverse` puts French first and English without contractions."""
        if style == "lower" and self.phrase.english[0][0].isupper():
            style = "bare"  # "I" and names look alike in both, and the French would have to guess
        words = elide(self.phrase.french)
        french = write_french(words, self.mark, style)
        english = write_english(self.phrase.english, self.mark, style, short and not reverse)
        source, target = (french, english) if reverse else (english, french)
        return Pair(source, target, family, self.combinations, words, reverse)
