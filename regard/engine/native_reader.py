"""NativeReader: an encoder-only model on the native engine: vectors, words at masks, classes. Loads no torch.

The encoder runs in the native library, the head in numpy, text by text: its result does not depend on the
other texts. T tokens, N masks, D width, V vocabulary, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from regard.engine.native_stepper import NativeModel
from regard.engine.native_weights import FEED_FORWARDS
from regard.model.weight_shapes import words_name

Rows = Sequence[Sequence[int] | np.ndarray]

_erf = np.vectorize(math.erf, otypes=[np.float32])


class NativeReader:
    """The passes of a Reader, with the functions of `regard.inference.scoring`."""

    def __init__(self, model: NativeModel):
        self._model, self._config, self._weights = model, model.config, model.head

    def vectors(self, rows: Rows) -> list[np.ndarray]:
        """T D for each row: the contextual vector of every token."""
        return self._model.encode(rows)

    def word_probabilities(self, rows: Rows, positions: Rows) -> list[np.ndarray]:
        """For each row, the probability of every word at some of its positions, N V."""
        pairs = zip(self.vectors(rows), positions, strict=True)
        return [self._words(vectors[np.asarray(places)]) for vectors, places in pairs]

    def class_probabilities(self, rows: Rows) -> np.ndarray:
        """The probability of every class for each row."""
        logits = [self._linear("head.classify", self._pooled(vectors)) for vectors in self.vectors(rows)]
        return np.stack([_softmax(row) for row in logits])

    def _words(self, hidden: np.ndarray) -> np.ndarray:
        if self._config.output == "masked":
            activation, _ = FEED_FORWARDS[self._config.feed_forward]
            hidden = self._norm("head.norm", ACTIVATIONS[activation](self._linear("head.transform", hidden)))
        return _softmax(self._linear(words_name(self._config), hidden))

    def _pooled(self, vectors: np.ndarray) -> np.ndarray:
        if self._config.pooling == "mean":
            return vectors.mean(0)
        if self._config.pooling == "cls":
            return vectors[0]
        dense = self._linear("head.pooling.dense", vectors[0])
        return np.tanh(dense) if self._config.pooling == "bert" else np.maximum(dense, 0)

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        bias = self._weights.get(f"{name}.bias")
        product = x @ self._weights[f"{name}.weight"].T
        return product if bias is None else product + bias

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        epsilon = np.float32(self._config.norm_epsilon)
        if self._config.norm == "rms":
            scale = np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
            return x / scale * self._weights[f"{name}.weight"]
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(-1, keepdims=True) + epsilon)
        return centred / scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * (0.5 + 0.5 * _erf(x / math.sqrt(2)))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)))


def _silu(x: np.ndarray) -> np.ndarray:
    return x * (0.5 + 0.5 * np.tanh(x / 2))  # x times the logistic function, which overflows otherwise


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": _gelu,
    "gelu-tanh": _gelu_tanh,
    "silu": _silu,
}


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
