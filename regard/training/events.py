"""What happens in training, told to whoever observes: a display, a log, a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class StepDone:
    """One update of the weights; losses are means over its tokens."""

    step: int
    epoch: int
    loss: float  # what is minimised, with label smoothing and agreement
    rate: float
    gradient_norm: float  # before clipping
    tokens: int
    seconds: float
    padding: float | None  # the share of cells in this epoch's batches that hold no token
    cross_entropy: float  # the plain loss, the quantity that validation calls loss

    @property
    def tokens_per_second(self) -> float:
        """How many predictions were learned from in a second."""
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Validation:
    """What a validation found: figures by name, the one to watch, and some texts to read."""

    scores: dict[str, float]
    watched: str = "loss"
    higher_is_better: bool = False
    samples: Sequence[str] = field(default=())

    @property
    def value(self) -> float:
        """The figure to watch."""
        return self.scores[self.watched]

    def beats(self, best: float | None) -> bool:
        """Whether it is better than the best so far; NaN and infinity never are."""
        if not math.isfinite(self.value) or best is None:
            return math.isfinite(self.value)
        return self.value > best if self.higher_is_better else self.value < best


@dataclass(frozen=True)
class Validated:
    """The model was validated after this step."""

    step: int
    found: Validation
    is_best: bool
    seconds: float


@dataclass(frozen=True)
class Saving:
    """A checkpoint is about to be written; what an observer holds back must reach the disk first."""

    step: int


@dataclass(frozen=True)
class Saved:
    """A checkpoint, or weights that are kept for good, stand in this folder."""

    step: int
    path: Path
    seconds: float


@dataclass(frozen=True)
class Resumed:
    """Training goes on from a checkpoint, with these settings changed."""

    step: int
    path: Path
    changes: Sequence[str]
    validated: int  # the step of the latest validation that the checkpoint knows of


@dataclass(frozen=True)
class Finished:
    """Training is over, and why: "steps", "patience" or "signal"."""

    step: int
    reason: str


Event = StepDone | Validated | Saving | Saved | Resumed | Finished
Observer = Callable[[Event], None]
