"""Metrics as events for TensorBoard, if it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import MissingPackage
from regard.training.events import Event, Resumed, StepDone, Validated


def check_tensorboard() -> type[Any]:
    """The event writer of TensorBoard; a missing package is an error before any text is read."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingPackage('tensorboard is not installed; pip install "regard[tensorboard]"') from None
    return SummaryWriter


class TensorBoardEvents:
    """An observer that writes scalars and samples into a folder that TensorBoard reads.

    When a run resumes from a checkpoint, TensorBoard drops the steps after it, which are computed again.
    """

    def __init__(self, folder: Path):
        self._make, self._folder = check_tensorboard(), str(folder)
        self._resumed: int | None = None
        self._opened: Any = None

    def __call__(self, event: Event) -> None:
        """Write the metrics of a step or a validation."""
        if isinstance(event, Resumed):
            self._resumed = event.step
        elif isinstance(event, StepDone):
            values = {
                "loss": event.cross_entropy,  # the quantity of validation/loss
                "objective": event.loss,
                "learning_rate": event.learning_rate,
                "gradient norm": event.gradient_norm,
                "tokens per second": event.tokens_per_second,
            }
            for name, value in values.items():
                self._writer.add_scalar(f"training/{name}", value, event.step)
        elif isinstance(event, Validated):
            for name, value in event.validation.scores.items():
                self._writer.add_scalar(f"validation/{name}", value, event.step)
            for number, sample in enumerate(event.validation.samples):
                self._writer.add_text(f"sample {number}", sample, event.step)

    def close(self) -> None:
        """Flush and close the file."""
        if self._opened is not None:
            self._opened.close()

    @property
    def _writer(self) -> Any:
        """Opened at the first event, when the folder of the run is locked."""
        if self._opened is None:
            anew = None if self._resumed is None else self._resumed + 1
            self._opened = self._make(self._folder, purge_step=anew)
        return self._opened
