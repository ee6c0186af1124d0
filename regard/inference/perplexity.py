"""Perplexity: how a model is surprised by a text, however long."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from regard.errors import DataError, SettingError
from regard.inference.passes import forced
from regard.inference.tokens import Tokens
from regard.inference.windows import BUDGET
from regard.inference.writing import beginning
from regard.model.transformer import DecoderOnly
from regard.model.watch import Part, parts_of
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Perplexity:
    """e to the mean loss of a token; the score is the log-probability of the text, token by token."""

    perplexity: float
    score: float
    tokens: Tokens


@dataclass(frozen=True)
class Span:
    """A window over a text: it reads from begin to end, and counts from `counted` on."""

    begin: int
    counted: int
    end: int


def perplexity_of(
    model: DecoderOnly, tokenizer: Tokenizer, text: str, stride: int | None, off: Part | Iterable[Part]
) -> Perplexity:
    """Every token once, each in a window that looks back on at least `context - stride` others."""
    ids, parts = tokenizer.encode(text), parts_of(off)
    if not ids:
        raise DataError("the text has no token, so nothing can be surprising; give a longer one")
    whole = np.array([beginning(tokenizer)[-1], *ids])
    spans = list(spans_over(len(ids), model.config.context, stride))
    rows = max(1, BUDGET // model.config.context)
    chances: list[float] = []
    for first in range(0, len(spans), rows):
        few = spans[first : first + rows]
        inputs = [whole[span.begin : span.end] for span in few]
        outputs = [whole[span.begin + 1 : span.end + 1] for span in few]
        for span, found in zip(few, forced(model, inputs, outputs, None, parts), strict=True):
            chances += found[span.counted - span.begin :].tolist()
    score = math.fsum(chances)
    return Perplexity(_exp(-score / len(ids)), score, Tokens(tokenizer, ids, chances))


def spans_over(tokens: int, context: int, stride: int | None = None) -> Iterator[Span]:
    """Windows of at most `context` places that move on by `stride`, half of it where none is given."""
    step = max(1, context // 2) if stride is None else stride
    if not 1 <= step <= context:
        raise SettingError(f"stride ({step}) must lie between 1 and the context of {context}; leave it out")
    end = 0
    while end < tokens:
        counted, end = end, min(tokens, end + step if end else context)
        yield Span(max(0, end - context), counted, end)


def _exp(loss: float) -> float:
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
