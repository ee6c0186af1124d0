"""Tokens with labels: the source or the target of a pass, as tokens and as words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from regard.errors import DataError, SettingError, UnknownName, nearest
from regard.text.tokenizer import Piece, Tokenizer

BLANKS = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "⏎"})


@dataclass(frozen=True)
class Token:
    """A token with its label, its span in the text, and the number of its word.

    Words count from 0. A special token is a word of its own and has a role ("start", "end", "mask", ...);
    one that is not written in the text has no span.
    """

    id: int
    text: str
    word: int
    start: int | None = None
    end: int | None = None
    special: str | None = None


@dataclass(frozen=True)
class Word:
    """A word and the positions of its tokens."""

    text: str
    positions: tuple[int, ...]
    special: str | None = None


@dataclass(frozen=True, eq=False)
class Side:
    """The source or the target: a text and the tokens that the model reads."""

    name: str
    text: str
    tokens: tuple[Token, ...]
    tokenizer: Tokenizer

    @classmethod
    def of_text(
        cls,
        name: str,
        tokenizer: Tokenizer,
        text: str,
        first: Iterable[int] = (),
        last: Iterable[int] = (),
        with_mask: bool = False,
    ) -> Side:
        """A text as its tokenizer splits it, between the ids `first` and `last`."""
        pieces = tokenizer.tokens(text, with_mask)
        return cls(name, text, tuple(_label(tokenizer, [*first], pieces, [*last])), tokenizer)

    @classmethod
    def of_ids(
        cls,
        name: str,
        tokenizer: Tokenizer,
        ids: Sequence[int],
        first: Iterable[int] = (),
        last: Iterable[int] = (),
    ) -> Side:
        """Ids as a model wrote them, which may differ from how its tokenizer splits their text."""
        padding = tokenizer.specials.get("pad")
        ids = [int(number) for number in ids if number != padding]
        text = tokenizer.decode(ids)
        pieces = tokenizer.tokens(text)
        if [piece.id for piece in pieces] != ids:
            pieces = _pieces_of_ids(tokenizer, ids, text, pieces)
        return cls(name, text, tuple(_label(tokenizer, [*first], pieces, [*last])), tokenizer)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def ids(self) -> np.ndarray:
        """The ids of the tokens."""
        return np.array([token.id for token in self.tokens], dtype=np.int64)

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """The words in order; a special token and a token of white space are words too."""
        words = []
        for _, run in groupby(enumerate(self.tokens), key=lambda pair: pair[1].word):
            positions, tokens = zip(*run, strict=True)
            words.append(Word(self._text_of(tokens), positions, tokens[0].special))
        return tuple(words)

    def span(self, word: Word) -> tuple[int, int] | None:
        """Where a word stands in the text, without the white space around it; None if it is not written."""
        tokens = [self.tokens[position] for position in word.positions]
        places = [(t.start, t.end) for t in tokens if t.start is not None and t.end is not None]
        if not places:
            return None
        start, end = places[0][0], places[-1][1]
        written = self.text[start:end]
        return start + len(written) - len(written.lstrip()), end - len(written) + len(written.rstrip())

    def labels(self, words: bool = False) -> list[str]:
        """The labels of rows and columns."""
        return [part.text for part in (self.words if words else self.tokens)]

    def find(self, wanted: str | int, words: bool = False) -> tuple[int, ...]:
        """The positions of the first word of that spelling, or of the token or word of that number."""
        if isinstance(wanted, int):
            return self._numbered(wanted, words)
        for spell in (str, str.casefold):
            for part in (*self.words, *self.tokens):
                if spell(part.text) == spell(wanted):
                    return part.positions if isinstance(part, Word) else (self.tokens.index(part),)
        known = nearest(wanted, dict.fromkeys(word.text for word in self.words))
        raise UnknownName(f"no word {wanted!r} in the {self.name}; {known}")

    def has(self, word: str) -> bool:
        """Whether `find` finds this word."""
        return any(part.text.casefold() == word.casefold() for part in (*self.words, *self.tokens))

    def merge(self) -> np.ndarray:
        """A matrix words x tokens, 1 where a token belongs to a word."""
        membership = np.zeros((len(self.words), len(self.tokens)))
        for number, word in enumerate(self.words):
            membership[number, list(word.positions)] = 1.0
        return membership

    def _numbered(self, number: int, words: bool) -> tuple[int, ...]:
        parts = self.words if words else self.tokens
        if not -len(parts) <= number < len(parts):
            kind = "word" if words else "token"
            raise SettingError(f"no {kind} {number} in the {self.name}; it has {len(parts)}, counted from 0")
        number %= len(parts)
        return self.words[number].positions if words else (number,)

    def _text_of(self, tokens: Sequence[Token]) -> str:
        places = [(t.start, t.end) for t in tokens if t.start is not None and t.end is not None]
        if tokens[0].special or not places:
            return tokens[0].text
        return _visible(self.text[places[0][0] : places[-1][1]]) or tokens[0].text


def merge_words(weights: np.ndarray, queries: Side, keys: Side) -> np.ndarray:
    """Weights .. Q K between tokens as weights between words: keys are summed, queries averaged.

    The sum of a row stays the same.
    """
    summed = _summed(_summed(weights, keys, -1), queries, -2)
    many = np.array([len(word.positions) for word in queries.words], dtype=weights.dtype)
    return summed / many[:, None]


def _summed(weights: np.ndarray, side: Side, axis: int) -> np.ndarray:
    """Sum the tokens of each word along an axis; they are adjacent."""
    if len(side.words) == len(side.tokens):
        return weights
    starts = np.array([word.positions[0] for word in side.words], dtype=np.intp)
    return np.add.reduceat(weights, starts, axis=axis)


def word_of(tokenizer: Tokenizer, number: int) -> str:
    """The text of an id; a special id by its role."""
    roles = {special: role for role, special in tokenizer.specials.items()}
    return f"<{roles[number]}>" if number in roles else tokenizer.decode([number])


def _label(tokenizer: Tokenizer, first: list[int], pieces: list[Piece], last: list[int]) -> Iterator[Token]:
    roles = {special: role for role, special in tokenizer.specials.items()}
    word, previous = -1, None
    for number in first:
        word += 1
        yield Token(number, word_of(tokenizer, number), word, special=roles.get(number, "start"))
    for piece, belongs in zip(pieces, _words_begun(pieces), strict=True):
        role = roles.get(piece.id)
        is_new = role is not None or belongs is None or belongs != previous
        word, previous = word + is_new, None if role else belongs
        text = f"<{role}>" if role else _visible(piece.text) or f"<{piece.id}>"
        yield Token(piece.id, text, word, piece.start, piece.end, role)
    for number in last:
        word += 1
        yield Token(number, word_of(tokenizer, number), word, special=roles.get(number, "end"))


def _words_begun(pieces: Sequence[Piece]) -> Iterator[int | None]:
    """The word of each piece; a space that is a token of its own belongs to the next word."""
    for place, piece in enumerate(pieces):
        begins = piece.word is None and piece.text == " " and place + 1 < len(pieces)
        yield pieces[place + 1].word if begins else piece.word


def _visible(text: str) -> str:
    return text.strip() or text.translate(BLANKS)


def _pieces_of_ids(tokenizer: Tokenizer, ids: Sequence[int], text: str, cut: Sequence[Piece]) -> list[Piece]:
    """The text that each id adds, as pieces; their words are those of the text split again."""
    words: dict[int, int | None] = {}
    for piece in cut:
        words |= dict.fromkeys(range(piece.start, piece.end), piece.word)
    stream, at, pieces = tokenizer.stream(), 0, []
    for place, number in enumerate(ids):
        added = stream.add(number) + (stream.finish() if place == len(ids) - 1 else "")
        start, at = at, at + len(added)
        solid = next((n for n in range(start, at) if not text[n].isspace()), start)
        pieces.append(Piece(number, text[start:at], start, at, words.get(solid)))
    if at > len(text):
        raise DataError("these ids do not join to one text; inspect the text instead")
    return pieces
