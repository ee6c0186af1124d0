"""A contender in a process of its own, which works when it is told to and sleeps in between.

    python -m regard.bench.worker

The first line it reads says who it is and what the work is; it answers with the output of one piece. Each
further line is a turn; it answers with the seconds of a piece. It ends when there is nothing to read.
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
from typing import Any

from regard.bench.engines import ENGINES, Task
from regard.errors import RegardError

LEAST = 0.2  # seconds of a turn: shorter pieces are done again


class Worker:
    """The parent's end of a worker. While others work it is stopped, so that none of its threads spins."""

    def __init__(self, engine: str, task: Task, threads: int):
        self._engine = engine
        self._process = subprocess.Popen(
            [sys.executable, "-m", "regard.bench.worker"],
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

    def turn(self) -> float:
        """The seconds that a piece of the work took, by the worker's own clock."""
        self._signal("SIGCONT")
        return float(self._ask("go"))

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, line: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        self._signal("SIGSTOP")
        told = json.loads(answer) if answer else {"failed": "it ended without a word"}
        if isinstance(told, dict):
            raise RegardError(f"the worker of {self._engine} has failed: {told['failed']}")
        return told

    def _signal(self, name: str) -> None:
        if hasattr(signal, name):  # Windows has none of them
            self._process.send_signal(getattr(signal, name))


def turn(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds of a piece, done as often as a turn is long."""
    started, pieces, passed = clock(), 0, 0.0
    while passed < LEAST:
        work()
        pieces, passed = pieces + 1, clock() - started
    return passed / pieces


def main() -> None:
    """Be a worker."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    for answer in _answers(sys.stdin):
        print(json.dumps(answer), file=answers, flush=True)


def _answers(lines: Iterable[str]) -> Iterator[Any]:
    """The first piece's output, then the seconds of a piece for every further line; the end on a failure."""
    try:
        waiting = iter(lines)
        told = json.loads(next(waiting))
        work = ENGINES[told["engine"]](Task(**told["task"]))
        yield work()
        for _ in waiting:
            yield turn(work)
    except Exception as error:  # whatever a library may raise is told to the parent
        yield {"failed": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
