"""Translation: what a Translator gives back, and how the parts of a long text become one again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regard.inference.alignment import Alignment
from regard.inference.search.requests import Answer, Result
from regard.inference.search.selection import Tree
from regard.inference.tokens import Tokens
from regard.text.tokenizer import Tokenizer

_SENTENCE_END = re.compile(r"[.!?…][\"'’”»)\]]*\Z")


@dataclass(frozen=True, eq=False)
class Source:
    """A text or a part of one: its ids, the end among them, the white space behind it, and its place."""

    text: str
    ids: np.ndarray
    gap: str = ""
    place: int = 0


@dataclass(frozen=True)
class Translation:
    """A text in the other language and what the model thinks of it.

    `score` is the log-probability of the tokens that were not given, the end among them; `rank_score` is
    it divided by the length penalty. `reason` says why it is over: end, length, stuck, or empty. With
    n_best, `others` are those that rank below. Where the way back was asked for, `back_score` is the
    log-probability of the source given this, and `rank_score` has its share of it. A text that was split has
    `parts`, whose scores add up and which alone have others, alignments and trees.
    """

    text: str
    score: float
    rank_score: float
    tokens: Tokens
    reason: str = "end"
    others: tuple[Translation, ...] = ()
    alignment: Alignment | None = field(default=None, compare=False, repr=False)
    tree: Tree | None = field(default=None, compare=False, repr=False)
    parts: tuple[Translation, ...] = field(default=(), repr=False)
    back_score: float | None = None

    def as_data(self) -> dict[str, Any]:
        """The same in values that JSON can hold."""
        told = {name: getattr(self, name) for name in ("text", "score", "rank_score", "reason")}
        if self.back_score is not None:
            told["back_score"] = self.back_score
        told["tokens"] = [vars(token) for token in self.tokens]
        for name in ("others", "parts"):
            if getattr(self, name):
                told[name] = [each.as_data() for each in getattr(self, name)]
        if self.alignment is not None:
            told["alignment"] = self.alignment.as_data()
        if self.tree is not None:
            told["tree"] = self.tree.as_data()
        return told


def empty(tokenizer: Tokenizer) -> Translation:
    """The translation of nothing, and of white space."""
    return Translation("", 0.0, 0.0, Tokens(tokenizer, [], []), "empty")


def told(answer: Answer, tokenizer: Tokenizer) -> Translation:
    """The best result of a search, with the others."""
    forced = answer.request.prefix[1:]
    best, *others = [_of_result(result, forced, tokenizer) for result in answer.results]
    return replace(best, others=tuple(others), tree=answer.tree)


def joined(parts: Sequence[Translation], gaps: Sequence[str]) -> Translation:
    """The translations of a text's parts as one, with the white space that stood between them.

    Where none stood, as between Chinese sentences, a space follows a sentence of a language that has spaces.
    """
    gaps = _with_spaces([part.text for part in parts], gaps)
    return Translation(
        "".join(part.text + gap for part, gap in zip(parts, gaps, strict=True)),
        sum(part.score for part in parts),
        sum(part.rank_score for part in parts),
        Tokens.joined([part.tokens for part in parts], gaps),
        next((part.reason for part in parts if part.reason not in ("end", "empty")), "end"),
        parts=tuple(parts),
        back_score=_sum([part.back_score for part in parts]),
    )


def _with_spaces(texts: Sequence[str], gaps: Sequence[str]) -> list[str]:
    """The gap behind each text."""
    return [
        gap or (" " if _SENTENCE_END.search(text) and following[:1].isalnum() else "")
        for text, gap, following in zip(texts, gaps, [*texts[1:], ""], strict=True)
    ]


def _sum(scores: Sequence[float | None]) -> float | None:
    there = [score for score in scores if score is not None]
    return sum(there) if there else None


def _of_result(result: Result, forced: np.ndarray, tokenizer: Tokenizer) -> Translation:
    given, ids = forced.tolist(), result.ids.tolist()
    return Translation(
        tokenizer.decode([*given, *result.content.tolist()]),
        result.score,
        result.rank_score,
        Tokens(tokenizer, [*given, *ids], result.log_probabilities.tolist(), len(given)),
        result.reason,
    )
