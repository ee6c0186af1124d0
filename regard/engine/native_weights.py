"""What the native engine supports, and the weights that it needs of a model. Loads no torch."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from regard.errors import ShapeError
from regard.model.config import ModelConfig
from regard.model.frequencies import rotary_frequencies
from regard.model.weight_shapes import stored_shapes, words_name

POSITIONS = ("none", "sinusoidal", "sinusoidal-halves", "learned", "rotary")
# The activation of each feed-forward network, and whether it has a gate; the order is that of kernels.h.
ACTIVATIONS = ("none", "relu", "gelu", "gelu-tanh", "silu")
FEED_FORWARDS = {
    "relu": ("relu", False),
    "gelu": ("gelu", False),
    "gelu-tanh": ("gelu-tanh", False),
    "silu": ("silu", False),
    "reglu": ("relu", True),
    "geglu": ("gelu", True),
    "swiglu": ("silu", True),
}
# The variants of each setting that the engine has.
SUPPORTED = {
    "similarity": ("scaled-dot",),
    "projections": ("separate",),
    "attention": ("multi-head",),
    "vectors": (None,),
    "patches": (None,),
    "feed_forward": FEED_FORWARDS,
    "positions": POSITIONS,
    "norm": ("layer", "rms"),
    "residual": ("pre", "post"),
    "output": ("words", "masked", "classes", "pooled", "vectors"),
    "pooling": ("cls", "mean", "bert", "distilbert"),
}


KEPT = (".positions.weight", ".segments")  # matrices of which few rows are read, in float32 always
LARGEST_HALF = 65504


class Weights(Protocol):
    """Arrays by name."""

    def __getitem__(self, name: str, /) -> np.ndarray: ...


class NotNative(Exception):
    """The native engine cannot be used; the message names the reason."""


def check_supported(config: ModelConfig) -> None:
    """Raise NotNative if the engine does not have a part of the model."""
    for name, known in SUPPORTED.items():
        if getattr(config, name) not in known:
            raise NotNative(f"{name} = {getattr(config, name)!r} is not in the native engine")
    if config.key_size != config.value_size:
        raise NotNative(f"key_width {config.key_size} and value_width {config.value_size} differ")


class NativeArrays:
    """The weights as the library asks for them: one at a time, in the type in which it stores them.

    Arrays that the library uses in place are in `kept`.
    """

    def __init__(self, config: ModelConfig, weights: Weights, dtype: str):
        self.shapes, self._weights, self._dtype = stored_shapes(config), weights, dtype
        self.kept: dict[str, np.ndarray] = {}
        if (
            config.family == "encoder-only"
        ):  # the head is computed here, and may have the matrix of the tokens
            here = [name for name in self.shapes if name == "source.weight" or name.startswith("head.")]
            self.kept = {name: self._contiguous(name, np.float32) for name in here}
        if config.positions == "rotary":
            frequencies = rotary_frequencies(config.key_size, config.rotary_theta, config.rotary_scaling)
            self.shapes["rotary.frequencies"] = frequencies.shape
            self.kept["rotary.frequencies"] = frequencies

    def head(self, config: ModelConfig) -> dict[str, np.ndarray]:
        """The weights of an encoder-only model's head, tied or not."""
        if config.family != "encoder-only":
            return {}
        head = {name: array for name, array in self.kept.items() if name.startswith("head.")}
        tied = config.tie_head and config.output in ("words", "masked")
        return head | ({f"{words_name(config)}.weight": self.kept["source.weight"]} if tied else {})

    def read(self, name: str) -> np.ndarray:
        """An array in order, of the shape that the config implies."""
        is_half = self._dtype == "float16" and len(self.shapes[name]) == 2 and not name.endswith(KEPT)
        return self._contiguous(name, np.float16 if is_half else np.float32)

    def _contiguous(self, name: str, dtype: type[np.floating]) -> np.ndarray:
        try:
            array = self._weights[name]
        except KeyError:
            raise ShapeError(f"the weight {name} is missing") from None
        if array.shape != self.shapes[name]:
            sizes = [" x ".join(map(str, shape)) for shape in (array.shape, self.shapes[name])]
            raise ShapeError(f"{name} has the shape {sizes[0]}, not {sizes[1]}")
        if dtype == np.float16 and array.dtype != np.float16 and np.abs(array).max(initial=0) > LARGEST_HALF:
            raise ShapeError(f"{name} has numbers above {LARGEST_HALF}, which float16 has not; use float32")
        return np.require(array, dtype, ["C", "ALIGNED"])
