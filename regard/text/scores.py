"""Metrics: BLEU and chrF from sacreBLEU, perplexity, bits per character, accuracy.

BLEU and chrF are corpus scores of detokenised text. Scores with equal signatures are comparable. BLEU, chrF
and accuracy range from 0 to 100.
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
    """A named value, with sacreBLEU's signature for BLEU and chrF."""

    name: str
    value: float
    signature: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}" + (f" ({self.signature})" if self.signature else "")


@dataclass(frozen=True)
class Comparison:
    """The scores of two systems on one test set, and the p-value of their difference."""

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
    """A confusion matrix: counts by true label (row) and predicted label (column)."""

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
    """Corpus BLEU, equal to the sacrebleu command's; `tokenize` is a name of its tokenizers."""
    return _score(_bleu(lowercase, tokenize), translations, references, lowercase)


def chrf(translations: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Score:
    """Corpus chrF, equal to the sacrebleu command's."""
    return _score(CHRF(lowercase=lowercase), translations, references, lowercase)


def translation_scores(translations: Sequence[str], references: Sequence[str]) -> list[Score]:
    """BLEU and chrF, each cased and lower-cased."""
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
    """BLEU and chrF of two systems with sacreBLEU's paired bootstrap; p <= 0.05 is significant."""
    for system in (baseline, other):
        _check_counts(len(system), len(references))
    named: list[tuple[str, Sequence[str]]] = [("baseline", baseline), ("other", other)]
    metrics = {"BLEU": _bleu(lowercase, "13a"), "chrF": CHRF(lowercase=lowercase)}
    test = PairedTest(named, metrics, [references], test_type="bs", n_samples=samples)
    signatures, results = test()
    return [_comparison(name, results[name], str(signature)) for name, signature in signatures.items()]


def perplexity(summed_loss: float, tokens: int) -> Score:
    """exp(mean loss per token), from a loss in nats summed over the tokens."""
    try:
        return Score("perplexity", math.exp(summed_loss / _at_least_one(tokens, "tokens")))
    except OverflowError:
        return Score("perplexity", math.inf)


def bits_per_character(summed_loss: float, characters: int) -> Score:
    """Mean loss in bits per character, which is comparable between tokenizers."""
    return Score("bits per character", summed_loss / math.log(2) / _at_least_one(characters, "characters"))


def accuracy(predicted: Numbers, expected: Numbers) -> Score:
    """The percentage of correct predictions."""
    _check_counts(len(predicted), len(expected))
    return Score("accuracy", 100 * float(np.mean(np.asarray(predicted) == np.asarray(expected))))


def macro_f1(table: Confusion) -> Score:
    """The mean of the F1 of each label, as a percentage: rare labels count as much as common ones.

    F1 is 2 x hits / (predicted + expected). A label that is neither predicted nor expected is left out.
    """
    hits, marked = table.counts.diagonal(), table.counts.sum(0) + table.counts.sum(1)
    known = marked > 0
    return Score("F1", 100 * float(np.mean(2 * hits[known] / marked[known])))


def confusion(predicted: Numbers, expected: Numbers, labels: Sequence[str]) -> Confusion:
    """The confusion matrix; `labels` are in the order of their indices."""
    _check_counts(len(predicted), len(expected))
    counts = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(counts, (np.asarray(expected), np.asarray(predicted)), 1)
    return Confusion(tuple(labels), counts)


def _bleu(lowercase: bool, tokenize: str) -> BLEU:
    if tokenize not in BLEU.TOKENIZERS:
        raise SettingError(f"unknown tokenize {tokenize!r}; {nearest(tokenize, BLEU.TOKENIZERS)}")
    # force silences the warning that text looks tokenised.
    return BLEU(lowercase=lowercase, tokenize=tokenize, force=True)


def _score(
    metric: BLEU | CHRF, translations: Sequence[str], references: Sequence[str], lowercase: bool
) -> Score:
    _check_counts(len(translations), len(references))
    score = metric.corpus_score(translations, [references])
    name = f"{score.name} lower-cased" if lowercase else score.name
    return Score(name, score.score, str(metric.get_signature()))


def _comparison(name: str, results: Sequence[str | Result], signature: str) -> Comparison:
    baseline, other = results
    assert isinstance(baseline, Result)
    assert isinstance(other, Result)
    assert other.p_value is not None
    # For equal scores the bootstrap counts no sample beyond the difference and returns a tiny p.
    p_value = other.p_value if other.score != baseline.score else 1.0
    return Comparison(Score(name, baseline.score, signature), Score(name, other.score, signature), p_value)


def _check_counts(outputs: int, references: int) -> None:
    if outputs != references or not outputs:
        raise DataError(
            f"{outputs:,} results and {references:,} references; give equally many, and at least one"
        )


def _at_least_one(count: int, what: str) -> int:
    if count < 1:
        raise DataError(f"{what} ({count}) must be at least 1; give text to score")
    return count
