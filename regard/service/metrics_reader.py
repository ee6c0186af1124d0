"""metrics.jsonl as it grows: only what was added since the last request is read. Imports no torch.

A run that begins anew or resumes replaces the file; it is then read from its start.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from regard.checkpoints.locations import METRICS
from regard.opener import open_regular
from regard.service.http_errors import RequestError

TAIL = 256  # last bytes that were read; if they have changed, the file is another one
LARGEST_STEP = 1 << 53
NUMBERS = ("loss", "cross_entropy", "seconds")


@lru_cache(maxsize=32)
def metrics_of(run: Path) -> MetricsReader:
    """The reader of the metrics of a run."""
    return MetricsReader(run / METRICS)


class MetricsReader:
    """The steps, validations and ends in a growing file; safe for several threads."""

    def __init__(self, path: Path):
        self._path = path
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._events: list[dict[str, Any]] = []
        self._problem: str | None = None
        self._file = (0, 0)  # device and inode
        self._offset = self._lines = 0
        self._tail = b""

    def read(self) -> list[dict[str, Any]]:
        """Every event in order; an incomplete last line is left out. Raise if a line is malformed."""
        with self._lock:
            try:
                with open_regular(self._path) as file:
                    rest = self._read_on(file)
            except OSError:
                self._forget()
                return []
            if self._problem is not None:
                raise RequestError(self._problem)
            last = _event_of(rest)
            return [*self._events] if last is None or _problem_of(last) else [*self._events, _part_of(last)]

    def _read_on(self, file: BinaryIO) -> bytes:
        """Read the lines that were added, and give the incomplete last one."""
        status = os.fstat(file.fileno())
        if not self._continues(file, status):
            self._forget()
            self._file = status.st_dev, status.st_ino
        file.seek(self._offset)
        data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        for line in complete.split(b"\n")[:-1]:
            self._take(line)
        self._offset += len(complete)
        self._tail = (self._tail + complete)[-TAIL:]
        return data[len(complete) :]

    def _continues(self, file: BinaryIO, status: os.stat_result) -> bool:
        """Whether the file still has what was read of it."""
        if (status.st_dev, status.st_ino) != self._file or status.st_size < self._offset:
            return False
        file.seek(self._offset - len(self._tail))
        return file.read(len(self._tail)) == self._tail

    def _take(self, line: bytes) -> None:
        self._lines += 1
        event = _event_of(line)
        problem = None if event is None else _problem_of(event)
        if problem is not None:
            self._problem = self._problem or f"{METRICS}, line {self._lines}: {problem}; correct the line"
        elif event is not None:
            self._events.append(_part_of(event))


def _event_of(line: bytes) -> dict[str, Any] | None:
    """The event of a line; None if the line is torn, as after a crash, or is no event."""
    try:
        event = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and "event" in event and "step" in event else None


def _problem_of(event: dict[str, Any]) -> str | None:
    """What is wrong with an event."""
    step, scores = event["step"], event.get("scores") or {}
    if type(step) is not int or not 0 <= step <= LARGEST_STEP:
        return f"step ({_short(step)}) must be a number of steps"
    if not isinstance(scores, dict):
        return f"scores ({_short(scores)}) must be an object"
    for name, value in [*((name, event.get(name)) for name in NUMBERS), *scores.items()]:
        is_number = type(value) is float or (type(value) is int and abs(value) <= LARGEST_STEP)
        if value is not None and not is_number:
            return f"{name} ({_short(value)}) must be a number or null"
    return None


def _part_of(event: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of an event; the rest, such as sampled texts, is not kept."""
    return {name: event[name] for name in ("event", "step", "scores", *NUMBERS) if name in event}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
