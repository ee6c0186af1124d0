"""Processes that regard starts: their command, and what those in the background do.

A background process ends with the process that started it, and gives way to other work.
regard/service/background_job.py is the side of the process that starts it.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Thread

NICENESS = 10  # of 19; the requests of a page come first


def module_command(name: str) -> tuple[str, ...]:
    """The command of a module of regard; -P keeps modules of the current folder from being imported."""
    return sys.executable, "-P", "-m", name


def follow_parent() -> None:
    """End with code 143 at SIGTERM or when stdin is closed, and run with a low priority."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    Thread(target=_end_with_stdin, daemon=True).start()
    if hasattr(os, "nice"):  # not on Windows
        os.nice(NICENESS)


def _end_with_stdin() -> None:
    while os.read(0, 1 << 16):  # not sys.stdin, whose lock this thread would hold at exit
        pass
    os.kill(os.getpid(), signal.SIGTERM)
