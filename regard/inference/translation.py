"""Translation: the result of a Translator, and the translation of a long text joined from its parts."""

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
    """A text, or a part of one that was split."""

    text: str
    ids: np.ndarray  # with the end token
    gap: str = ""  # the white space after the part
    part: int = 0  # the index of the part


@dataclass(frozen=True)
class Translation:
    """A translated text with its scores.

    `score` is the log-probability of the generated tokens, the end token included. `rank_score` is the score
    divided by the length penalty. `reason` says why generation stopped: end, length, stuck or empty. With
    n_best, `others` are the translations that rank lower. A Rescorer may change `rank_score`; noisy-channel
    reranking also sets `channel_score`, the log-probability of the source given the translation. A text that
    was split has `parts`. Its scores are the sums of theirs, and only they have others, alignments and trees.
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
    channel_score: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The translation as JSON values."""
        values = {name: getattr(self, name) for name in ("text", "score", "rank_score", "reason")}
        if self.channel_score is not None:
            values["channel_score"] = self.channel_score
        values["tokens"] = [vars(token) for token in self.tokens]
        for name in ("others", "parts"):
            if getattr(self, name):
                values[name] = [translation.as_dict() for translation in getattr(self, name)]
        if self.alignment is not None:
            values["alignment"] = self.alignment.as_dict()
        if self.tree is not None:
            values["tree"] = self.tree.as_dict()
        return values


def empty_translation(tokenizer: Tokenizer) -> Translation:
    """The translation of a blank text."""
    return Translation("", 0.0, 0.0, Tokens(tokenizer, [], []), "empty")


def translation_of(answer: Answer, tokenizer: Tokenizer) -> Translation:
    """The best result of a search, with the others."""
    forced = answer.request.prefix[1:].tolist()
    best, *others = [_translation(result, forced, tokenizer) for result in answer.results]
    return replace(best, others=tuple(others), tree=answer.tree)


def _translation(result: Result, forced: list[int], tokenizer: Tokenizer) -> Translation:
    return Translation(
        tokenizer.decode([*forced, *result.content.tolist()]),
        result.score,
        result.rank_score,
        Tokens(tokenizer, [*forced, *result.ids.tolist()], result.log_probabilities.tolist(), len(forced)),
        result.reason,
    )


def join_parts(parts: Sequence[Translation], gaps: Sequence[str]) -> Translation:
    """Join the translations of a text's parts with the white space between the parts.

    If there was none, as between Chinese sentences, a space follows a sentence of a language that has spaces.
    """
    gaps = [
        gap or (" " if _SENTENCE_END.search(part.text) and following[:1].isalnum() else "")
        for part, gap, following in zip(parts, gaps, [*(part.text for part in parts[1:]), ""], strict=True)
    ]
    channel_scores = [part.channel_score for part in parts if part.channel_score is not None]
    return Translation(
        "".join(part.text + gap for part, gap in zip(parts, gaps, strict=True)),
        sum(part.score for part in parts),
        sum(part.rank_score for part in parts),
        Tokens.joined([part.tokens for part in parts], gaps),
        next((part.reason for part in parts if part.reason not in ("end", "empty")), "end"),
        parts=tuple(parts),
        channel_score=sum(channel_scores) if channel_scores else None,
    )
