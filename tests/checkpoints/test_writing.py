"""Putting a folder in its place: what is on the disk before each rename, what an error leaves."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from regard.checkpoints import writing
from regard.checkpoints.reading import check_manifest
from regard.checkpoints.writing import new_folder
from regard.errors import CheckpointError


def save(target: Path, text: str) -> None:
    with new_folder(target, replace=True) as making:
        (making / "file").write_text(text, encoding="utf-8")


@pytest.mark.skipif(os.name == "nt", reason="Windows syncs no folder")
def test_files_and_folders_reach_the_disk_in_their_order(tmp_path, monkeypatch):
    done: list[tuple[str, str]] = []
    fsync, rename = os.fsync, Path.rename

    def name_of(path: Path) -> str:
        return "new folder" if path.name.startswith(writing.UNFINISHED) else path.name

    def synced(descriptor):
        done.append(("sync", name_of(Path(f"/proc/self/fd/{descriptor}").readlink())))
        fsync(descriptor)

    def renamed(path, target):
        done.append(("rename", name_of(path)))
        return rename(path, target)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("no /proc there")
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    save(tmp_path / "model", "a")
    assert done == [
        ("sync", "file"),
        ("sync", "manifest.json"),
        ("sync", "new folder"),
        ("rename", "new folder"),
        ("sync", tmp_path.name),
    ]


def test_where_the_new_folder_cannot_be_put_the_old_one_is_put_back(tmp_path, monkeypatch):
    save(tmp_path / "model", "old")
    rename = Path.rename

    def refuse_the_second(path, target):
        if path.name.startswith(writing.UNFINISHED):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse_the_second)
    with pytest.raises(CheckpointError, match=r"Input/output error; what was saved before is untouched"):
        save(tmp_path / "model", "new")
    assert (tmp_path / "model" / "file").read_text(encoding="utf-8") == "old"
    check_manifest(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
