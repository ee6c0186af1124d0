"""Tokens and choices as people read them: ids with their text and what the model thinks of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, overload

import numpy as np

from regard.errors import SettingError
from regard.text.tokenizer import TextStream, Tokenizer


def spellings(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The ids of words, as a text begins with each and as it stands after a space.

    A word that the tokenizer does not know cannot be said, and has none.
    """
    if isinstance(words, str):
        raise SettingError(f"forbidden ({words!r}) must be a list of words; put it in brackets")
    found: dict[tuple[int, ...], None] = {}
    for word in words:
        if not word.strip():
            raise SettingError(f"forbidden holds {word!r}, which is no word; leave it out")
        for text in (word, f" {word}"):
            found[tuple(tokenizer.encode(text))] = None
    unknown = tokenizer.specials.get("unknown")
    return tuple(ids for ids in found if ids and unknown not in ids)


# A stream of text settles within so many ids; more of what came before cannot change a piece.
_BEFORE = 16


@dataclass(frozen=True)
class Token:
    """A token that was said: the text it added, and its log-probability, None where it was given."""

    id: int
    text: str
    log_probability: float | None


@dataclass(frozen=True)
class Choice:
    """A token that could stand somewhere."""

    id: int
    text: str
    probability: float


class Tokens(Sequence[Token]):
    """The tokens of an answer, the end among them; their texts are worked out when they are looked at.

    The texts join to the whole text. A token that ends within a character adds nothing, the one that
    completes it adds all of it. `given` of them were forced and have no log-probability; `before` are ids
    that the text goes on from.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        ids: Sequence[int],
        log_probabilities: Sequence[float],
        given: int = 0,
        before: Sequence[int] = (),
    ):
        self.ids = np.asarray(ids, dtype=np.int64)
        self.log_probabilities = np.asarray(log_probabilities, dtype=np.float64)
        self.given = given
        self._tokenizer, self._texts = (
            tokenizer,
            partial(pieces, tokenizer, self.ids.tolist(), before[-_BEFORE:]),
        )
        assert len(self.ids) == len(self.log_probabilities) + given

    @classmethod
    def joined(cls, several: Sequence[Tokens], gaps: Sequence[str]) -> Tokens:
        """The tokens of a split text's parts; the white space behind a part belongs to its last token."""
        ids = np.concatenate([each.ids for each in several]).tolist()
        chances = np.concatenate([each.log_probabilities for each in several]).tolist()
        tokens = cls(several[0]._tokenizer, ids, chances, len(ids) - len(chances))
        tokens._texts = partial(_joined_texts, several, gaps)
        return tokens

    @cached_property
    def _tokens(self) -> list[Token]:
        ids = self.ids.tolist()
        chances = [None] * self.given + self.log_probabilities.tolist()
        return [Token(*each) for each in zip(ids, self._texts(), chances, strict=True)]

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Token: ...
    @overload
    def __getitem__(self, place: slice) -> list[Token]: ...
    def __getitem__(self, place: int | slice) -> Token | list[Token]:
        return self._tokens[place]

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokens) and self._told == other._told

    def __hash__(self) -> int:
        return hash(self._told)

    def __repr__(self) -> str:
        return f"Tokens({[token.text for token in self]})"

    @property
    def _told(self) -> tuple[Any, ...]:
        return self.given, *self.ids.tolist(), *self.log_probabilities.tolist()


def _joined_texts(several: Sequence[Tokens], gaps: Sequence[str]) -> list[str]:
    """The text of each token of several parts, so that they join to the parts with the gaps behind them."""
    texts: list[str] = []
    waiting = ""  # white space before the first token
    for tokens, gap in zip(several, gaps, strict=True):
        texts += [token.text for token in tokens]
        if not texts:
            waiting += gap
            continue
        texts[-1] += gap
    return [waiting + texts[0], *texts[1:]] if texts else []


def pieces(tokenizer: Tokenizer, ids: Sequence[int], before: Sequence[int] = ()) -> list[str]:
    """What each id adds to the text of those before it; what is left unsaid at the end is the last one's."""
    stream = stream_after(tokenizer, before)
    texts = [stream.add(number) for number in ids]
    if texts:
        texts[-1] += stream.finish()
    return texts


def stream_after(tokenizer: Tokenizer, before: Sequence[int]) -> TextStream:
    """A stream that has said the text of some ids already."""
    stream = tokenizer.stream()
    for number in before[-_BEFORE:]:
        stream.add(int(number))
    return stream


def check_count(top: int) -> None:
    """Refuse to show less than one of the likeliest."""
    if top < 1:
        raise SettingError(f"top ({top}) must be 1 or more")


def choices(
    tokenizer: Tokenizer, probabilities: np.ndarray, count: int, before: Sequence[int] = ()
) -> list[Choice]:
    """The likeliest tokens after some others, of V probabilities; equals in the order of their ids."""
    check_count(count)
    order = np.argsort(-probabilities, kind="stable")[:count].tolist()
    texts = [pieces(tokenizer, [number], before)[0] for number in order]
    return [Choice(i, text, float(probabilities[i])) for i, text in zip(order, texts, strict=True)]


def beginning(tokenizer: Tokenizer) -> list[int]:
    """What stands before the first word of a text: the token between documents, or the end of a line."""
    start, end = tokenizer.specials.get("start"), tokenizer.specials.get("end")
    line_end = tokenizer.encode("\n")
    if start is not None and start == end:
        return [start]
    known = line_end and tokenizer.specials.get("unknown") not in line_end
    return line_end if known or start is None else [start]
