"""Translation and Alignment: the results of a Translator; a long text joined from its parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from regard.errors import SettingError
from regard.inference.search.requests import Answer, Result, Tree
from regard.inference.tokens import Tokens, entropy
from regard.text.tokenizer import Tokenizer

_SENTENCE_END = re.compile(r"[.!?…][\"'’”»)\]]*\Z")


@dataclass(frozen=True, eq=False)
class Source:
    """A text, or a part of one that was split."""

    text: str
    ids: np.ndarray  # with the end token
    gap: str = ""  # the white space after the part
    part: int = 0  # the index of the part


@dataclass(frozen=True, eq=False)
class Alignment:
    """Which source tokens the tokens of a translation came from, by the cross-attention of a forced pass.

    The head that aligns best is the one with the highest mutual information, in nats, between the target
    token (drawn uniformly) and the source token that it attends to. A head that attends to everything, or
    always to one token, has none. L layers, H heads, T target tokens, S source tokens, both with the end
    token.
    """

    source: tuple[str, ...]  # the text of each source token; the end token has none
    target: tuple[str, ...]
    weights: np.ndarray  # L H T S
    ended: bool = True  # whether the last target token is the end token

    @cached_property
    def information(self) -> np.ndarray:
        """L H: the mutual information of each head, in nats."""
        return entropy(self.weights.mean(axis=2)) - entropy(self.weights).mean(axis=2)

    @property
    def layer(self) -> int:
        """The layer of the head that aligns best."""
        return int(self.information.argmax()) // self.weights.shape[1]

    @property
    def head(self) -> int:
        """The head that aligns best, in its layer."""
        return int(self.information.argmax()) % self.weights.shape[1]

    @property
    def matrix(self) -> np.ndarray:
        """T S: the weights of the head that aligns best."""
        return self.weights[self.layer, self.head]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """(target, source) of every target token, by the head that aligns best."""
        return self.pairs_of(self.layer, self.head)

    def pairs_of(self, layer: int, head: int) -> list[tuple[int, int]]:
        """(target, source) of every target token but the end: the source token with the highest weight."""
        layers, heads = self.weights.shape[:2]
        if not (0 <= layer < layers and 0 <= head < heads):
            raise SettingError(
                f"layer {layer}, head {head}: there are {layers} layers of {heads} heads, counted from 0"
            )
        words = self.weights[layer, head, : len(self.target) - self.ended, :-1]
        return list(enumerate(words.argmax(axis=1).tolist()))

    def as_dict(self) -> dict[str, Any]:
        """The head that aligns best and its pairs as JSON values."""
        return {
            "layer": self.layer,
            "head": self.head,
            "pairs": self.pairs,
            "source": list(self.source),
            "target": list(self.target),
        }


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
