"""The frequencies of rotary positions, in numpy for the torch model and the native engine. Loads no torch."""

from __future__ import annotations

import numpy as np

from regard.model.config import RotaryScaling


def rotary_frequencies(width: int, theta: float, scaling: RotaryScaling | None = None) -> np.ndarray:
    """The angle per position of each of the E/2 pairs, in descending order."""
    frequencies = np.float32(theta) ** -(np.arange(0, width, 2, dtype=np.float32) / np.float32(width))
    if scaling is None:
        return frequencies
    scaled = frequencies / np.float32(scaling.factor)
    if scaling.kind == "linear":
        return scaled
    rotations = scaling.original_context * frequencies / (2 * np.pi)
    unscaled_part = np.clip((rotations - scaling.low) / (scaling.high - scaling.low), 0, 1)
    return (unscaled_part * frequencies + (1 - unscaled_part) * scaled).astype(np.float32)
