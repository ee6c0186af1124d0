"""The same figures as events for TensorBoard, where that is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import MissingPackage
from regard.training.events import Event, StepDone, Validated


class TensorBoardEvents:
    """An observer that writes scalars and samples into a folder that TensorBoard reads."""

    def __init__(self, folder: Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingPackage('tensorboard is not installed; pip install "regard[tensorboard]"') from None
        self._writer: Any = SummaryWriter(str(folder))

    def __call__(self, event: Event) -> None:
        """Write the figures of a step or a validation."""
        if isinstance(event, StepDone):
            values = {"loss": event.loss, "rate": event.rate, "gradient norm": event.gradient_norm}
            for name, value in {**values, "tokens per second": event.tokens_per_second}.items():
                self._writer.add_scalar(f"training/{name}", value, event.step)
        elif isinstance(event, Validated):
            for name, value in event.found.scores.items():
                self._writer.add_scalar(f"validation/{name}", value, event.step)
            for number, sample in enumerate(event.found.samples):
                self._writer.add_text(f"sample {number}", sample, event.step)

    def close(self) -> None:
        """Bring everything to the disk."""
        self._writer.close()
