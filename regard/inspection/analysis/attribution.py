"""Attribution: how much each input token speaks for one word and against another.

The score is the log-odds of the two words, log P(word) - log P(instead). Two methods divide it among the
embeddings of the input tokens, which are taken before positions are added:

gradient     input x gradient: the embedding times the gradient of the score, summed over the width
integrated   integrated gradients (Sundararajan et al. 2017): the mean gradient on the straight path from
             embeddings of zero, times the embedding. The sum over all tokens is the score minus the score
             of the embeddings of zero (completeness), up to the error of the numerical integral.

B passes, Q tokens, D width, V vocabulary, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import SettingError, UnknownName, UsageError, nearest
from regard.inspection.analysis.ablation import first_ids
from regard.inspection.record.record import Record
from regard.inspection.record.tokens import word_of
from regard.model.transformer import EncoderOnly

METHODS = ("gradient", "integrated")
POINTS = 48  # of the Gauss-Legendre rule; see Attribution.gap
AT_ONCE = 1024  # tokens of a batch of passes


@dataclass(frozen=True)
class Answer:
    """One of two words (or classes) that are compared, and its probability."""

    text: str
    ids: tuple[int, ...]
    probability: float


@dataclass(frozen=True, eq=False)
class Attribution:
    """The share of each input token in the log-odds of two answers, in nats.

    `tokens` has an array for each side, Q. `start` is the score of embeddings of zero; input x gradient has
    none.
    """

    method: str
    position: int | None  # None for the class of a whole text
    word: Answer
    instead: Answer
    score: float
    start: float | None
    tokens: dict[str, np.ndarray]

    @property
    def total(self) -> float:
        """The sum over all tokens."""
        return float(sum(shares.sum() for shares in self.tokens.values()))

    @property
    def gap(self) -> float | None:
        """How far the sum is from what completeness demands: the error of the numerical integral."""
        return None if self.start is None else self.total - (self.score - self.start)

    def as_dict(self) -> dict[str, Any]:
        """The fields as values that JSON can hold."""
        tokens = {side: shares.tolist() for side, shares in self.tokens.items()}
        answers = {"word": asdict(self.word), "instead": asdict(self.instead)}
        numbers = {"score": self.score, "start": self.start, "total": self.total, "gap": self.gap}
        return {"method": self.method, "position": self.position, **answers, **numbers, "tokens": tokens}


def attribute(
    record: Record,
    word: str | int | None = None,
    instead: str | int | None = None,
    position: int = -1,
    method: str = "integrated",
    points: int = POINTS,
) -> Attribution:
    """Why the model writes `word` and not `instead` after a position (at it, for a masked model).

    An answer is a word or an id. Without `word`, it is the token that was written there, or the most
    probable one. Without `instead`, it is the most probable other token. For a classifier the answers are
    numbers of classes, and the position is ignored.
    """
    if method not in METHODS:
        raise UnknownName(f"unknown method {method!r}; {nearest(method, METHODS)}")
    if points < 1:
        raise SettingError(f"points ({points}) must be at least 1; try {POINTS}")
    row, probabilities = _row(record, position)
    answers = _answers(record, row, probabilities, word, instead)
    score = _log_odds(row, *answers)
    inputs = {f"{side.name}.tokens": record.recording[f"{side.name}.tokens"] for side in record.all_sides}
    gradients, (value, start) = _path(record, score, inputs, *_quadrature(method, points))
    shares = {
        name.removesuffix(".tokens"): (gradients[name] * inputs[name])[0].sum(-1).cpu().numpy()
        for name in inputs
    }
    return Attribution(method, row, *answers, value, start if method == "integrated" else None, shares)


def _quadrature(method: str, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Where on the path from 0 to 1 gradients are taken, and their weights."""
    if method == "gradient":
        return np.ones(1), np.ones(1)
    places, weights = np.polynomial.legendre.leggauss(points)
    return (places + 1) / 2, weights / 2


def _path(
    record: Record,
    score: Callable[[Tensor], Tensor],
    inputs: dict[str, Tensor],
    places: np.ndarray,
    weights: np.ndarray,
) -> tuple[dict[str, Tensor], tuple[float, float]]:
    """The weighted sum of the gradients on the path, in float64, and the scores at its end and its start."""
    shares = np.concatenate([[1.0, 0.0], places])
    weights = np.concatenate([[0.0, 0.0], weights])
    rows = max(1, AT_ONCE // max(value.shape[1] for value in inputs.values()))
    scores: list[float] = []
    sums = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in inputs.items()}
    for first in range(0, len(shares), rows):
        part, weight = (torch.as_tensor(each[first : first + rows]) for each in (shares, weights))
        scaled = {name: value * part.to(value)[:, None, None] for name, value in inputs.items()}
        found, gradients = record.recording.differentiate(score, scaled)
        scores += found.tolist()
        for name, gradient in gradients.items():
            sums[name] += torch.einsum("b,bqd->qd", weight.to(sums[name]), gradient.double())
    return sums, (scores[0], scores[1])


def _row(record: Record, position: int) -> tuple[int | None, np.ndarray]:
    """The row of the output, and its probabilities; a classifier has one row."""
    if record.model.config.output == "classes":
        return None, record.recording.output.double().softmax(-1).cpu().numpy()
    row = record.written.find(position)[0]
    return row, record.probabilities[row]


def _answers(
    record: Record,
    row: int | None,
    probabilities: np.ndarray,
    word: str | int | None,
    instead: str | int | None,
) -> tuple[Answer, Answer]:
    if word is None:
        written = (
            None if row is None or isinstance(record.model, EncoderOnly) else record.followed[row : row + 1]
        )
        word = int(written[0] if written is not None and len(written) else probabilities.argmax())
    first = _answer(record, row, probabilities, word)
    if instead is None:
        others = probabilities.copy()
        others[list(first.ids)] = -1.0
        instead = int(others.argmax())
    second = _answer(record, row, probabilities, instead)
    if set(first.ids) & set(second.ids):
        raise UsageError(
            f"{first.text!r} and {second.text!r} begin with the same token; give two different words"
        )
    return first, second


def _answer(record: Record, row: int | None, probabilities: np.ndarray, word: str | int) -> Answer:
    if isinstance(word, str):
        if row is None:
            raise UsageError(f"{word!r} must be the number of a class; this model writes no words")
        ids = tuple(first_ids(record, word))
        return Answer(word, ids, float(probabilities[list(ids)].sum()))
    if not 0 <= word < len(probabilities):
        kind = "class" if row is None else "id"
        raise SettingError(f"no {kind} {word}; there are {len(probabilities):,}, counted from 0")
    text = str(word) if row is None else word_of(record.written.tokenizer, word)
    return Answer(text, (word,), float(probabilities[word]))


def _log_odds(row: int | None, word: Answer, instead: Answer) -> Callable[[Tensor], Tensor]:
    """log P(word) - log P(instead) as a function of the output, B Q V or B C."""

    def score(output: Tensor) -> Tensor:
        logits = (output if row is None else output[:, row]).float()
        return logits[:, list(word.ids)].logsumexp(-1) - logits[:, list(instead.ids)].logsumexp(-1)

    return score
