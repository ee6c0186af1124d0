"""Training the demo's model from the page: in a process of its own, watched through its metrics.

Loads no torch.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from regard.demo.story.model_store import Place
from regard.runs.metrics import read_metrics
from regard.service.http_errors import Busy
from regard.service.locations import METRICS
from regard.service.training_progress import total_steps

LEARNER = (sys.executable, "-m", "regard.service.demo_trainer")
LATEST = 50  # steps whose pace tells how long the others take
GRACE = 10.0  # seconds to end in an orderly way


class Learning:
    """The training of one model: not begun, under way, over, or failed."""

    def __init__(self, place: Place):
        self._place = place
        self._process: subprocess.Popen[str] | None = None
        self._work: Path | None = None
        self._begun = 0.0
        self._lock = Lock()

    @property
    def is_running(self) -> bool:
        """Whether it is under way."""
        return self._process is not None and self._process.poll() is None

    @property
    def run(self) -> Path | None:
        """The run's folder while it is under way."""
        return self._work / "run" if self._work and self.is_running else None

    def begin(self) -> None:
        """Start the process."""
        place = self._place
        told = {"name": place.name, "path": str(place.path.absolute())}
        asked = json.dumps({**told, "settings": dict(place.settings), "pairs": place.pairs})
        with self._lock:
            if self.is_running:
                raise Busy(f"{place.name} is being trained already; wait for it")
            self._work, self._begun = None, time.monotonic()
            self._process = subprocess.Popen(
                [*LEARNER, asked],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
                start_new_session=True,  # Ctrl-C is for the server, which then ends it
            )  # fmt: skip
            Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def stop(self) -> None:
        """End the process, if it is under way."""
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

    def progress(self, is_trained: bool) -> dict[str, Any]:
        """How far it is; `left` is a guess in seconds."""
        state = "ready" if is_trained else "learning" if self.is_running else "untrained"
        nothing = dict.fromkeys(("step", "steps", "loss", "seconds", "left", "error"))
        told: dict[str, Any] = {"state": state, **nothing, "step": 0, "steps": 0}
        if state == "learning":
            return told | {"seconds": time.monotonic() - self._begun} | self._pace()
        if state == "untrained" and self._process is not None:
            told["error"] = "the model could not be trained; the terminal says why"
        return told

    def _pace(self) -> dict[str, Any]:
        run = self.run
        events = read_metrics(run / METRICS) if run else []
        done = [event for event in events if event["event"] == "step"]
        steps = total_steps(run) or 0
        if not done:
            return {"steps": steps}
        latest, last = done[-LATEST:], done[-1]["step"]
        pace = sum(event["seconds"] for event in latest) / len(latest)
        loss = sum(event.get("cross_entropy", event["loss"]) for event in latest) / len(latest)
        return {"step": last, "steps": steps, "loss": loss, "left": max(0, steps - last) * pace}

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Hear where the process works, to its end; whatever else it says is passed over."""
        with process:  # closes both pipes, and waits
            for line in process.stdout or ():
                if self._work is None and line.startswith('"'):
                    self._work = Path(json.loads(line))
