"""Tokens and choices for people: ids with their texts and probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, overload

import numpy as np

from regard.errors import SettingError
from regard.text.tokenizer import TextStream, Tokenizer

_CONTEXT = 16  # ids before a token that can change its text


def spellings(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The ids of words, at the beginning of a text and after a space.

    A word with an unknown token has none, because it cannot be generated.
    """
    if isinstance(words, str):
        raise SettingError(f"forbidden ({words!r}) must be a list of words; put it in brackets")
    sequences: dict[tuple[int, ...], None] = {}
    for word in words:
        if not word.strip():
            raise SettingError(f"forbidden holds {word!r}, which is no word; leave it out")
        for text in (word, f" {word}"):
            sequences[tuple(tokenizer.encode(text))] = None
    unknown = tokenizer.specials.get("unknown")
    return tuple(ids for ids in sequences if ids and unknown not in ids)


@dataclass(frozen=True)
class Token:
    """A token of an answer: the text that it adds, and its log-probability, None if it was forced."""

    id: int
    text: str
    log_probability: float | None


@dataclass(frozen=True)
class Choice:
    """A token that a model could generate at a position."""

    id: int
    text: str
    probability: float


class Tokens(Sequence[Token]):
    """The tokens of an answer, with the end token; their texts are computed on first use.

    The texts join to the whole text. A token that ends inside a character adds nothing; the token that
    completes the character adds all of it. The first `forced` tokens were given and have no log-probability.
    `before` are the ids before the answer.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        ids: Sequence[int],
        log_probabilities: Sequence[float],
        forced: int = 0,
        before: Sequence[int] = (),
    ):
        self.ids = np.asarray(ids, dtype=np.int64)
        self.log_probabilities = np.asarray(log_probabilities, dtype=np.float64)
        self.forced = forced
        self._tokenizer = tokenizer
        self._texts = partial(pieces, tokenizer, self.ids.tolist(), before[-_CONTEXT:])
        assert len(self.ids) == len(self.log_probabilities) + forced

    @classmethod
    def joined(cls, parts: Sequence[Tokens], gaps: Sequence[str]) -> Tokens:
        """The tokens of a split text's parts; the white space after a part belongs to its last token."""
        ids = np.concatenate([tokens.ids for tokens in parts]).tolist()
        log_probabilities = np.concatenate([tokens.log_probabilities for tokens in parts]).tolist()
        whole = cls(parts[0]._tokenizer, ids, log_probabilities, len(ids) - len(log_probabilities))
        whole._texts = partial(_joined_texts, parts, gaps)
        return whole

    @cached_property
    def _tokens(self) -> list[Token]:
        log_probabilities = [None] * self.forced + self.log_probabilities.tolist()
        columns = zip(self.ids.tolist(), self._texts(), log_probabilities, strict=True)
        return [Token(*values) for values in columns]

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> list[Token]: ...
    def __getitem__(self, index: int | slice) -> Token | list[Token]:
        return self._tokens[index]

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokens) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return f"Tokens({[token.text for token in self]})"

    @property
    def _values(self) -> tuple[Any, ...]:
        return self.forced, *self.ids.tolist(), *self.log_probabilities.tolist()


def _joined_texts(parts: Sequence[Tokens], gaps: Sequence[str]) -> list[str]:
    """The texts of the tokens of several parts, with the gaps after the parts."""
    texts: list[str] = []
    leading = ""  # white space before the first token
    for tokens, gap in zip(parts, gaps, strict=True):
        texts += [token.text for token in tokens]
        if not texts:
            leading += gap
            continue
        texts[-1] += gap
    return [leading + texts[0], *texts[1:]] if texts else []


def pieces(tokenizer: Tokenizer, ids: Sequence[int], before: Sequence[int] = ()) -> list[str]:
    """The text that each id adds after the ids before it; an incomplete rest belongs to the last id."""
    stream = stream_after(tokenizer, before)
    texts = [stream.add(number) for number in ids]
    if texts:
        texts[-1] += stream.finish()
    return texts


def stream_after(tokenizer: Tokenizer, before: Sequence[int]) -> TextStream:
    """A text stream that continues after some ids."""
    stream = tokenizer.stream()
    for number in before[-_CONTEXT:]:
        stream.add(int(number))
    return stream


def check_count(top: int) -> None:
    """Raise if the number of choices is below 1."""
    if top < 1:
        raise SettingError(f"top ({top}) must be 1 or more")


def choices(
    tokenizer: Tokenizer, probabilities: np.ndarray, count: int, before: Sequence[int] = ()
) -> list[Choice]:
    """The likeliest tokens after some ids, from V probabilities; equal ones are ordered by id."""
    check_count(count)
    order = np.argsort(-probabilities, kind="stable")[:count].tolist()
    texts = [pieces(tokenizer, [number], before)[0] for number in order]
    return [Choice(i, text, float(probabilities[i])) for i, text in zip(order, texts, strict=True)]


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """- sum of p log p over the last axis, in nats."""
    return -(probabilities * np.log(np.maximum(probabilities, 1e-30))).sum(axis=-1)


def beginning(tokenizer: Tokenizer) -> list[int]:
    """The ids before the first word: those of the tokenizer, the token between documents, or a line end."""
    if tokenizer.opening:
        return [*tokenizer.opening]
    start, end = tokenizer.specials.get("start"), tokenizer.specials.get("end")
    line_end = tokenizer.encode("\n")
    if start is not None and start == end:
        return [start]
    is_known = line_end and tokenizer.specials.get("unknown") not in line_end
    return line_end if is_known or start is None else [start]
