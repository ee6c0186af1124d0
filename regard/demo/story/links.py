"""Which heads link "it" with what it stands for and with how that feels: measured, and tried without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from regard.demo.corpus import Corpus, split_words
from regard.demo.sentences import Pair
from regard.demo.story.promises import translate
from regard.inference.translator import Translator
from regard.inspection.effect import Rivals, switch_off
from regard.inspection.ranking import Link, Ranked, rank_heads
from regard.inspection.trace import Inspection, inspect

# A head is clean where half of the attention of "it" goes to the word meant; else the best few are shown.
CLEAN, FEW = 0.5, 3
# So many sentences of the test, besides the lectures' two, say which head it is.
PROBES = 12
PRONOUNS = ("il", "elle")


@dataclass(frozen=True)
class Linked:
    """A sentence with "it", the noun that it stands for and the adjective that tells which."""

    text: str
    noun: str
    adjective: str


TIRED = Linked("The animal didn't cross the street because it was too tired", "animal", "tired")
WIDE = Linked("The animal didn't cross the street because it was too wide", "street", "wide")


@dataclass(frozen=True, eq=False)
class Scene:
    """A sentence, its translation, and everything that the model computed for them."""

    linked: Linked
    seen: Inspection

    @property
    def translation(self) -> str:
        """What the model writes."""
        assert self.seen.target is not None
        return self.seen.target.text


@dataclass(frozen=True)
class Without:
    """What becomes of one sentence with some heads off."""

    text: str
    before: str
    after: str
    rivals: Rivals | None

    @property
    def flips(self) -> bool:
        """Whether il has become elle, or the reverse."""
        return pronoun(self.before) != pronoun(self.after)


@dataclass(frozen=True)
class Finding:
    """The heads that link "it" with one kind of word, the best first, and what they are needed for."""

    heads: tuple[Ranked, ...]
    without: tuple[Without, ...]

    @property
    def is_clean(self) -> bool:
        """Whether one head does it."""
        return self.heads[0].weight >= CLEAN

    @property
    def shown(self) -> tuple[Ranked, ...]:
        """The one head, or the best few."""
        return self.heads[:1] if self.is_clean else self.heads[:FEW]


@dataclass(frozen=True)
class Decisive:
    """The head of cross-attention that the pronoun needs most, and its probability with it and without."""

    word: str
    position: int  # of the target, at which the pronoun is written
    layer: int
    head: int
    before: float
    after: float


def scene(translator: Translator, linked: Linked) -> Scene:
    """Translate a sentence and look inside."""
    (written,) = translate(translator, [linked.text])
    return Scene(linked, inspect(translator, linked.text, written))


def find_heads(translator: Translator, scenes: Sequence[Scene], told: Sequence[Scene], word: str) -> Finding:
    """The encoder's heads by how much "it" looks at its `word` ("noun" or "adjective") in all scenes.

    Those to be shown are then switched off together in the sentences that are `told`.
    """
    links = [Link(each.seen, "it", getattr(each.linked, word)) for each in scenes]
    heads = tuple(rank_heads(links, kinds=["encoder"]))
    off = [(each.kind, each.layer, each.head) for each in Finding(heads, ()).shown]
    return Finding(heads, tuple(_without(translator, each, off) for each in told))


def pronoun(french: str) -> str:
    """The word that says what "it" is; nothing where there is none."""
    return next((word for word in split_words(french.lower(), "fr") if word in PRONOUNS), "")


def decisive(told: Scene) -> Decisive | None:
    """Each head of cross-attention off by itself: the one without which il or elle loses most."""
    word = pronoun(told.translation)
    if not word:
        return None
    seen, at = told.seen, PRONOUNS.index(word)
    found = []
    for layer, head in product(range(seen.layers("cross")), range(seen.heads)):
        rivals = switch_off(seen, [("cross", layer, head)], PRONOUNS, translate=False).rivals
        assert rivals is not None
        found.append(Decisive(word, rivals.position, layer, head, rivals.before[at], rivals.after[at]))
    return min(found, key=lambda each: each.after)


def links_of(sentences: Corpus) -> list[Linked]:
    """Some sentences of the test in which "it" stands for one of two nouns."""
    found = (_linked(pair) for pair in sentences.test if pair.family == "it" and not sentences.reverse)
    return [linked for linked in found if linked is not None][:PROBES]


def scenes_of(translator: Translator, facts: Mapping[str, Any]) -> Iterator[Scene]:
    """The lectures' two sentences, and those that were kept for measuring."""
    for linked in (TIRED, WIDE, *(Linked(**values) for values in facts["links"])):
        yield scene(translator, linked)


def _linked(pair: Pair) -> Linked | None:
    """A pair of the grammar as such a sentence, where it has "it" and both words as they are."""
    words = split_words(pair.source, "en")
    described = (text.rpartition(" ") for text in pair.combinations)
    noun = next((noun for adjective, _, noun in described if adjective == words[-1]), "")
    is_plain = all(words.count(word) == 1 for word in ("it", noun, words[-1]))
    return Linked(pair.source, noun, words[-1]) if is_plain else None


def _without(translator: Translator, told: Scene, off: Sequence[tuple[str, int, int]]) -> Without:
    text, before = told.linked.text, told.translation
    after = translator.translate(text, beams=1, off=off).text
    rivals = None
    if pronoun(before):
        rivals = switch_off(told.seen, off, PRONOUNS, translate=False).rivals
    return Without(text, before, after, rivals)
