"""Scores: BLEU and chrF as sacreBLEU counts them, perplexity, accuracy.

Translations are scored on detokenised text, whole corpora at a time; the signature says exactly how, so that
a figure can be set beside another one. BLEU, chrF and accuracy run from 0 to 100.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from regard.errors import DataError, SettingError, nearest

Numbers = Sequence[int] | np.ndarray


@dataclass(frozen=True)
class Score:
    """A figure with its name and, where there is one, the signature of how it was counted."""

    name: str
    value: float
    signature: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}" + (f" ({self.signature})" if self.signature else "")


@dataclass(frozen=True)
class Comparison:
    """Two systems on one test: their scores, and how likely chance alone explains the difference."""

    baseline: Score
    other: Score
    p_value: float

    def __str__(self) -> str:
        difference = self.other.value - self.baseline.value
        return (
            f"{self.baseline.name} {self.baseline.value:.2f} and {self.other.value:.2f}, "
            f"difference {difference:+.2f}, p = {self.p_value:.4f} ({self.other.signature})"
        )


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often a text of each label (row) was given each label (column)."""

    labels: tuple[str, ...]
    counts: np.ndarray

    def __str__(self) -> str:
        cells = [["", *self.labels]]
        cells += [[label, *map(str, row)] for label, row in zip(self.labels, self.counts, strict=True)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
        return "\n".join("  ".join(row) for row in rows)


def bleu(
    translations: Sequence[str], references: Sequence[str], lowercase: bool = False, tokenize: str = "13a"
) -> Score:
    """Corpus BLEU, the same figure as the sacrebleu command gives; `tokenize` is one of its names."""
    return _score(_bleu(lowercase, tokenize), translations, references, lowercase)


def chrf(translations: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Score:
    """Corpus chrF, the same figure as the sacrebleu command gives."""
    return _score(CHRF(lowercase=lowercase), translations, references, lowercase)


def translation_scores(translations: Sequence[str], references: Sequence[str]) -> list[Score]:
    """BLEU and chrF, each as written and lower-cased."""
    return [
        score(translations, references, lowercase) for score in (bleu, chrf) for lowercase in (False, True)
    ]


def compare_translations(
    baseline: Sequence[str],
    other: Sequence[str],
    references: Sequence[str],
    samples: int = 1000,
    lowercase: bool = False,
) -> list[Comparison]:
    """Two systems by BLEU and chrF with sacreBLEU's paired bootstrap; a p of 0.05 or less is a difference."""
    for system in (baseline, other):
        _equally_many(len(system), len(references))
    named: list[tuple[str, Sequence[str]]] = [("baseline", baseline), ("other", other)]
    metrics = {"BLEU": _bleu(lowercase, "13a"), "chrF": CHRF(lowercase=lowercase)}
    test = PairedTest(named, metrics, [references], test_type="bs", n_samples=samples)
    signatures, results = test()
    return [_comparison(name, results[name], str(signature)) for name, signature in signatures.items()]


def perplexity(summed_loss: float, tokens: int) -> Score:
    """e to the mean loss of a token, from a loss in nats summed over so many of them."""
    try:
        return Score("perplexity", math.exp(summed_loss / _at_least_one(tokens, "tokens")))
    except OverflowError:
        return Score("perplexity", math.inf)


def bits_per_character(summed_loss: float, characters: int) -> Score:
    """Bits to write down a character, whatever the tokens: comparable between tokenizers."""
    return Score("bits per character", summed_loss / math.log(2) / _at_least_one(characters, "characters"))


def accuracy(predicted: Numbers, expected: Numbers) -> Score:
    """How many of a hundred are right."""
    _equally_many(len(predicted), len(expected))
    return Score("accuracy", 100 * float(np.mean(np.asarray(predicted) == np.asarray(expected))))


def confusion(predicted: Numbers, expected: Numbers, labels: Sequence[str]) -> Confusion:
    """Count each kind of mistake; labels are named in the order of their numbers."""
    _equally_many(len(predicted), len(expected))
    counts = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(counts, (np.asarray(expected), np.asarray(predicted)), 1)
    return Confusion(tuple(labels), counts)


def _bleu(lowercase: bool, tokenize: str) -> BLEU:
    if tokenize not in BLEU.TOKENIZERS:
        raise SettingError(f"unknown tokenize {tokenize!r}; {nearest(tokenize, BLEU.TOKENIZERS)}")
    # force only silences a guess that text might be tokenised.
    return BLEU(lowercase=lowercase, tokenize=tokenize, force=True)


def _score(
    metric: BLEU | CHRF, translations: Sequence[str], references: Sequence[str], lowercase: bool
) -> Score:
    _equally_many(len(translations), len(references))
    found = metric.corpus_score(translations, [references])
    name = f"{found.name} lower-cased" if lowercase else found.name
    return Score(name, found.score, str(metric.get_signature()))


def _comparison(name: str, results: Sequence[str | Result], signature: str) -> Comparison:
    baseline, other = results
    assert isinstance(baseline, Result)
    assert isinstance(other, Result)
    assert other.p_value is not None
    # Where nothing differs, the bootstrap's count finds no sample beyond the difference and p comes out tiny.
    p_value = other.p_value if other.score != baseline.score else 1.0
    return Comparison(Score(name, baseline.score, signature), Score(name, other.score, signature), p_value)


def _equally_many(given: int, expected: int) -> None:
    if given != expected or not given:
        raise DataError(
            f"{given:,} results for {expected:,} references; each needs its own, and one at least"
        )


def _at_least_one(count: int, what: str) -> int:
    if count < 1:
        raise DataError(f"{what} ({count}) must be at least 1 to be averaged over")
    return count
