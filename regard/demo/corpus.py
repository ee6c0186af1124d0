"""The corpus: pairs drawn from the grammar, split so that the test asks for more than memory.

A tenth of the combinations of two nouns, and of an adjective and a noun, never occur in training, nor do the
lectures' sentences; every single word of theirs does. One English sentence has one French one and the
reverse: the same words are drawn once, with or without contractions, capitals and full stop. In reverse the
English side is written without contractions, since nothing in French tells "didn't" from "did not".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, islice
from random import Random
from typing import Literal, NamedTuple
from zlib import crc32

from regard.demo.grammar import FAMILIES
from regard.demo.lectures import HELD_OUT, LECTURES, REVERSED, Lecture
from regard.demo.sentences import Pair, Sentence, same
from regard.demo.things import quick_brown_fox
from regard.errors import SettingError

Language = Literal["en", "fr"]

SEED, PAIRS, FEWEST, MOST = 1, 30_000, 1_000, 60_000
# How many sentences are held out of each kind: "it" with two nouns that never met in training, another
# combination that never did, and plain new sentences.
TEST = {"it": 400, "combination": 300, "sentence": 500}
VALID = {"it": 150, "combination": 100, "sentence": 250}
# One in this many sentences of each kind is held out.
ONE_IN = {"combination": 10, "sentence": 25}
# Each word of a held-out sentence occurs at least this often in training; spare ones are drawn.
FAMILIAR, SPARE = 5, 1.2
# The maximum number of draws per wanted sentence.
PATIENCE = 20
ENGLISH_WORD = re.compile(r"\w+(?:'\w+)?")
FRENCH_WORD = re.compile(r"(?i:aujourd'hui)|[\w-]+'?")


class Drawn(NamedTuple):
    """A sentence with its family and its characteristic combinations of words."""

    family: str
    sentence: Sentence
    key: str


@dataclass(frozen=True)
class Corpus:
    """Training, validation and test pairs, and the lectures' sentences."""

    train: tuple[Pair, ...]
    valid: tuple[Pair, ...]
    test: tuple[Pair, ...]
    lectures: tuple[Lecture, ...]
    reverse: bool = False

    def words(self, language: Language) -> frozenset[str]:
        """All words of the training text, in lower case."""
        is_source = (language == "en") != self.reverse
        texts = (pair.source if is_source else pair.target for pair in self.train)
        return frozenset(word.lower() for text in texts for word in split_words(text, language))


def corpus(
    seed: int = SEED, pairs: int = PAIRS, reverse: bool = False, weights: Mapping[str, float] | None = None
) -> Corpus:
    """Build a corpus with this number of training pairs; `weights` changes the weights of families."""
    if not FEWEST <= pairs <= MOST:
        raise SettingError(f"pairs ({pairs}) must be between {FEWEST} and {MOST}; try {PAIRS}")
    draw = Random(seed)
    train = [_write(draw, Drawn("leaping", quick_brown_fox(), ""), reverse)]
    held: dict[str, list[Pair]] = {kind: [] for kind in TEST}
    missing = pairs - 1 + sum(map(_wanted, held))
    for drawn in _distinct(draw, weights or {}, PATIENCE * missing):
        kind = _kind(seed, drawn)
        pool = held[kind] if kind else train
        if len(pool) < (_wanted(kind) if kind else pairs):
            pool.append(_write(draw, drawn, reverse))
            missing -= 1
            if not missing:
                break
    test, valid = _held_out(draw, train, held)
    draw.shuffle(train)
    return Corpus(tuple(train), valid, test, REVERSED if reverse else LECTURES, reverse)


def _wanted(kind: str) -> int:
    return int(SPARE * (TEST[kind] + VALID[kind]))


def _distinct(draw: Random, weights: Mapping[str, float], draws: int) -> Iterator[Drawn]:
    """Draw sentences with distinct English and French words, without the lectures' sentences."""
    for name in weights:
        FAMILIES.find(name)
    names = list(FAMILIES)
    shares = list(accumulate(weights.get(name, FAMILIES[name].weight) for name in names))
    english, french = {same(lecture.source) for lecture in LECTURES}, set()
    for _ in range(draws):
        (name,) = draw.choices(names, cum_weights=shares)
        sentence = FAMILIES[name].rule(draw)
        key = sentence.key()
        forms = tuple(word.form for word in sentence.phrase.french)
        if key not in english and forms not in french:
            english.add(key)
            french.add(forms)
            yield Drawn(name, sentence, key)
    raise SettingError(
        "pairs is more than these families can tell apart; ask for fewer or raise other weights"
    )


def _kind(seed: int, drawn: Drawn) -> str:
    """The kind of a held-out sentence, or None for a training sentence."""
    for combination in drawn.sentence.combinations:
        if is_held_out(combination, seed):
            return "it" if "/" in combination and drawn.family in ("it", "fit") else "combination"
    return "sentence" if _one_in(seed, drawn.key, ONE_IN["sentence"]) else ""


@cache
def is_held_out(combination: str, seed: int = SEED) -> bool:
    """Whether sentences with this combination of words are left out of training."""
    if combination in quick_brown_fox().combinations:
        return False
    return combination in HELD_OUT or _one_in(seed, combination, ONE_IN["combination"])


def _one_in(seed: int, text: str, many: int) -> bool:
    return crc32(f"{seed} {text}".encode()) % many == 0


def _write(draw: Random, drawn: Drawn, reverse: bool) -> Pair:
    """Draw a writing style, usually the standard one; a question keeps its mark."""
    sentence, short = drawn.sentence, draw.random() < 0.5
    unusual = sentence.mark != "?" and draw.random() < 0.2
    style = draw.choice(sentence.styles) if unusual else sentence.usual
    return sentence.pair(drawn.family, style, short, reverse)


def _held_out(
    draw: Random, train: list[Pair], held: Mapping[str, list[Pair]]
) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """Test and validation sentences whose words all occur often enough in training."""
    counts = Counter(word for pair in train for word in (*pair.source.split(), *pair.target.split()))
    familiar = {word for word, count in counts.items() if count >= FAMILIAR}
    test: list[Pair] = []
    valid: list[Pair] = []
    for kind, pool in held.items():
        usable = (pair for pair in pool if familiar.issuperset((*pair.source.split(), *pair.target.split())))
        test += islice(usable, TEST[kind])
        valid += islice(usable, VALID[kind])
    draw.shuffle(test)
    draw.shuffle(valid)
    return tuple(test), tuple(valid)


def split_words(text: str, language: Language) -> list[str]:
    """Split a text into words: English keeps didn't whole, French splits l' and qu'."""
    return (ENGLISH_WORD if language == "en" else FRENCH_WORD).findall(text)


@cache
def built_in() -> Corpus:
    """The default corpus of the demo, cached."""
    return corpus()


@cache
def known_words(language: Language) -> frozenset[str]:
    """All words of the default training text, in lower case."""
    return built_in().words(language)
