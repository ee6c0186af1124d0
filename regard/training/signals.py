"""Signals that end a run: recorded at once, handled between two steps.

Several ranks handle a signal after the same step: `agree` tells each of them what another one received.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from regard import ranks


def hangup() -> tuple[int, ...]:
    """SIGHUP, if the system has it and it is not ignored."""
    number = getattr(signal, "SIGHUP", None)  # not on Windows
    return () if number is None or signal.getsignal(number) == signal.SIG_IGN else (number,)


class _Abort(BaseException):
    """Raised inside `abortable`; a BaseException, so that no `except Exception` there catches it."""


class Interruption:
    """A context that records SIGTERM, SIGINT and SIGHUP; a second signal ends the process at once.

    A second SIGHUP does not, since a closing terminal may send several. An ignored SIGHUP, as under nohup,
    stays ignored. With several ranks no signal ends a process at once: torchrun passes on what the terminal
    also sends, and kills processes that do not end.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._received = 0
        self._is_abortable = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():  # only the main thread can set handlers
            for number in (signal.SIGTERM, signal.SIGINT, *hangup()):
                self._previous[number] = signal.signal(number, self._record)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def agree(self) -> None:
        """Take over a signal that any rank has received; every rank must call this."""
        if ranks.count() > 1 and self.signal is None:
            received = max(number for (number,) in ranks.gathered_numbers([self._received]))
            self.signal = int(received) or None

    @contextmanager
    def abortable(self) -> Iterator[None]:
        """A block without side effects, which a signal ends early."""
        self._is_abortable = True
        try:
            yield
        except _Abort:
            pass
        finally:
            self._is_abortable = False

    def _record(self, number: int, frame: FrameType | None) -> None:
        self._received = number
        if ranks.count() > 1:
            return
        if self.signal is not None:
            if number in hangup():
                return
            os._exit(128 + number)
        self.signal = number
        if self._is_abortable:
            raise _Abort
