"""The checkpoint manager by itself: which folders it finds, renames and deletes, and the lock."""

from __future__ import annotations

import errno
import json
import os
import socket
from types import SimpleNamespace

import pytest

from regard.checkpoints.atomic_folders import REPLACED
from regard.errors import CheckpointError, TrainingError
from regard.training import checkpoint_manager
from regard.training.checkpoint_manager import CheckpointManager, Lock, is_disk_full, megabytes


@pytest.fixture
def manager(tmp_path) -> CheckpointManager:
    """A manager of a folder with checkpoints and snapshots of the steps 2, 4 and 6, and other names."""
    made = CheckpointManager(tmp_path)
    for folder in (made.checkpoint_folder, made.snapshot_folder):
        for name in ("step-00000002", "step-00000004", "step-00000006", "step-best", "notes"):
            (folder / name).mkdir(parents=True)
    return made


def names(manager: CheckpointManager) -> list[list[str]]:
    folders = manager.checkpoint_folder, manager.snapshot_folder
    return [sorted(path.name for path in folder.glob("*step-0*")) for folder in folders]


def test_steps_are_those_of_folders_also_of_an_interrupted_replacement(manager):
    assert (manager.steps(), manager.snapshots()) == ([2, 4, 6], [2, 4, 6])
    path = manager.path(4)
    path.rename(path.with_name(f"{REPLACED}{path.name}"))
    assert manager.steps() == [2, 4, 6]


@pytest.mark.parametrize(
    ("keep", "best", "left"), [(2, None, [4, 6]), (2, 2, [2, 4, 6]), (2, 4, [4, 6]), (1, 2, [2, 6])]
)
def test_pruning_keeps_the_newest_and_the_best(manager, keep, best, left):
    manager.prune(keep, best)
    assert (manager.steps(), manager.snapshots()) == (left, [2, 4, 6])


def test_later_steps_are_abandoned_and_then_removed(manager):
    old = manager.snapshot_folder / "abandoned-step-00000006"
    (old / "of-an-earlier-resume").mkdir(parents=True)
    manager.abandon_after(2)
    assert names(manager) == [["abandoned-step-00000004", "abandoned-step-00000006", "step-00000002"]] * 2
    assert not list(old.iterdir())
    manager.remove_abandoned(4)
    assert names(manager) == [["abandoned-step-00000006", "step-00000002"]] * 2
    manager.remove_abandoned()
    assert names(manager) == [["step-00000002"]] * 2
    assert (manager.checkpoint_folder / "step-best").is_dir()


def test_a_checkpoint_is_not_written_where_its_run_has_moved_away(tmp_path):
    with pytest.raises(CheckpointError, match="does not exist any more; resume the run where it is now"):
        CheckpointManager(tmp_path).save(1, lambda folder: None)
    assert not list(tmp_path.iterdir())


def test_the_lock_names_its_process_and_is_empty_after_it(tmp_path):
    lock, other = Lock(tmp_path), Lock(tmp_path)
    lock.acquire()
    assert json.loads(lock.path.read_bytes()) == {"pid": os.getpid(), "host": socket.gethostname()}
    with pytest.raises(TrainingError, match=f"by process {os.getpid()} on {socket.gethostname()}; wait"):
        other.acquire()
    lock.path.write_bytes(b"[")
    with pytest.raises(TrainingError, match="by another process; wait"):
        other.acquire()
    lock.release()
    assert lock.path.read_bytes() == b""
    other.acquire()
    lock.release()  # releases nothing that the other has
    with pytest.raises(TrainingError, match="being written to"):
        Lock(tmp_path).acquire()
    other.release()


def test_a_folder_that_cannot_be_written_is_not_locked(tmp_path, monkeypatch):
    def refuse(path, pieces):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(checkpoint_manager, "write_file", refuse)
    with pytest.raises(TrainingError, match=r"a checkpoint needs about 1\.0 MB"):
        CheckpointManager(tmp_path).open(1_000_000)
    monkeypatch.undo()
    manager = CheckpointManager(tmp_path)
    manager.open(1_000_000)
    assert [path.name for path in manager.checkpoint_folder.iterdir()] == []
    manager.close()


def test_space_for_one_checkpoint_is_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_manager.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    below = CheckpointManager(tmp_path / "not" / "there")
    with pytest.raises(
        TrainingError, match=r"has 0\.0 MB left, and a checkpoint needs about 0\.0 MB; free disk"
    ):
        below.open(1001)
    assert not below.out.exists()
    below.open(1000)
    below.close()


def test_a_full_disk_is_known_by_number_and_cause():
    for number in (errno.ENOSPC, errno.EDQUOT):
        assert is_disk_full(OSError(number, "full"))
    for other in (None, OSError(errno.EROFS, "read-only"), ValueError("28")):
        assert not is_disk_full(other)
    outer = CheckpointError("while saving")
    outer.__context__ = ValueError("in between")
    outer.__context__.__context__ = OSError(errno.ENOSPC, "full")
    assert is_disk_full(outer)


def test_sizes_are_in_megabytes():
    assert [megabytes(size) for size in (0, 1_250_000, 99_940_000, 100_000_000, 1_234_567_890)] == [
        "0.0 MB", "1.2 MB", "99.9 MB", "100 MB", "1,235 MB",
    ]  # fmt: skip
