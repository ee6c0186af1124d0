"""Reader: a text in; hidden words, a label or vectors out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, overload

import numpy as np
from pydantic import Field

from regard.engine.choice import Engine, engine_of
from regard.engine.native_reader import NativeReader
from regard.errors import SettingError, ShapeError, UnknownName, UsageError, nearest
from regard.inference.search.requests import check_numbers
from regard.inference.tokens import Choice, check_count, choices
from regard.inference.windows import BUDGET, WINDOW, Job, Label
from regard.settings import Settings
from regard.text.tokenizer import SPELLINGS, Piece, Tokenizer

if TYPE_CHECKING:
    from regard.inference.scoring import TorchReader
    from regard.model.config import ModelConfig
    from regard.model.transformer import EncoderOnly

POOLINGS = ("mean", "first")


class EmbeddingSettings(Settings):
    """How `embed` turns the vectors of a text's tokens into one, unless a call says otherwise."""

    pooling: Literal["mean", "first"] = "mean"
    """The mean of the vectors of all tokens, start and end included, or the first vector."""
    normalise: bool = True
    """Whether each vector is scaled to length 1."""
    limit: Annotated[int, Field(ge=3, le=1 << 24)] | None = None
    """The longest text in tokens, start and end included; the context of the model if not set."""


FILLING = ("masked", "words")  # the outputs of models that predict words

Result = TypeVar("Result")
ReadText = Callable[[Label, str, list[int]], list[np.ndarray]]


@dataclass(frozen=True)
class Filled:
    """A text with each mask replaced by its likeliest token, and the likeliest tokens of each mask."""

    text: str
    masks: tuple[tuple[Choice, ...], ...]

    def as_dict(self) -> dict[str, Any]:
        """The text and the choices as JSON values."""
        return {"text": self.text, "masks": [[vars(choice) for choice in mask] for mask in self.masks]}


@dataclass(frozen=True)
class Classified:
    """The likeliest label of a text, and the probability of each label."""

    label: str
    probability: float
    probabilities: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """The label and the probabilities as JSON values."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """The contextual vector of each piece of a text."""

    pieces: tuple[Piece, ...]
    vectors: np.ndarray  # one row per piece


class Reader:
    """A trained model that reads. It keeps no state between calls, so threads may share it.

    `engine` is "native" or "torch", see `regard.engine.choice`.
    """

    def __init__(
        self,
        model: EncoderOnly | Engine,
        tokenizer: Tokenizer,
        labels: Sequence[str] = (),
        embedding: EmbeddingSettings | None = None,
        engine: str | None = None,
    ):
        self.engine, self.tokenizer = engine_of(model, engine), tokenizer
        self.embedding = embedding or EmbeddingSettings()
        self.labels = check_labels(labels, self.config.classes)

    @property
    def model(self) -> EncoderOnly:
        """The torch model."""
        return self.engine.module

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self.engine.config

    @property
    def fills(self) -> bool:
        """Whether the model predicts masked words."""
        return self.config.output in FILLING

    @overload
    def fill(  # pyright: ignore[reportOverlappingOverload] a str is also a sequence of str
        self, text: str, *, top: int = 5, batch_tokens: int = BUDGET, window: int = WINDOW
    ) -> Filled: ...
    @overload
    def fill(
        self, text: Sequence[str], *, top: int = 5, batch_tokens: int = BUDGET, window: int = WINDOW
    ) -> list[Filled]: ...
    @overload
    def fill(
        self, text: Iterable[str], *, top: int = 5, batch_tokens: int = BUDGET, window: int = WINDOW
    ) -> Iterator[Filled]: ...
    def fill(
        self, text: str | Iterable[str], *, top: int = 5, batch_tokens: int = BUDGET, window: int = WINDOW
    ) -> Filled | list[Filled] | Iterator[Filled]:
        """Predict the masked words of a string, a sequence (to a list) or another iterable (to an iterator).

        A mask is written as the tokenizer writes it, such as [MASK]. `top` is the number of choices per mask.
        """
        self._check_output("fill", *FILLING)
        check_count(top)

        def read(label: Label, text: str, ids: list[int]) -> list[np.ndarray]:
            if self.tokenizer.mask not in ids:
                raise UsageError(f"{label} has no mask; write {self._mask_name} where a word is missing")
            return [self._row(label, ids, "shorten it")]

        def answer(rows: list[np.ndarray]) -> list[Filled]:
            positions = [np.flatnonzero(row == self.tokenizer.mask) for row in rows]
            probabilities = self._passes.word_probabilities(rows, positions)
            return [self._filled(*mask, top) for mask in zip(rows, positions, probabilities, strict=True)]

        def encode(texts: Sequence[str]) -> list[list[int]]:
            return [self.tokenizer.encode(text, with_mask=True) for text in texts]

        return Job(encode, read, len, answer, _first, batch_tokens, window).run(text)

    @overload
    def classify(  # pyright: ignore[reportOverlappingOverload] a str is also a sequence of str
        self, text: str, *, truncate: bool = False, batch_tokens: int = BUDGET, window: int = WINDOW
    ) -> Classified: ...
    @overload
    def classify(
        self, text: Sequence[str], *, truncate: bool = False, batch_tokens: int = BUDGET, window: int = WINDOW
    ) -> list[Classified]: ...
    @overload
    def classify(
        self, text: Iterable[str], *, truncate: bool = False, batch_tokens: int = BUDGET, window: int = WINDOW
    ) -> Iterator[Classified]: ...
    def classify(
        self,
        text: str | Iterable[str],
        *,
        truncate: bool = False,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
    ) -> Classified | list[Classified] | Iterator[Classified]:
        """Classify a string, a sequence (to a list) or any other iterable (to an iterator).

        `truncate` reads the beginning of a text longer than the context, which is otherwise an error.
        """
        self._check_output("classify", "classes")

        def answer(rows: list[np.ndarray]) -> list[Classified]:
            return [classified(self.labels, row) for row in self._passes.class_probabilities(rows)]

        encode, read = self.tokenizer.encode_batch, self._read_text(truncate)
        return Job(encode, read, len, answer, _first, batch_tokens, window).run(text)

    @overload
    def embed(  # pyright: ignore[reportOverlappingOverload] a str is also a sequence of str
        self,
        texts: str | Sequence[str],
        *,
        pooling: str | None = None,
        normalise: bool | None = None,
        truncate: bool = False,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
    ) -> np.ndarray: ...
    @overload
    def embed(
        self,
        texts: Iterable[str],
        *,
        pooling: str | None = None,
        normalise: bool | None = None,
        truncate: bool = False,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
    ) -> Iterator[np.ndarray]: ...
    def embed(
        self,
        texts: str | Iterable[str],
        *,
        pooling: str | None = None,
        normalise: bool | None = None,
        truncate: bool = False,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
    ) -> np.ndarray | Iterator[np.ndarray]:
        """A vector for a string, one row per text for a sequence, an iterator for any other iterable.

        pooling      "mean" of the vectors of all tokens, start and end included, or the "first" vector
        normalise    scale each vector to length 1
        truncate     read the beginning of a text longer than the context, which is otherwise an error

        Pooling and normalisation are by default those of the model's folder, or "mean" and True.
        """
        pooling = self.embedding.pooling if pooling is None else pooling
        scaled = self.embedding.normalise if normalise is None else normalise
        if pooling not in POOLINGS:
            raise UnknownName(f"unknown pooling {pooling!r}; {nearest(pooling, POOLINGS)}")

        def answer(rows: list[np.ndarray]) -> list[np.ndarray]:
            return [_pooled(row, pooling, scaled) for row in self._vectors(rows)]

        encode, read = self.tokenizer.encode_batch, self._read_text(truncate, self.embedding.limit)
        vectors = Job(encode, read, len, answer, _first, batch_tokens, window).run(texts)
        if not isinstance(vectors, list):
            return vectors
        return np.stack(vectors) if vectors else np.empty((0, self.config.width), np.float32)

    def vectors(self, text: str, *, truncate: bool = False) -> TokenVectors:
        """The contextual vector of each piece of a text."""
        pieces = self.tokenizer.tokens(text)
        row = self._read_text(truncate)(Label(), text, [piece.id for piece in pieces])[0]
        return TokenVectors(tuple(pieces[: len(row) - 2]), self._vectors([row])[0][1:-1])

    @property
    def _passes(self) -> NativeReader | TorchReader:
        """The engine's passes over rows of ids."""
        native = self.engine.native()
        if native is not None:
            return NativeReader(native)
        from regard.inference.scoring import TorchReader

        return TorchReader(self.model)

    def _vectors(self, rows: list[np.ndarray]) -> list[np.ndarray]:
        vectors = self._passes.vectors(rows)
        for row in vectors:
            check_numbers(row)
        return vectors

    def _read_text(self, truncate: bool, limit: int | None = None) -> ReadText:
        limit = min(limit or self.config.context, self.config.context)

        def read(label: Label, text: str, ids: list[int]) -> list[np.ndarray]:
            ids = ids[: limit - 2] if truncate else ids
            return [self._row(label, ids, "shorten it, or set truncate", limit)]

        return read

    def _row(self, label: Label, ids: list[int], advice: str, limit: int | None = None) -> np.ndarray:
        """The ids between start and end, as in training."""
        limit = (limit or self.config.context) - 2
        if len(ids) > limit:
            raise ShapeError(f"{label} has {len(ids):,} tokens and this model reads {limit:,}; {advice}")
        return np.array([self.tokenizer.start, *ids, self.tokenizer.end])

    def _check_output(self, task: str, *outputs: str) -> None:
        if self.config.output not in outputs:
            raise UsageError(
                f"this model gives {self.config.output} and cannot {task}; use one that gives {outputs[0]}"
            )

    @property
    def _mask_name(self) -> str:
        names, mask = SPELLINGS["mask"], self.tokenizer.mask
        return next((name for name in names if mask in self.tokenizer.encode(name, with_mask=True)), names[0])

    def _filled(self, row: np.ndarray, positions: np.ndarray, probabilities: np.ndarray, top: int) -> Filled:
        check_numbers(probabilities)
        filled = row.copy()
        filled[positions] = probabilities.argmax(1)
        masks = [
            tuple(choices(self.tokenizer, mask, top, filled[1:position].tolist()))
            for position, mask in zip(positions.tolist(), probabilities, strict=True)
        ]
        return Filled(self.tokenizer.decode(filled.tolist()), tuple(masks))


def check_labels(labels: Sequence[str], classes: int) -> tuple[str, ...]:
    """The name of each class: the labels, or numbers if there are none."""
    named = tuple(labels) or tuple(map(str, range(classes)))
    if len(named) != classes:
        raise SettingError(f"labels ({len(named)}) must be as many as the model's {classes} classes")
    if len(set(named)) < len(named):
        twice = next(label for label in named if named.count(label) > 1)
        raise SettingError(f"labels hold {twice!r} twice; give each class a name of its own")
    return named


def classified(labels: Sequence[str], probabilities: np.ndarray) -> Classified:
    """The likeliest label with the probability of each."""
    check_numbers(probabilities)
    best = int(probabilities.argmax())
    by_label = dict(zip(labels, probabilities.tolist(), strict=True))
    return Classified(labels[best], float(probabilities[best]), by_label)


def _first(text: str, rows: list[np.ndarray], results: list[Result]) -> Result:
    """A text is one row, so it has one result."""
    return results[0]


def _pooled(vectors: np.ndarray, pooling: str, normalise: bool) -> np.ndarray:
    vector = vectors[0] if pooling == "first" else vectors.mean(0)
    length = float(np.linalg.norm(vector))
    return vector / length if normalise and length else vector
