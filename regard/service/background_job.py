"""A job in a child process, one at a time: begun, cancelled, and ended with the server.

The child calls regard.background.follow_parent and prints its reports, one JSON value on a line.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import Any

from regard.service.http_errors import Busy

GRACE = 10.0  # seconds between SIGTERM and SIGKILL

Hear = Callable[[Any], None]  # takes one report of the child


class BackgroundJob:
    """The latest child process; while it runs, no other one begins."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._listener: Thread | None = None
        self._begun = self._ended = 0.0
        self._lock = Lock()
        self.is_cancelled = False

    @property
    def is_running(self) -> bool:
        """Whether the process runs or a report of it is not heard yet."""
        return self._listener is not None and self._listener.is_alive()

    @property
    def has_ended(self) -> bool:
        """Whether a process ended, by itself or because it was cancelled."""
        return self._process is not None and not self.is_running

    @property
    def seconds(self) -> float:
        """How long the process has been running, or ran."""
        return (time.monotonic() if self.is_running else self._ended) - self._begun

    def begin(self, command: Sequence[str], hear: Hear, busy: str) -> None:
        """Start a process; raise Busy with the message `busy` if one is running."""
        with self._lock:
            if self.is_running:
                raise Busy(busy)
            self.is_cancelled, self._begun = False, time.monotonic()
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
                start_new_session=True,  # Ctrl-C goes to the server, which ends this process
            )  # fmt: skip
            self._listener = Thread(target=self._listen, args=(self._process, hear), daemon=True)
            self._listener.start()

    def cancel(self) -> bool:
        """End the process if it runs; that it did not finish is then no failure. As `stop`."""
        self.is_cancelled = self.is_cancelled or self.is_running
        return self.stop()

    def stop(self) -> bool:
        """End the process if it runs; whether it had to be killed."""
        with self._lock:
            process, listener = self._process, self._listener
            if process is None or listener is None or not listener.is_alive():
                return False
            process.terminate()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                return True
            finally:
                listener.join(GRACE)
        return False

    def _listen(self, process: subprocess.Popen[str], hear: Hear) -> None:
        """Hear the reports of the process, and wait for its end."""
        with process:  # closes both pipes, and waits
            for line in process.stdout or ():
                try:
                    report = json.loads(line)
                except ValueError:  # something else that was printed
                    continue
                hear(report)
        self._ended = time.monotonic()
