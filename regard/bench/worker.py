"""An implementation in its own process, which is stopped between measurements.

    python -m regard.bench.worker

The first line of its input names the engine and the task; the reply is the output of one call. Each further
line starts a measurement; the reply is the seconds per call. The process ends with its input.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from regard.background import module_command
from regard.bench.engines import ENGINES, DecodingTask
from regard.errors import RegardError

MIN_SECONDS = 0.2  # of a measurement; shorter calls are repeated


class Worker:
    """The parent's handle of a worker process. It is stopped between measurements, so no thread spins.

    `start` is the time in seconds from the start of the process to its first output: imports, load, one call.
    """

    def __init__(self, engine: str, task: DecodingTask, threads: int):
        self._engine, started = engine, time.perf_counter()
        self._process = subprocess.Popen(
            module_command("regard.bench.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"},
            text=True,
            encoding="utf-8",
        )
        try:
            self.output = self._ask(json.dumps({"engine": engine, "task": asdict(task)}))
        except BaseException:
            self.close()
            raise
        self.start = time.perf_counter() - started

    def measure(self) -> float:
        """The seconds of one call, by the worker's clock."""
        self._signal("SIGCONT")
        return float(self._ask("go"))

    @property
    def memory(self) -> int | None:
        """Bytes of resident memory beyond those of a bare interpreter; None where /proc is absent."""
        own = _resident(self._process.pid)
        return None if own is None else own - _bare_interpreter()

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, line: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        self._signal("SIGSTOP")
        reply = json.loads(line) if line else {"failed": "it ended without a reply"}
        if isinstance(reply, dict):
            raise RegardError(f"the worker of {self._engine} failed: {reply['failed']}")
        return reply

    def _signal(self, name: str) -> None:
        if hasattr(signal, name):  # Windows does not have these signals
            self._process.send_signal(getattr(signal, name))


def _resident(process: int) -> int | None:
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return None
    lines = status.read_text(encoding="utf-8").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), None)


@cache
def _bare_interpreter() -> int:
    """The resident memory of a Python process that has imported nothing."""
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        resident = _resident(process.pid) or 0
        process.kill()
    return resident


def measure(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds per call, with calls repeated for MIN_SECONDS."""
    started, calls, passed = clock(), 0, 0.0
    while passed < MIN_SECONDS:
        work()
        calls, passed = calls + 1, clock() - started
    return passed / calls


def main() -> None:
    """Run the worker process."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of libraries must not mix with replies
    for reply in _replies(sys.stdin):
        print(json.dumps(reply), file=replies, flush=True)


def _replies(lines: Iterable[str]) -> Iterator[Any]:
    """The output of the first call, then the seconds per call for each further line, until a failure."""
    try:
        requests = iter(lines)
        setup = json.loads(next(requests))
        work = ENGINES[setup["engine"]](DecodingTask(**setup["task"]))
        yield work()
        for _ in requests:
            yield measure(work)
    except Exception as error:  # reported to the parent, whatever a library raises
        yield {"failed": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
