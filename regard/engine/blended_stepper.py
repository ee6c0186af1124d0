"""BlendedStepper: the native engine with a distribution that is changed at every step, as in kNN-MT."""

from __future__ import annotations

import numpy as np
import torch

from regard.engine.native_stepper import NativeModel, NativeStepper
from regard.engine.stepper import Banned, Choices
from regard.engine.torch_stepper import Blend, candidates


class BlendedStepper(NativeStepper):
    """A Stepper on the native engine; `blend` maps its log-probabilities to those that search uses."""

    def __init__(self, model: NativeModel, blend: Blend):
        super().__init__(model)
        self._blend, self._width = blend, model.config.width

    @torch.inference_mode()
    def step(self, ids: np.ndarray, best: int | None = None, banned: Banned | None = None) -> Choices:
        """Append one id per row and return the candidates for the next token."""
        hidden = np.empty((self.rows, self._width), np.float32)
        self.advance(ids, hidden)
        log_probabilities = torch.from_numpy(self.all().log_probabilities)
        return candidates(self._blend(torch.from_numpy(hidden), log_probabilities), best, banned)
