"""Train a demo model for the page: `python -m regard.service.demo_trainer NAME FOLDER ...`.

It says on stdout where it works, and ends with the process that started it: whoever holds its stdin open.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from regard.demo.story.model_store import Place
from regard.errors import RegardError


class ToldPlace(Place):
    """A place that tells where its model is being made."""

    @contextmanager
    def made(self) -> Iterator[Path]:
        """The same folder as any place's, named on stdout."""
        with super().made() as work:
            print(json.dumps(str(work)), flush=True)
            yield work


def learn(asked: str) -> int:
    """Train the model of a place, given as JSON, and give the exit code."""
    told = json.loads(asked)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    Thread(target=_end_with_stdin, daemon=True).start()
    from regard.demo.story.training import obtain

    try:
        obtain(ToldPlace(told["name"], Path(told["path"]), told["settings"], told["pairs"]), show=False)
    except RegardError as error:
        print("error:", error, file=sys.stderr)
        return error.exit_code
    return 0


def _end_with_stdin() -> None:
    while os.read(0, 1 << 16):  # not sys.stdin, whose lock a thread that waits would hold at the end
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(learn(sys.argv[1]))
