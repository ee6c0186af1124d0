"""Training of a demo model from the page, as a background job; progress is read from its metrics.

Imports no torch.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

from regard.background import module_command
from regard.demo.story.model_store import DemoFolder
from regard.service.background_job import BackgroundJob
from regard.service.metrics_reader import metrics_of
from regard.service.training_progress import total_steps

TRAINER = module_command("regard.service.demo_trainer")
LATEST = 50  # steps over which the pace is averaged


class DemoTraining:
    """The training of one model: not started, running, cancelled, finished or failed."""

    def __init__(self, demo_folder: DemoFolder):
        self._demo_folder = demo_folder
        self._job = BackgroundJob()
        self._work: Path | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._job.is_running

    @property
    def run(self) -> Path | None:
        """The folder of the run while it is running."""
        return self._work / "run" if self._work and self.is_running else None

    def begin(self) -> None:
        """Start the process."""
        demo_folder = self._demo_folder
        target = {"name": demo_folder.name, "path": str(demo_folder.path.absolute())}
        argument = json.dumps({**target, "settings": dict(demo_folder.settings), "pairs": demo_folder.pairs})
        busy = f"{demo_folder.name} is already being trained; wait for it"
        if not self.is_running:
            self._work = None
        self._job.begin([*TRAINER, argument], self._hear, busy)

    def cancel(self) -> None:
        """End the process if it runs; a model that is not trained is then no failure."""
        self._remove_work(self._job.cancel())

    def stop(self) -> None:
        """End the process if it runs."""
        self._remove_work(self._job.stop())

    def progress(self, is_trained: bool) -> dict[str, Any]:
        """The progress; `left` is an estimate in seconds."""
        state = "ready" if is_trained else "learning" if self.is_running else "untrained"
        nothing = dict.fromkeys(("step", "steps", "loss", "seconds", "left", "error"))
        values: dict[str, Any] = {"state": state, **nothing, "step": 0, "steps": 0}
        if state == "learning":
            return values | {"seconds": self._job.seconds} | self._pace()
        if state == "untrained" and self._job.has_ended and not self._job.is_cancelled:
            values["error"] = "the model could not be trained; see the terminal"
        return values

    def _pace(self) -> dict[str, Any]:
        run = self.run
        events = metrics_of(run).read() if run else []
        done = [event for event in events if event["event"] == "step"]
        steps = total_steps(run) or 0
        if not done:
            return {"steps": steps}
        latest, last = done[-LATEST:], done[-1]["step"]
        seconds = [event["seconds"] for event in latest if event.get("seconds") is not None]
        losses = [event.get("cross_entropy", event.get("loss")) for event in latest]
        losses = [loss for loss in losses if loss is not None]
        return {
            "step": last,
            "steps": steps,
            "loss": fmean(losses) if losses else None,
            "left": max(0, steps - last) * fmean(seconds) if seconds else None,
        }

    def _hear(self, report: Any) -> None:
        """The first report is the working folder of the process."""
        if self._work is None and isinstance(report, str):
            self._work = Path(report)

    def _remove_work(self, was_killed: bool) -> None:
        """A process that had to be killed could not remove its files."""
        if was_killed and self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)
