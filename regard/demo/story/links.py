"""A word whose meaning is still open: "bank" before and after the sentence says what was crossed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.demo.corpus import Corpus, split_words
from regard.demo.lexicon import NOUNS
from regard.demo.sentences import Pair
from regard.demo.story.promises import translate
from regard.inference.translator import Translator
from regard.inspection.analysis.ablation import chance
from regard.inspection.analysis.ranking import Ranked
from regard.inspection.inspection import Inspection, inspect
from regard.model.watch import attention_path

# A head is clean where half of its look goes to the word meant; else the best few are shown.
CLEAN, FEW = 0.5, 3
# So many sentences of the test, besides the lectures' two, say which head it is.
PROBES = 12
# In which kinds of attention each word can be looked at; the French adjective is not written yet.
KINDS = {"noun": ("encoder", "cross", "decoder"), "adjective": ("encoder", "cross")}
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

    def query(self, kind: str) -> int | None:
        """The place that looks: "it" as it is read, or where il or elle is written; None without them."""
        if kind == "encoder":
            return self.seen.side("source").find("it")[0]
        target, word = self.seen.side("target"), pronoun(self.translation)
        return target.find(word)[0] - 1 if word and target.has(word) else None

    def keys(self, kind: str, word: str) -> tuple[int, ...]:
        """The places of its "noun" or "adjective": in French the article too, which tells the gender."""
        wanted = getattr(self.linked, word)
        if kind != "decoder":
            return self.seen.side("source").find(wanted)
        target, noun = self.seen.side("target"), NOUNS.get(wanted)
        if noun is None or not target.has(noun.french):
            return ()
        (place, *_) = target.find(noun.french)
        return (place - 1, place)


@dataclass(frozen=True)
class Finding:
    """Every head by how much it links "it" with one kind of word ("noun" or "adjective"), the best first."""

    word: str
    heads: tuple[Ranked, ...]
    sentences: int

    @property
    def best(self) -> Ranked:
        """The head with the strongest link."""
        return self.heads[0]

    @property
    def is_clean(self) -> bool:
        """Whether one head does it."""
        return self.best.weight >= CLEAN

    @property
    def shown(self) -> tuple[Ranked, ...]:
        """The one head, or the best few."""
        return self.heads[:1] if self.is_clean else self.heads[:FEW]


def find_heads(scenes: Sequence[Scene], word: str) -> Finding:
    """The heads by how much of the look of "it", or of il and elle, goes to its `word` in these scenes."""
    found = [ranked for kind in KINDS[word] for ranked in _ranked(scenes, kind, word)]
    return Finding(word, tuple(sorted(found, key=lambda ranked: -ranked.weight)), len(scenes))


def least_linked(findings: Sequence[Finding]) -> list[Ranked]:
    """The heads of all findings, first the one whose strongest link with any of their words is weakest."""
    strongest: dict[tuple[str, int, int], Ranked] = {}
    for each in (head for finding in findings for head in finding.heads):
        place = (each.kind, each.layer, each.head)
        if place not in strongest or each.weight > strongest[place].weight:
            strongest[place] = each
    return sorted(strongest.values(), key=lambda each: each.weight)


def pronoun(french: str) -> str:
    """The word that says what "it" is; nothing where there is none."""
    return next((word for word in split_words(french.lower(), "fr") if word in PRONOUNS), "")


def links_of(sentences: Corpus) -> list[Linked]:
    """Some sentences of the test in which "it" stands for one of two nouns."""
    found = (_linked(pair) for pair in sentences.test if pair.family == "it" and not sentences.reverse)
    return [linked for linked in found if linked is not None][:PROBES]


def scenes_of(translator: Translator, facts: Mapping[str, Any]) -> list[Scene]:
    """The lectures' two sentences, and those that were kept for measuring, translated and looked into."""
    asked = [TIRED, WIDE, *(Linked(**values) for values in facts["links"])]
    written = translate(translator, [linked.text for linked in asked])
    pairs = zip(asked, written, strict=True)
    return [Scene(linked, inspect(translator, linked.text, target)) for linked, target in pairs]


def _ranked(scenes: Sequence[Scene], kind: str, word: str) -> Iterator[Ranked]:
    """The heads of one kind, by the scenes that have both places, the key's before the query's end."""
    cases = [(each.seen, each.query(kind), list(each.keys(kind, word))) for each in scenes]
    found = [(seen, at, keys) for seen, at, keys in cases if at is not None and keys]
    if not found:
        return
    uniform = float(np.mean([len(keys) / seen.visible(kind, 0)[at].sum() for seen, at, keys in found]))
    for layer in range(found[0][0].layers(kind)):
        weights = np.array([seen.attention(kind, layer)[:, at, keys].sum(-1) for seen, at, keys in found])
        for head, each in enumerate(weights.T):  # sentences of one head
            yield Ranked(kind, layer, head, float(each.mean()), uniform, tuple(map(float, each)))


def _linked(pair: Pair) -> Linked | None:
    """A pair of the grammar as such a sentence, where it has "it" and both words as they are."""
    words = split_words(pair.source, "en")
    described = (text.rpartition(" ") for text in pair.combinations)
    noun = next((noun for adjective, _, noun in described if adjective == words[-1]), "")
    is_plain = all(words.count(word) == 1 for word in ("it", noun, words[-1]))
    return Linked(pair.source, noun, words[-1]) if is_plain else None


@dataclass(frozen=True)
class Expected:
    """In how many cases, the encoder's heads times the sentences, the expectation holds."""

    cases: int
    noun_highest: int
    whole: int  # and "it" itself next
    by_chance: float  # how often the noun would be highest if the order were drawn


def expected_order(scenes: Sequence[Scene]) -> Expected:
    """Count, over every head of the encoder and every scene, where the raw scores stand as expected."""
    found = [(_scores(each), each) for each in scenes]
    noun, itself = np.concatenate([_places(scores, each) for scores, each in found]).T
    highest = noun == 0
    chances = sum(len(scores) / scores.shape[1] for scores, _ in found)
    return Expected(len(noun), int(highest.sum()), int((highest & (itself == 1)).sum()), chances)


def _scores(told: Scene) -> np.ndarray:
    """The raw scores of "it" with every word, heads of all layers x words."""
    query, layers = told.query("encoder"), range(told.seen.layers("encoder"))
    scores = [told.seen[f"{attention_path('encoder', layer)}.scores"][:, query] for layer in layers]
    return np.concatenate(scores)[:, _words(told)]


def _places(scores: np.ndarray, told: Scene) -> np.ndarray:
    """The places of the noun and of "it" itself by score, heads x 2, the highest 0."""
    words, source = _words(told), told.seen.side("source")
    at = [words.index(source.find(word)[0]) for word in (told.linked.noun, "it")]
    return np.stack([(scores > scores[:, [place]]).sum(-1) for place in at], axis=-1)


def _words(told: Scene) -> list[int]:
    return [place for place, token in enumerate(told.seen.tokens("source")) if token.special is None]


UNFINISHED = "I arrived at the bank after crossing the"
ENDINGS = ("…", "river", "street")
BEFORE = "Je suis arrivé à la"  # what stands before the word in each translation
SENSES = {"rive": "a river's", "banque": "with money"}


@dataclass(frozen=True)
class Meanings:
    """How likely each meaning of "bank" is, after one ending of the sentence or none."""

    ending: str
    chances: dict[str, float]


def bank_meanings(translator: Translator) -> list[Meanings]:
    """The chances of *rive* and *banque* where the French names the bank, for each ending."""
    found = []
    for ending in ENDINGS:
        text = UNFINISHED if ending == "…" else f"{UNFINISHED} {ending}"
        seen = inspect(translator, text, BEFORE)
        found.append(Meanings(ending, {word: chance(seen, word, -1) for word in SENSES}))
    return found
