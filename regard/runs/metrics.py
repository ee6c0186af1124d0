"""metrics.jsonl: a line for each event of a run, with its time, written as it happens and read back.

The lines of a step are on the disk before a checkpoint of that step exists. A run that goes on from the
checkpoint therefore misses none of them; the lines of later steps are removed, since those steps come again.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from regard.checkpoints.format1 import read_event
from regard.errors import DataError, TrainingError
from regard.opener import open_regular, read_regular
from regard.training.events import Event, Finished, Resumed, Saved, Saving, StepDone, Validated

_NAMES = {
    StepDone: "step",
    Validated: "validation",
    Saved: "saved",
    Resumed: "resumed",
    Finished: "finished",
}
LARGEST = 1 << 31  # bytes of the file
PATIENCE = 1.0  # seconds that steps may wait before others can read them


class MetricsFile:
    """An observer that writes every event as a line of JSON, with the UTC time at which it came."""

    def __init__(self, path: Path):
        self.path = path
        self._file: TextIO | None = None
        self._resumed: Resumed | None = None
        self._anew = False
        self._flushed = time.monotonic()

    def begin_anew(self) -> None:
        """Empty the file when training begins without a checkpoint to resume from."""
        self._anew = True

    def __call__(self, event: Event) -> None:
        """Write an event; a reader of the file is at most a second behind."""
        if isinstance(event, Resumed):
            self._resumed = event  # the Trainer does not hold the folder's lock yet
            return
        try:
            file = self._file or self._open()
            if isinstance(event, Saving):
                _to_disk(file)
                return
            file.write(_line(event))
            if not isinstance(event, StepDone) or time.monotonic() - self._flushed > PATIENCE:
                file.flush()
                self._flushed = time.monotonic()
        except OSError as error:
            raise TrainingError(
                f"cannot write {self.path}: {error.strerror or error}; free the disk"
            ) from None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> TextIO:
        if self._resumed is not None:
            _replace(self.path, [*_lines_up_to(self.path, self._resumed), _line(self._resumed)])
        if self.path.exists():
            open_regular(self.path).close()  # a pipe would wait for a reader
        self._file = self.path.open("w" if self._anew else "a", encoding="utf-8", buffering=1 << 16)
        return self._file


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every event in order; an incomplete last line is skipped."""
    events: list[dict[str, Any]] = []
    if not path.exists():
        return events
    try:
        text = read_regular(path, LARGEST).decode("utf-8", "replace")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    for line in text.split("\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("step"), int) and "event" in event:
            events.append(read_event(event))
    return events


def _line(event: Event) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    values = {"event": _NAMES[type(event)], "time": now, **asdict(event)}
    if isinstance(event, Validated):
        validation = values.pop("validation")
        # A perplexity may be infinite, which JSON cannot represent.
        scores = {
            name: value if math.isfinite(value) else None for name, value in validation["scores"].items()
        }
        values |= {
            "scores": scores,
            "monitored": validation["monitored"],
            "samples": list(validation["samples"]),
        }
    return json.dumps(values, ensure_ascii=False, default=str) + "\n"


def _lines_up_to(path: Path, resumed: Resumed) -> list[str]:
    """The events up to a checkpoint; its validation may come after it."""

    def had_happened(event: dict[str, Any]) -> bool:
        is_again = event["event"] == "validation" and resumed.validated != resumed.step
        last = resumed.step - 1 if is_again else resumed.step
        return event["step"] <= last and event["event"] != "finished"

    kept = [event for event in read_metrics(path) if had_happened(event)]
    return [json.dumps(event, ensure_ascii=False) + "\n" for event in kept]


def _replace(path: Path, lines: Iterable[str]) -> None:
    """Replace the file by these lines, atomically."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w", encoding="utf-8") as file:
        file.writelines(lines)
        _to_disk(file)
    beside.replace(path)


def _to_disk(file: TextIO) -> None:
    file.flush()
    os.fsync(file.fileno())
