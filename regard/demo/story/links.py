"""Which heads link "it" with its noun and adjective, and how likely each meaning of "bank" is."""

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

# A head is clean if at least half of its attention goes to the word; otherwise the best few are shown.
CLEAN, FEW = 0.5, 3
# Sentences of the test set, besides the lectures' two, over which heads are ranked.
PROBES = 12
# The kinds of attention that can reach each word; the French adjective follows the pronoun.
KINDS = {"noun": ("encoder", "cross", "decoder"), "adjective": ("encoder", "cross")}
PRONOUNS = ("il", "elle")


@dataclass(frozen=True)
class Linked:
    """A sentence with "it", the noun it refers to and the adjective that decides it."""

    text: str
    noun: str
    adjective: str


TIRED = Linked("The animal didn't cross the street because it was too tired", "animal", "tired")
WIDE = Linked("The animal didn't cross the street because it was too wide", "street", "wide")


@dataclass(frozen=True, eq=False)
class Scene:
    """A sentence with the inspection of its translation."""

    linked: Linked
    seen: Inspection

    @property
    def translation(self) -> str:
        """The model's translation."""
        assert self.seen.target is not None
        return self.seen.target.text

    def query(self, kind: str) -> int | None:
        """The query position: "it" in the source, or the step that writes il or elle; None without them."""
        if kind == "encoder":
            return self.seen.side("source").find("it")[0]
        target, word = self.seen.side("target"), pronoun(self.translation)
        return target.find(word)[0] - 1 if word and target.has(word) else None

    def keys(self, kind: str, word: str) -> tuple[int, ...]:
        """The key positions of its "noun" or "adjective"; in French with the article."""
        english = getattr(self.linked, word)
        if kind != "decoder":
            return self.seen.side("source").find(english)
        target, noun = self.seen.side("target"), NOUNS.get(english)
        if noun is None or not target.has(noun.french):
            return ()
        (place, *_) = target.find(noun.french)
        return (place - 1, place)


@dataclass(frozen=True)
class Finding:
    """All heads by the strength of their link from "it" to one kind of word ("noun" or "adjective")."""

    word: str
    heads: tuple[Ranked, ...]
    sentences: int

    @property
    def best(self) -> Ranked:
        """The head with the strongest link."""
        return self.heads[0]

    @property
    def is_clean(self) -> bool:
        """Whether one head suffices."""
        return self.best.weight >= CLEAN

    @property
    def shown(self) -> tuple[Ranked, ...]:
        """The clean head, or the best few."""
        return self.heads[:1] if self.is_clean else self.heads[:FEW]


def find_heads(scenes: Sequence[Scene], word: str) -> Finding:
    """Rank the heads by the mean attention from "it", or from il and elle, to its `word`."""
    heads = [ranked for kind in KINDS[word] for ranked in _ranked(scenes, kind, word)]
    return Finding(word, tuple(sorted(heads, key=lambda ranked: -ranked.weight)), len(scenes))


def least_linked(findings: Sequence[Finding]) -> list[Ranked]:
    """The heads of all findings in ascending order of their strongest link."""
    strongest: dict[tuple[str, int, int], Ranked] = {}
    for ranked in (head for finding in findings for head in finding.heads):
        key = (ranked.kind, ranked.layer, ranked.head)
        if key not in strongest or ranked.weight > strongest[key].weight:
            strongest[key] = ranked
    return sorted(strongest.values(), key=lambda ranked: ranked.weight)


def pronoun(french: str) -> str:
    """The first il or elle of a French text, or an empty string."""
    return next((word for word in split_words(french.lower(), "fr") if word in PRONOUNS), "")


def links_of(sentences: Corpus) -> list[Linked]:
    """Sentences of the test set in which "it" refers to one of two nouns."""
    pairs = (_linked(pair) for pair in sentences.test if pair.family == "it" and not sentences.reverse)
    return [linked for linked in pairs if linked is not None][:PROBES]


def scenes_of(translator: Translator, facts: Mapping[str, Any]) -> list[Scene]:
    """The lectures' two sentences and the stored test sentences, translated and inspected."""
    sentences = [TIRED, WIDE, *(Linked(**values) for values in facts["links"])]
    translations = translate(translator, [linked.text for linked in sentences])
    pairs = zip(sentences, translations, strict=True)
    return [Scene(linked, inspect(translator, linked.text, target)) for linked, target in pairs]


def _ranked(scenes: Sequence[Scene], kind: str, word: str) -> Iterator[Ranked]:
    """The heads of one kind over the scenes that have both a query and keys."""
    cases = [(scene.seen, scene.query(kind), list(scene.keys(kind, word))) for scene in scenes]
    complete = [(seen, query, keys) for seen, query, keys in cases if query is not None and keys]
    if not complete:
        return
    uniform = float(np.mean([len(keys) / seen.visible(kind, 0)[at].sum() for seen, at, keys in complete]))
    for layer in range(complete[0][0].layers(kind)):
        weights = np.array([seen.attention(kind, layer)[:, at, keys].sum(-1) for seen, at, keys in complete])
        for head, by_scene in enumerate(weights.T):
            yield Ranked(kind, layer, head, float(by_scene.mean()), uniform, tuple(map(float, by_scene)))


def _linked(pair: Pair) -> Linked | None:
    """A pair of the grammar as a Linked sentence, if "it" and both words occur exactly once."""
    words = split_words(pair.source, "en")
    described = (text.rpartition(" ") for text in pair.combinations)
    noun = next((noun for adjective, _, noun in described if adjective == words[-1]), "")
    is_plain = all(words.count(word) == 1 for word in ("it", noun, words[-1]))
    return Linked(pair.source, noun, words[-1]) if is_plain else None


@dataclass(frozen=True)
class Expected:
    """In how many cases (encoder heads times sentences) the expected order of scores holds."""

    cases: int
    noun_highest: int
    whole: int  # the noun is highest, and "it" itself second
    by_chance: float  # expected number of noun_highest in a random order


def expected_order(scenes: Sequence[Scene]) -> Expected:
    """Count the encoder heads and scenes whose raw scores have the expected order."""
    pairs = [(_scores(scene), scene) for scene in scenes]
    noun, itself = np.concatenate([_ranks(scores, scene) for scores, scene in pairs]).T
    highest = noun == 0
    chances = sum(len(scores) / scores.shape[1] for scores, _ in pairs)
    return Expected(len(noun), int(highest.sum()), int((highest & (itself == 1)).sum()), chances)


def _scores(scene: Scene) -> np.ndarray:
    """The raw scores of "it" with each word, heads of all layers x words."""
    query, layers = scene.query("encoder"), range(scene.seen.layers("encoder"))
    scores = [scene.seen[f"{attention_path('encoder', layer)}.scores"][:, query] for layer in layers]
    return np.concatenate(scores)[:, _words(scene)]


def _ranks(scores: np.ndarray, scene: Scene) -> np.ndarray:
    """The ranks of the noun and of "it" itself by score, heads x 2; the highest score has rank 0."""
    words, source = _words(scene), scene.seen.side("source")
    at = [words.index(source.find(word)[0]) for word in (scene.linked.noun, "it")]
    return np.stack([(scores > scores[:, [place]]).sum(-1) for place in at], axis=-1)


def _words(scene: Scene) -> list[int]:
    return [place for place, token in enumerate(scene.seen.tokens("source")) if token.special is None]


UNFINISHED = "I arrived at the bank after crossing the"
ENDINGS = ("…", "river", "street")
BEFORE = "Je suis arrivé à la"  # precedes the word in each translation
SENSES = {"rive": "a river's", "banque": "with money"}


@dataclass(frozen=True)
class Meanings:
    """The probability of each meaning of "bank", after one ending of the sentence or none."""

    ending: str
    chances: dict[str, float]


def bank_meanings(translator: Translator) -> list[Meanings]:
    """The probabilities of *rive* and *banque* for each ending."""
    meanings = []
    for ending in ENDINGS:
        text = UNFINISHED if ending == "…" else f"{UNFINISHED} {ending}"
        seen = inspect(translator, text, BEFORE)
        meanings.append(Meanings(ending, {word: chance(seen, word, -1) for word in SENSES}))
    return meanings
