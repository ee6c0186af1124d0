"""The events of training, which observers receive: the display, the metrics, the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class StepDone:
    """One update of the weights; losses are means over the tokens of the step."""

    step: int
    epoch: int
    loss: float  # what is minimised, with label smoothing and R-Drop
    learning_rate: float
    gradient_norm: float  # before clipping
    tokens: int
    seconds: float
    padding: float | None  # share of cells without a token in the batches of this epoch
    cross_entropy: float  # without label smoothing and R-Drop; comparable with the loss of validation

    @property
    def tokens_per_second(self) -> float:
        """Predictions in the loss per second."""
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Validation:
    """The result of a validation: scores by name, the one to monitor, and sample texts."""

    scores: dict[str, float]
    monitored: str = "loss"
    higher_is_better: bool = False
    samples: Sequence[str] = field(default=())

    @property
    def value(self) -> float:
        """The monitored score."""
        return self.scores[self.monitored]

    def beats(self, best: float | None) -> bool:
        """Whether it is better than the best so far; NaN and infinity are not."""
        if not math.isfinite(self.value) or best is None:
            return math.isfinite(self.value)
        return self.value > best if self.higher_is_better else self.value < best


@dataclass(frozen=True)
class Validated:
    """The model was validated after a step."""

    step: int
    validation: Validation
    is_best: bool
    seconds: float


@dataclass(frozen=True)
class Saving:
    """A checkpoint is about to be written; observers must flush their files first."""

    step: int


@dataclass(frozen=True)
class Saved:
    """A checkpoint or a snapshot of the weights was written to a folder."""

    step: int
    path: Path
    seconds: float


@dataclass(frozen=True)
class Resumed:
    """Training resumes from a checkpoint, with these changes of settings."""

    step: int
    path: Path
    changes: Sequence[str]
    validated: int  # step of the latest validation in the checkpoint


@dataclass(frozen=True)
class Finished:
    """Training ended; the reason is "steps", "patience" or "signal"."""

    step: int
    reason: str


Event = StepDone | Validated | Saving | Saved | Resumed | Finished
Observer = Callable[[Event], None]
