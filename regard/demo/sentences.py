"""Sentence: what a rule of the grammar says, before it is written; Pair: the same once written."""

from __future__ import annotations

from dataclasses import dataclass

from regard.demo.phrases import Phrase
from regard.demo.spelling import Style, elide, write_english, write_french
from regard.demo.words import Word


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
