"""Logit lens: the prediction of each layer as if it were the last (nostalgebraist 2020).

The residual stream after every block goes through the final norm and the head, without training. The last
layer gives the output of the model. Q positions, V vocabulary.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from regard.errors import SettingError, UsageError
from regard.inspection.record.record import Next, Record, log_softmax, most_probable
from regard.model.transformer import EncoderOnly


class Lens:
    """The predictions of every layer at every position."""

    def __init__(self, record: Record):
        if record.model.config.output not in ("words", "masked"):
            raise UsageError(
                f"this model gives {record.model.config.output}, not words; it has no logit lens"
            )
        self.record = record
        self.stack = "encoder" if isinstance(record.model, EncoderOnly) else "decoder"

    @property
    def layers(self) -> int:
        """The number of layers."""
        return self.record.layers(self.stack)

    def logits(self, layer: int) -> np.ndarray:
        """The logits of a layer, Q V."""
        if not 0 <= layer < self.layers:
            raise SettingError(f"no layer {layer}; there are {self.layers}, counted from 0")
        stack: Any = self.record.model.get_submodule(self.stack)
        hidden = self.record.recording[f"{self.stack}.{layer}.around_feed_forward.after"]
        with self.record.recording.parts_off():
            return self.record.model.head(stack.finish(hidden))[0].float().cpu().numpy()

    def probabilities(self, layer: int) -> np.ndarray:
        """The probabilities of a layer, Q V."""
        return np.exp(log_softmax(self.logits(layer)))

    def next(self, layer: int, position: int = -1, top: int = 5) -> list[Next]:
        """The most probable tokens of a layer at a position, best first."""
        side = self.record.written
        return most_probable(side, self.probabilities(layer)[side.find(position)[0]], top)

    def best(self, layer: int) -> list[Next]:
        """The most probable token of a layer at every position."""
        side, rows = self.record.written, self.probabilities(layer)
        return [most_probable(side, row, 1)[0] for row in rows]

    def table(self, position: int = -1, top: int = 5) -> list[list[Next]]:
        """The most probable tokens of every layer, from the first to the last."""
        return [self.next(layer, position, top) for layer in range(self.layers)]

    def ranked(self, layer: int, top: int) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the most probable tokens of a layer at every position, best first, and their
        probabilities; Q top each."""
        logits = self.logits(layer)
        ids = np.argsort(-logits, axis=-1, kind="stable")[:, :top]
        return ids, self._chances(logits, ids)

    def chances(self, layer: int, ids: np.ndarray) -> np.ndarray:
        """The probabilities that a layer gives to these ids at every position; ids and result Q T."""
        return self._chances(self.logits(layer), ids)

    @staticmethod
    def _chances(logits: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """The softmax at some ids only: of a large vocabulary it would need much memory."""
        largest = logits.max(-1, keepdims=True)
        total = np.exp(logits - largest).sum(-1, keepdims=True, dtype=np.float64)
        return np.exp(np.take_along_axis(logits, ids, -1) - largest) / total

    def as_dict(self) -> dict[str, Any]:
        """The most probable token of every layer at every position, as values that JSON can hold."""
        positions = [token.text for token in self.record.written.tokens]
        layers = [[asdict(best) for best in self.best(layer)] for layer in range(self.layers)]
        return {"positions": positions, "layers": layers}


def logit_lens(record: Record) -> Lens:
    """The logit lens of a record."""
    return Lens(record)
