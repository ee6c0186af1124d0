"""Signals that ask a run to end: heard at once, obeyed at the next boundary between steps."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class BrokenOff(BaseException):
    """Raised inside `breaking_off`; no Exception, so that nobody there takes it for an error of his own."""


class Interruption:
    """While entered, SIGTERM and SIGINT are noted; a second one ends the process at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._breaks_off = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def breaking_off(self) -> Iterator[None]:
        """Work that may be broken off anywhere, because it leaves no trace: a signal ends it early."""
        self._breaks_off = True
        try:
            yield
        except BrokenOff:
            pass
        finally:
            self._breaks_off = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number
        if self._breaks_off:
            raise BrokenOff
