"""metrics.jsonl: a line for each thing that happened in a run, written as it happens and read back."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from regard.errors import TrainingError
from regard.training.events import Event, Finished, Resumed, Saved, StepDone, Validated

_NAMES = {
    StepDone: "step",
    Validated: "validation",
    Saved: "saved",
    Resumed: "resumed",
    Finished: "finished",
}
PATIENCE = 1.0  # seconds that steps may wait before others can read them


class MetricsFile:
    """An observer that writes every event as a line of JSON.

    Where a run goes on from a checkpoint, lines of later steps are removed first: those steps are done anew.
    """

    def __init__(self, path: Path):
        self.path = path
        self._file: TextIO | None = None
        self._waiting: list[Event] = []
        self._anew = False
        self._flushed = time.monotonic()

    def begin_anew(self) -> None:
        """Forget what the file holds, once training begins: no checkpoint was left to go on from."""
        self._anew = True

    def __call__(self, event: Event) -> None:
        """Write an event; whoever reads the file meanwhile is a second behind at most."""
        if isinstance(event, Resumed):
            self._waiting.append(event)  # the Trainer does not hold the folder's lock yet
            return
        try:
            file = self._file or self._open()
            file.write(_line(event))
            if not isinstance(event, StepDone) or time.monotonic() - self._flushed > PATIENCE:
                file.flush()
                self._flushed = time.monotonic()
        except OSError as error:
            raise TrainingError(
                f"cannot write {self.path}: {error.strerror or error}; free the disk"
            ) from None

    def close(self) -> None:
        """Nothing more will happen."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> TextIO:
        for event in self._waiting:
            _cut_after(self.path, event.step)
        self._file = self.path.open("w" if self._anew else "a", encoding="utf-8", buffering=1 << 16)
        for event in self._waiting:
            self._file.write(_line(event))
        self._waiting = []
        return self._file


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every event in order; a line that a crash cut short is passed over."""
    events: list[dict[str, Any]] = []
    if not path.is_file():
        return events
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("step"), int) and "event" in event:
            events.append(event)
    return events


def _line(event: Event) -> str:
    values = {"event": _NAMES[type(event)], **asdict(event)}
    if isinstance(event, Validated):
        found = values.pop("found")
        # A perplexity may be infinite, which JSON has no word for.
        scores = {name: value if math.isfinite(value) else None for name, value in found["scores"].items()}
        values |= {"scores": scores, "watched": found["watched"], "samples": list(found["samples"])}
    return json.dumps(values, ensure_ascii=False, default=str) + "\n"


def _cut_after(path: Path, step: int) -> None:
    """Keep what happened up to a step."""
    kept = [event for event in read_metrics(path) if event["step"] <= step and event["event"] != "finished"]
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(
        "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in kept), encoding="utf-8"
    )
    beside.replace(path)
