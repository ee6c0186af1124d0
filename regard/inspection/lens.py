"""Logit lens: what each layer would say if it were the last one.

The residual stream behind every block goes through the final norm and the head; nothing is trained for
it (nostalgebraist 2020). The last layer says what the model says. Q positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.errors import SettingError, UsageError
from regard.inspection.tokens import word_of
from regard.inspection.trace import Inspection, Next
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
        logits = self.logits(layer).astype(np.float64)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def next(self, layer: int, position: int = -1, top: int = 5) -> list[Next]:
        """The likeliest tokens of a layer at a position, best first."""
        side = self.seen.written
        chances = self.probabilities(layer)[side.find(position)[0]]
        best = np.argsort(-chances, kind="stable")[:top].tolist()
        return [Next(n, word_of(side.tokenizer, n), float(chances[n])) for n in best]

    def table(self, position: int = -1, top: int = 5) -> list[list[Next]]:
        """The same for every layer, from the first to the last."""
        return [self.next(layer, position, top) for layer in range(self.layers)]


def logit_lens(seen: Inspection) -> Lens:
    """What each layer would say."""
    return Lens(seen)
