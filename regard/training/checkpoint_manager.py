"""The checkpoints of a run: writing, verifying and deleting them, and the lock of the run's folder.

OUT/checkpoints/step-00000100/   a model folder with the training state
OUT/weights/step-00000100/       a snapshot: a model folder that is never deleted
OUT/run.lock                     the process that writes to the folder

If a run resumes from an earlier checkpoint, the folders of later steps are renamed to abandoned-step-N. They
are deleted when the run has a checkpoint of step N or later, or ends.

Of several ranks the first locks, renames and deletes. All of them write into the new folder of a checkpoint.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from io import FileIO
from pathlib import Path

from regard import ranks
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

LOCK = "run.lock"


class Lock:
    """A lock on a folder to which one process writes; readers need none.

    It is a lock of the operating system, which releases it when the process ends. The file has the process
    and host, for people.
    """

    def __init__(self, folder: Path):
        self.path = folder / LOCK
        self._file: FileIO | None = None

    def acquire(self) -> None:
        """Acquire the lock, or raise with its holder."""
        try:
            file = self.path.open(
                "ab+", buffering=0
            )  # unbuffered, so that closing cannot fail on a full disk
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
        """Release the lock; the empty file stays."""
        if self._file is not None:
            self._write("")
            self._file.close()
            self._file = None

    def _write(self, text: str) -> None:
        assert self._file is not None
        try:
            self._file.truncate(0)
            self._file.write(text.encode())
        except OSError:  # a full disk; the lock is held all the same
            pass

    def _holder(self) -> str:
        try:
            holder = json.loads(self.path.read_bytes())
            return f"process {int(holder['pid'])} on {holder['host']}"
        except (OSError, ValueError, LookupError, TypeError):
            return "another process"


def _lock(file: FileIO) -> None:
    """Lock a file; OSError if another process has it."""
    if os.name == "nt":
        import msvcrt

        file.seek(1 << 30)  # beyond the text, so that it stays readable
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


log = logging.getLogger("regard.training")

Write = Callable[[Path], None]

STEP, ABANDONED = "step-", "abandoned-step-"


class CheckpointManager:
    """The checkpoints of one run folder. Writing needs `open`; reading does not."""

    def __init__(self, out: Path):
        self.out = out
        self.checkpoint_folder, self.snapshot_folder = out / "checkpoints", out / "weights"
        self._lock = Lock(out)

    def open(self, needed: int) -> None:
        """Lock the folder for writing; raises if a checkpoint of `needed` bytes cannot be written."""
        ranks.from_first(lambda: self._open(needed))

    def _open(self, needed: int) -> None:
        requirement = f"a checkpoint needs about {megabytes(needed)}"
        if _free(self.out) < needed:
            raise TrainingError(disk_full(self.out, requirement))
        try:
            for folder in (self.checkpoint_folder, self.snapshot_folder):
                folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            for folder in (self.checkpoint_folder, self.snapshot_folder):
                remove_leftovers(folder)
                probe = folder / f".unfinished-probe-{os.getpid()}"
                write_file(probe, [b"x"])
                probe.unlink()
        except OSError as error:
            self.close()
            if is_disk_full(error):
                raise TrainingError(disk_full(self.out, requirement)) from None
            raise cannot_write(self.out, error) from None

    def close(self) -> None:
        """Release the lock."""
        self._lock.release()

    def steps(self) -> list[int]:
        """The steps with a checkpoint, sorted; also those whose replacement was interrupted."""
        return ranks.from_first(self._steps)

    def _steps(self) -> list[int]:
        return sorted(
            {*_numbers(self.checkpoint_folder, STEP), *_numbers(self.checkpoint_folder, REPLACED + STEP)}
        )

    def snapshots(self) -> list[int]:
        """The steps with a snapshot of the weights, sorted."""
        return ranks.from_first(lambda: _numbers(self.snapshot_folder, STEP))

    def path(self, step: int) -> Path:
        """The path of a step's checkpoint, which may not exist."""
        return self.checkpoint_folder / f"step-{step:08}"

    def save(self, step: int, write: Write) -> Path:
        """Write a checkpoint with `write`, which every rank calls; one of this step is replaced."""
        return self._save(self.path(step), write)

    def save_snapshot(self, step: int, write: Write) -> Path:
        """Write a model folder that is never deleted."""
        return self._save(self.snapshot_folder / f"step-{step:08}", write)

    def _save(self, target: Path, write: Write) -> Path:
        with ranks.opened_by_first(lambda: _new_folder(target)) as folder:
            write(folder)
        return target

    def prune(self, keep: int, best: int | None) -> None:
        """Delete all checkpoints except the newest `keep` and the best."""
        for step in self.steps()[:-keep]:
            if step != best and ranks.is_first():
                _remove(self.path(step))

    def newest_good(self) -> Path | None:
        """The newest undamaged checkpoint; each damaged one is logged as a warning."""
        return ranks.from_first(self._newest_good)

    def _newest_good(self) -> Path | None:
        for step in reversed(self._steps()):
            folder = readable_folder(self.path(step))
            damage = damage_of(folder)
            if not damage:
                return folder
            log.warning("%s; trying the checkpoint before it", damage)
        return None

    def abandon_after(self, step: int) -> None:
        """Rename the folders of later steps; the resumed run writes them again."""
        ranks.from_first(lambda: self._abandon_after(step))

    def _abandon_after(self, step: int) -> None:
        for folder in (self.checkpoint_folder, self.snapshot_folder):
            for later in _numbers(folder, STEP):
                if later > step:
                    path, abandoned = folder / f"{STEP}{later:08}", folder / f"{ABANDONED}{later:08}"
                    shutil.rmtree(abandoned, ignore_errors=True)
                    path.rename(abandoned)
                    log.warning("%s is later than step %d and was renamed to %s", path, step, abandoned.name)

    def remove_abandoned(self, step: int | None = None) -> None:
        """Delete the renamed folders of steps up to this one, or all."""
        ranks.from_first(lambda: self._remove_abandoned(step))

    def _remove_abandoned(self, step: int | None) -> None:
        for folder in (self.checkpoint_folder, self.snapshot_folder):
            for abandoned in _numbers(folder, ABANDONED):
                if step is None or abandoned <= step:
                    _remove(folder / f"{ABANDONED}{abandoned:08}")


def damage_of(folder: Path) -> str:
    """What is wrong with the files of a checkpoint; empty if they are as they were written."""
    try:
        check_manifest(folder)
    except CheckpointError as error:
        return str(error)
    return ""


def _new_folder(target: Path) -> AbstractContextManager[Path]:
    if not target.parent.is_dir():  # the run was moved; creating the folder would divide it
        raise CheckpointError(f"{target.parent} does not exist any more; resume the run where it is now")
    return new_folder(target, replace=True)


def _numbers(folder: Path, prefix: str) -> list[int]:
    names = (path.name.removeprefix(prefix) for path in folder.glob(f"{prefix}*"))
    return sorted(int(name) for name in names if name.isdecimal())


def _remove(folder: Path) -> None:
    try:
        remove_folder(folder)
    except OSError as error:  # the run can continue
        log.warning("cannot remove %s: %s", folder, error.strerror or error)


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error or one of its causes is that the disk or a quota is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__context__
    return False


def disk_full(folder: Path, requirement: str) -> str:
    """The message about a full disk."""
    return (
        f"the disk of {folder} has {megabytes(_free(folder))} left, and {requirement}; "
        "free disk space, or choose another folder"
    )


def megabytes(size: int) -> str:
    """A size in megabytes, as text."""
    return f"{size / 1e6:,.1f} MB" if size < 1e8 else f"{size / 1e6:,.0f} MB"


def _free(folder: Path) -> int:
    """Free bytes on the disk of a folder, which may not exist."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free
