"""Logit lens: what each layer would say if it were the last one.

The residual stream behind every block goes through the final norm and the head; nothing is trained for
it (nostalgebraist 2020). The last layer says what the model says. Q positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.errors import SettingError, UsageError
from regard.inspection.record.inspection import Inspection, Next, likeliest, log_softmax
from regard.model.transformer import EncoderOnly


class Lens:
    """What every layer would say at every position."""

    def __init__(self, seen: Inspection):
        if seen.model.config.output not in ("words", "masked"):
            raise UsageError(f"this model gives {seen.model.config.output}, not words; it has no logit lens")
        self.seen = seen
        self.stack = "encoder" if isinstance(seen.model, EncoderOnly) else "decoder"

    @property
    def layers(self) -> int:
        """How many layers speak."""
        return self.seen.layers(self.stack)

    def logits(self, layer: int) -> np.ndarray:
        """What a layer would give, Q V."""
        if not 0 <= layer < self.layers:
            raise SettingError(f"no layer {layer}; there are {self.layers}, counted from 0")
        stack: Any = self.seen.model.get_submodule(self.stack)
        hidden = self.seen.recording[f"{self.stack}.{layer}.around_feed_forward.after"]
        with self.seen.recording.parts_off():
            return self.seen.model.head(stack.finish(hidden))[0].float().cpu().numpy()

    def probabilities(self, layer: int) -> np.ndarray:
        """The same as probabilities, Q V."""
        return np.exp(log_softmax(self.logits(layer)))

    def next(self, layer: int, position: int = -1, top: int = 5) -> list[Next]:
        """The likeliest tokens of a layer at a position, best first."""
        side = self.seen.written
        return likeliest(side, self.probabilities(layer)[side.find(position)[0]], top)

    def table(self, position: int = -1, top: int = 5) -> list[list[Next]]:
        """The same for every layer, from the first to the last."""
        return [self.next(layer, position, top) for layer in range(self.layers)]


def logit_lens(seen: Inspection) -> Lens:
    """What each layer would say."""
    return Lens(seen)
