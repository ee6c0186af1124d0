"""Training of a demo model from the page, in its own process; progress is read from its metrics.

Imports no torch.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean
from threading import Lock, Thread
from typing import Any

from regard.demo.story.model_store import DemoFolder
from regard.service.http_errors import Busy
from regard.service.metrics_reader import metrics_of
from regard.service.training_progress import total_steps

TRAINER = (sys.executable, "-m", "regard.service.demo_trainer")
LATEST = 50  # steps over which the pace is averaged
GRACE = 10.0  # seconds between SIGTERM and SIGKILL


class DemoTraining:
    """The training of one model: not started, running, cancelled, finished or failed."""

    def __init__(self, demo_folder: DemoFolder):
        self._demo_folder = demo_folder
        self._process: subprocess.Popen[str] | None = None
        self._work: Path | None = None
        self._begun = 0.0
        self._is_cancelled = False
        self._lock = Lock()

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def run(self) -> Path | None:
        """The folder of the run while it is running."""
        return self._work / "run" if self._work and self.is_running else None

    def begin(self) -> None:
        """Start the process."""
        demo_folder = self._demo_folder
        target = {"name": demo_folder.name, "path": str(demo_folder.path.absolute())}
        argument = json.dumps({**target, "settings": dict(demo_folder.settings), "pairs": demo_folder.pairs})
        with self._lock:
            if self.is_running:
                raise Busy(f"{demo_folder.name} is already being trained; wait for it")
            self._work, self._begun, self._is_cancelled = None, time.monotonic(), False
            self._process = subprocess.Popen(
                [*TRAINER, argument],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
                start_new_session=True,  # Ctrl-C goes to the server, which ends this process
            )  # fmt: skip
            Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def cancel(self) -> None:
        """End the process if it runs; a model that is not trained is then no failure."""
        self._is_cancelled = self.is_running
        self.stop()

    def stop(self) -> None:
        """End the process if it runs, and remove its files if it could not."""
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                return
            process.terminate()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                if self._work is not None:
                    shutil.rmtree(self._work, ignore_errors=True)

    def progress(self, is_trained: bool) -> dict[str, Any]:
        """The progress; `left` is an estimate in seconds."""
        state = "ready" if is_trained else "learning" if self.is_running else "untrained"
        nothing = dict.fromkeys(("step", "steps", "loss", "seconds", "left", "error"))
        values: dict[str, Any] = {"state": state, **nothing, "step": 0, "steps": 0}
        if state == "learning":
            return values | {"seconds": time.monotonic() - self._begun} | self._pace()
        if state == "untrained" and self._process is not None and not self._is_cancelled:
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

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Read the working folder from the output of the process, and wait for its end."""
        with process:  # closes both pipes, and waits
            for line in process.stdout or ():
                if self._work is None and line.startswith('"'):
                    self._work = Path(json.loads(line))
