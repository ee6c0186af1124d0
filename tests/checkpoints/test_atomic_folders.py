"""Putting a folder in its place: what is on the disk before each rename, what an error leaves."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Event, Thread

import pytest

from regard.checkpoints import atomic_folders
from regard.checkpoints.atomic_folders import new_folder, read_replaceable, readable_folder, remove_leftovers
from regard.checkpoints.untrusted_files import check_manifest
from regard.errors import CheckpointError


def save(target: Path, text: str) -> None:
    with new_folder(target, replace=True) as making:
        (making / "file").write_text(text, encoding="utf-8")


@pytest.mark.skipif(os.name == "nt", reason="Windows syncs no folder")
def test_files_and_folders_reach_the_disk_in_their_order(tmp_path, monkeypatch):
    done: list[tuple[str, str]] = []
    fsync, rename = os.fsync, Path.rename

    def name_of(path: Path) -> str:
        return "new folder" if path.name.startswith(atomic_folders.UNFINISHED) else path.name

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
        if path.name.startswith(atomic_folders.UNFINISHED):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse_the_second)
    with pytest.raises(CheckpointError, match=r"Input/output error; earlier files are unchanged"):
        save(tmp_path / "model", "new")
    assert (tmp_path / "model" / "file").read_text(encoding="utf-8") == "old"
    check_manifest(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def text_of(folder: Path) -> str:
    check_manifest(folder)
    return (folder / "file").read_text(encoding="utf-8")


def test_a_folder_between_two_renames_is_read_where_it_was_set_aside(tmp_path):
    model = tmp_path / "model"
    save(model, "old")
    model.rename(tmp_path / f"{atomic_folders.REPLACED}model")
    assert read_replaceable(model, text_of) == "old"
    save(model, "new")
    assert readable_folder(model) == model
    assert read_replaceable(model, text_of) == "new"


@pytest.mark.parametrize("name", ["x" * 250, "x" * 5000, "a\0b", "file/below"])
def test_a_name_that_leads_nowhere_stands_for_itself(tmp_path, name):
    (tmp_path / "file").touch()
    assert readable_folder(tmp_path / name) == tmp_path / name


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(tmp_path):
    model, left = tmp_path / "model", ["second", "third"]
    save(model, "first")

    def read(folder: Path) -> str:
        manifest = (folder / "manifest.json").read_bytes()
        if left:
            save(model, left.pop(0))
        if (folder / "manifest.json").read_bytes() != manifest:
            raise CheckpointError("it has changed")
        return text_of(folder)

    assert read_replaceable(model, read) == "third"
    (model / "file").write_text("damaged", encoding="utf-8")
    with pytest.raises(CheckpointError, match="damaged"):
        read_replaceable(model, text_of)
    with pytest.raises(CheckpointError, match="not a folder"):
        read_replaceable(tmp_path / "none", text_of)


def test_readers_meet_a_whole_folder_whenever_they_look(tmp_path):
    model, ended = tmp_path / "model", Event()
    save(model, "0")

    def write() -> None:
        for number in range(1, 60):
            save(model, str(number) * number)
        ended.set()

    writer = Thread(target=write)
    writer.start()
    seen = []
    while not ended.is_set():
        seen.append(read_replaceable(model, text_of))
    writer.join()
    assert set(seen) <= {"0", *(str(number) * number for number in range(1, 60))}


def test_sweeping_for_one_name_leaves_other_writers_alone(tmp_path):
    for name in (".unfinished-model-1-a", ".unfinished-other-1-a", ".replaced-other"):
        (tmp_path / name).mkdir()
    remove_leftovers(tmp_path, "model")
    assert {path.name for path in tmp_path.iterdir()} == {".unfinished-other-1-a", ".replaced-other"}
