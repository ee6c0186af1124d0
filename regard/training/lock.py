"""One writer at a time: a lock that ends with its process, however that ends."""

from __future__ import annotations

import json
import os
import socket
from io import FileIO
from pathlib import Path

from regard.checkpoints.writing import cannot_write
from regard.errors import TrainingError

NAME = "run.lock"


class Lock:
    """Held from `acquire` to `release` on a folder that one process writes to; readers need none.

    The system itself holds the lock and lets it go when the process ends, so what a dead one left behind
    is only a file. Who holds it stands in the file, for people.
    """

    def __init__(self, folder: Path):
        self.path = folder / NAME
        self._file: FileIO | None = None

    def acquire(self) -> None:
        """Take the lock, or say who has it."""
        try:
            file = self.path.open("ab+", buffering=0)  # a full disk must not fail its closing
        except OSError as error:
            raise cannot_write(self.path, error) from None
        try:
            _lock(file)
        except OSError:
            file.close()
            raise TrainingError(
                f"{self.path.parent} is being written to by {self._holder()}; "
                "wait for it to end, or choose another folder"
            ) from None
        self._file = file
        self._write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))

    def release(self) -> None:
        """Let the lock go; the file stays, empty."""
        if self._file is not None:
            self._write("")
            self._file.close()
            self._file = None

    def _write(self, text: str) -> None:
        assert self._file is not None
        try:
            self._file.truncate(0)
            self._file.write(text.encode())
        except OSError:  # a full disk; the lock holds all the same
            pass

    def _holder(self) -> str:
        try:
            told = json.loads(self.path.read_bytes())
            return f"process {int(told['pid'])} on {told['host']}"
        except (OSError, ValueError, LookupError, TypeError):
            return "another process"


def _lock(file: FileIO) -> None:
    """Raise OSError where somebody else has it."""
    if os.name == "nt":
        import msvcrt

        file.seek(1 << 30)  # beyond the text, which stays readable
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
