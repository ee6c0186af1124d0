"""Signals that ask a run to end: heard at once, obeyed at the next boundary between steps."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def hangup() -> tuple[int, ...]:
    """SIGHUP, where the system has it and it is not ignored."""
    number = getattr(signal, "SIGHUP", None)  # Windows has none
    return () if number is None or signal.getsignal(number) == signal.SIG_IGN else (number,)


class BrokenOff(BaseException):
    """Raised inside `breaking_off`; no Exception, so that nobody there takes it for an error of his own."""


class Interruption:
    """While entered, SIGTERM, SIGINT and SIGHUP are noted; a second signal ends the process at once.

    SIGHUP is no such second signal: a terminal that closes may send it more than once. Where it is ignored,
    as under nohup, it stays ignored.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._breaks_off = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            for number in (signal.SIGTERM, signal.SIGINT, *hangup()):
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
            if number in hangup():
                return
            os._exit(128 + number)
        self.signal = number
        if self._breaks_off:
            raise BrokenOff
