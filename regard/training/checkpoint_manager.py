"""The checkpoints of a run: which there are, which can be trusted, which are kept.

OUT/checkpoints/step-00000100/   a model folder and the training state beside it
OUT/weights/step-00000100/       a model folder that is kept for good
OUT/run.lock                     who writes here

Where a run goes on from an earlier checkpoint, what later steps left in both folders is renamed to
abandoned-step-N. It is removed once the run has a checkpoint of step N or later, or has come to its end.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import socket
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from regard.checkpoints.atomic_folders import (
    REPLACED,
    cannot_write,
    new_folder,
    readable_folder,
    remove_folder,
    remove_leftovers,
    write_file,
)
from regard.checkpoints.untrusted_files import check_manifest
from regard.errors import CheckpointError, TrainingError

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


log = logging.getLogger("regard.training")

Write = Callable[[Path], None]

STEP, ABANDONED = "step-", "abandoned-step-"


class CheckpointManager:
    """The checkpoints of one run folder. Writing needs `open`; looking does not."""

    def __init__(self, out: Path):
        self.out = out
        self.checkpoints, self.weights = out / "checkpoints", out / "weights"
        self._lock = Lock(out)

    def open(self, needed: int) -> None:
        """Become the one writer, with the certainty that a checkpoint of so many bytes can be written."""
        room = f"a checkpoint needs about {megabytes(needed)}"
        if _free(self.out) < needed:
            raise TrainingError(no_room(self.out, room))
        try:
            for folder in (self.checkpoints, self.weights):
                folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            for folder in (self.checkpoints, self.weights):
                remove_leftovers(folder)
                probe = folder / f".unfinished-probe-{os.getpid()}"
                write_file(probe, [b"x"])
                probe.unlink()
        except OSError as error:
            self.close()
            if is_disk_full(error):
                raise TrainingError(no_room(self.out, room)) from None
            raise cannot_write(self.out, error) from None

    def close(self) -> None:
        """Let others write."""
        self._lock.release()

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in order; one whose replacement was cut short counts."""
        return sorted({*_numbers(self.checkpoints, STEP), *_numbers(self.checkpoints, REPLACED + STEP)})

    def kept(self) -> list[int]:
        """The steps whose weights are kept for good, in order."""
        return _numbers(self.weights, STEP)

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step is, or would be."""
        return self.checkpoints / f"step-{step:08}"

    def save(self, step: int, write: Write) -> Path:
        """A new checkpoint, written by `write`; one that stands there for this step is replaced."""
        return self._save(self.path(step), write)

    def save_weights(self, step: int, write: Write) -> Path:
        """A model folder that is kept for good."""
        return self._save(self.weights / f"step-{step:08}", write)

    def _save(self, target: Path, write: Write) -> Path:
        if not target.parent.is_dir():  # whoever moved the run away does not want half of it back here
            raise CheckpointError(f"{target.parent} has vanished; nothing can be saved there any more")
        with new_folder(target, replace=True) as making:
            write(making)
        return target

    def prune(self, keep_last: int, best: int | None) -> None:
        """Keep the last few and the best, and nothing else."""
        steps = self.steps()
        for step in steps[:-keep_last]:
            if step != best:
                _remove(self.path(step))

    def newest_good(self) -> Path | None:
        """The latest checkpoint without damage; for each damaged one that is passed over, a warning."""
        for step in reversed(self.steps()):
            folder = readable_folder(self.path(step))
            try:
                check_manifest(folder)
                return folder
            except CheckpointError as error:
                log.warning("%s; going back to the checkpoint before it", error)
        return None

    def abandon_after(self, step: int) -> None:
        """Set aside what later steps left: a run that goes on from this one makes it anew."""
        for folder in (self.checkpoints, self.weights):
            for later in _numbers(folder, STEP):
                if later > step:
                    path, aside = folder / f"{STEP}{later:08}", folder / f"{ABANDONED}{later:08}"
                    shutil.rmtree(aside, ignore_errors=True)
                    path.rename(aside)
                    log.warning("%s is later than step %d and now called %s", path, step, aside.name)

    def remove_abandoned(self, step: int | None = None) -> None:
        """Remove what was set aside, of steps up to this one or of all."""
        for folder in (self.checkpoints, self.weights):
            for abandoned in _numbers(folder, ABANDONED):
                if step is None or abandoned <= step:
                    _remove(folder / f"{ABANDONED}{abandoned:08}")


def _numbers(folder: Path, prefix: str) -> list[int]:
    names = (path.name.removeprefix(prefix) for path in folder.glob(f"{prefix}*"))
    return sorted(int(name) for name in names if name.isdecimal())


def _remove(folder: Path) -> None:
    try:
        remove_folder(folder)
    except OSError as error:  # it costs room, not the run
        log.warning("cannot remove %s: %s", folder, error.strerror or error)


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or one that it was made of, says that the disk or a quota is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__context__
    return False


def no_room(folder: Path, needed: str) -> str:
    """The message about a disk that is full: what is needed, and where."""
    return (
        f"the disk of {folder} has {megabytes(_free(folder))} left, and {needed}; "
        "free the disk, or choose another folder"
    )


def megabytes(size: int) -> str:
    """A size as people read it."""
    return f"{size / 1e6:,.1f} MB" if size < 1e8 else f"{size / 1e6:,.0f} MB"


def _free(folder: Path) -> int:
    """How many bytes are free where a folder is, or will be."""
    existing = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    return shutil.disk_usage(existing).free
