"""int8 weights in a model folder: each matrix as bytes, with one scale per row. Imports no torch.

A matrix of O rows is stored as `name` (int8) and `name.scale` (float32, O numbers): row i is scale[i] times
its bytes. Layers and token embeddings are quantised; biases, norms, positions and segments stay as they are.
Whoever reads such a folder gets float32 arrays, one at a time from the memory-mapped file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from regard.checkpoints.untrusted_files import MappedWeights
from regard.errors import CheckpointError

SCALE = ".scale"
LARGEST = 127
KEPT = (".positions.weight", ".segments")  # matrices of which few rows are read


def quantize(name: str, weight: np.ndarray) -> dict[str, np.ndarray]:
    """A weight as it is stored: a matrix as bytes and scales, anything else in float32."""
    weight = np.asarray(weight, np.float32)
    if weight.ndim != 2 or name.endswith(KEPT):
        return {name: weight}
    if not np.isfinite(weight).all():
        raise CheckpointError(f"{name} holds NaN or infinity, so it cannot be quantised; use other weights")
    scale = np.abs(weight).max(1, initial=0) / np.float32(LARGEST)
    rounded = np.rint(weight / np.where(scale > 0, scale, 1)[:, None])
    return {name: rounded.astype(np.int8), name + SCALE: scale.astype(np.float32)}


class QuantizedWeights:
    """The weights of an int8 file as float32 arrays by name; each is computed when it is read."""

    def __init__(self, stored: MappedWeights):
        self._stored, dtypes, shapes = stored, stored.dtypes, stored.shapes
        self._bytes = {name for name, dtype in dtypes.items() if dtype == "I8"}
        for name in self._bytes:
            shape, scales = shapes[name], shapes.get(name + SCALE)
            if len(shape) != 2 or scales != shape[:1] or dtypes[name + SCALE] != "F32":
                raise CheckpointError(f"{stored.path} is damaged: {name} has no scale for each row")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array, from the header."""
        return {name: shape for name, shape in self._stored.shapes.items() if not self._is_scale(name)}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._array(name, self._stored.__getitem__)

    def read(self, name: str) -> np.ndarray:
        """A copy of an array, read without the memory map."""
        return self._array(name, self._stored.read)

    def _array(self, name: str, stored: Callable[[str], np.ndarray]) -> np.ndarray:
        whole = stored(name)
        return whole * stored(name + SCALE)[:, None] if name in self._bytes else whole

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def _is_scale(self, name: str) -> bool:
        return name.endswith(SCALE) and name.removesuffix(SCALE) in self._bytes


def is_quantized(stored: MappedWeights) -> bool:
    """Whether a file holds int8 weights."""
    return "I8" in stored.dtypes.values()
