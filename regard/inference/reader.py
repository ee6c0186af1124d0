"""Reader: a text in, what it means out: hidden words, a label, vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import SettingError, ShapeError, UnknownName, UsageError, nearest
from regard.inference.tokens import Choice, check_count, choices
from regard.inference.windows import BUDGET, WINDOW, Job, Label
from regard.text.tokenizer import SPELLINGS, Piece, Tokenizer

if TYPE_CHECKING:
    from regard.model.config import ModelConfig
    from regard.model.transformer import EncoderOnly

POOLINGS = ("mean", "first")
FILLING = ("masked", "words")  # the outputs of models that guess words


@dataclass(frozen=True)
class Filled:
    """A text with its masks filled by the likeliest token of each, and for each mask the best few."""

    text: str
    masks: tuple[tuple[Choice, ...], ...]

    def as_data(self) -> dict[str, Any]:
        """The same in values that JSON can hold."""
        return {"text": self.text, "masks": [[vars(choice) for choice in mask] for mask in self.masks]}


@dataclass(frozen=True)
class Classified:
    """The likeliest label of a text, and the probability of each."""

    label: str
    probability: float
    probabilities: dict[str, float]

    def as_data(self) -> dict[str, Any]:
        """The same in values that JSON can hold."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """A contextual vector for each piece of a text."""

    pieces: tuple[Piece, ...]
    vectors: np.ndarray  # one row a piece


class Reader:
    """A trained model that reads. It keeps nothing between calls, so threads may share it."""

    def __init__(self, model: EncoderOnly, tokenizer: Tokenizer, labels: Sequence[str] = ()):
        self.model, self.tokenizer = model, tokenizer
        self.labels = tuple(labels) or tuple(map(str, range(model.config.classes)))
        if len(self.labels) != model.config.classes:
            raise SettingError(
                f"labels ({len(self.labels)}) must be as many as the model's {model.config.classes} classes"
            )
        if len(set(self.labels)) < len(self.labels):
            twice = next(label for label in self.labels if self.labels.count(label) > 1)
            raise SettingError(f"labels hold {twice!r} twice; give each class a name of its own")

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""
        return self.model.config

    @property
    def fills(self) -> bool:
        """Whether it guesses hidden words, so that a mask written in a text is one."""
        return self.config.output in FILLING

    def fill(
        self,
        text: str | Iterable[str],
        *,
        top: int = 5,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
    ) -> Any:
        """What each mask of a text hides: a Filled of a string, a list of them for a sequence.

        A mask is written as the tokenizer writes it, such as [MASK]. Any other iterable gives an iterator.
        """
        self._needs("fill", *FILLING)
        check_count(top)

        def read(label: Label, text: str, ids: list[int]) -> list[np.ndarray]:
            if self.tokenizer.mask not in ids:
                raise UsageError(f"{label} has no mask; write {self._mask_name} where a word is missing")
            return [self._row(label, ids, None)]

        def answer(rows: list[np.ndarray]) -> list[Filled]:
            from regard.inference.scoring import word_probabilities

            places = [np.flatnonzero(row == self.tokenizer.mask) for row in rows]
            found = word_probabilities(self.model, rows, places)
            return [self._filled(*each, top) for each in zip(rows, places, found, strict=True)]

        def encode(texts: Sequence[str]) -> list[list[int]]:
            return [self.tokenizer.encode(text, with_mask=True) for text in texts]

        return self._job(encode, read, answer, batch_tokens, window).run(text)

    def classify(
        self,
        text: str | Iterable[str],
        *,
        cut: bool = False,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
    ) -> Any:
        """The label of a text with probabilities: a Classified of a string, a list of them for a sequence.

        `cut` reads the beginning of a text that is longer than the model reads, which is an error otherwise.
        Any other iterable gives an iterator.
        """
        self._needs("classify", "classes")

        def answer(rows: list[np.ndarray]) -> list[Classified]:
            from regard.inference.scoring import class_probabilities

            return [self._classified(each) for each in class_probabilities(self.model, rows)]

        encode = self.tokenizer.encode_batch
        return self._job(encode, self._reading(cut), answer, batch_tokens, window).run(text)

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        pooling: str = "mean",
        normalise: bool = True,
        cut: bool = False,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
    ) -> Any:
        """A vector for a text, or one row a text for a sequence; any other iterable gives an iterator.

        pooling      "mean" of the vectors of all tokens, start and end among them, or the "first" one
        normalise    whether a vector has length 1
        cut          read the beginning of a text that is longer than the model reads
        """
        if pooling not in POOLINGS:
            raise UnknownName(f"unknown pooling {pooling!r}; {nearest(pooling, POOLINGS)}")

        def answer(rows: list[np.ndarray]) -> list[np.ndarray]:
            from regard.inference.scoring import vectors

            return [_pooled(each, pooling, normalise) for each in vectors(self.model, rows)]

        job = self._job(self.tokenizer.encode_batch, self._reading(cut), answer, batch_tokens, window)
        found = job.run(texts)
        if not isinstance(found, list):
            return found
        return np.stack(found) if found else np.empty((0, self.config.width), np.float32)

    def vectors(self, text: str, *, cut: bool = False) -> TokenVectors:
        """The contextual vector of each piece of a text."""
        from regard.inference.scoring import vectors

        pieces = self.tokenizer.tokens(text)
        row = self._row(Label(1, alone=True), [piece.id for piece in pieces], cut)
        return TokenVectors(tuple(pieces[: len(row) - 2]), vectors(self.model, [row])[0][1:-1])

    def _job(
        self,
        encode: Callable[[Sequence[str]], list[list[int]]],
        read: Callable[[Label, str, list[int]], list[np.ndarray]],
        answer: Callable[[list[np.ndarray]], list[Any]],
        batch_tokens: int,
        window: int,
    ) -> Job[np.ndarray, Any, Any]:
        return Job(encode, read, len, answer, lambda text, rows, found: found[0], batch_tokens, window)

    def _reading(self, cut: bool) -> Callable[[Label, str, list[int]], list[np.ndarray]]:
        return lambda label, text, ids: [self._row(label, ids, cut)]

    def _row(self, label: Label, ids: list[int], cut: bool | None) -> np.ndarray:
        """Ids between start and end, as the model was trained; None where a cut could lose what is asked."""
        most = self.config.context - 2
        if len(ids) > most and not cut:
            way = "shorten it" if cut is None else "shorten it, or let it be cut"
            raise ShapeError(f"{label} has {len(ids):,} tokens and this model reads {most:,}; {way}")
        return np.array([self.tokenizer.start, *ids[:most], self.tokenizer.end])

    def _needs(self, task: str, *outputs: str) -> None:
        if self.config.output not in outputs:
            raise UsageError(
                f"this model gives {self.config.output} and cannot {task}; use one that gives {outputs[0]}"
            )

    @property
    def _mask_name(self) -> str:
        known = SPELLINGS["mask"]
        mask = self.tokenizer.mask
        return next((name for name in known if mask in self.tokenizer.encode(name, with_mask=True)), known[0])

    def _filled(self, row: np.ndarray, places: np.ndarray, found: np.ndarray, top: int) -> Filled:
        whole = row.copy()
        whole[places] = found.argmax(1)
        masks = [
            tuple(choices(self.tokenizer, each, top, whole[1:place].tolist()))
            for place, each in zip(places.tolist(), found, strict=True)
        ]
        return Filled(self.tokenizer.decode(whole.tolist()), tuple(masks))

    def _classified(self, probabilities: np.ndarray) -> Classified:
        best = int(probabilities.argmax())
        named = dict(zip(self.labels, probabilities.tolist(), strict=True))
        return Classified(self.labels[best], float(probabilities[best]), named)


def _pooled(vectors: np.ndarray, pooling: str, normalise: bool) -> np.ndarray:
    vector = vectors[0] if pooling == "first" else vectors.mean(0)
    length = float(np.linalg.norm(vector))
    return vector / length if normalise and length else vector
