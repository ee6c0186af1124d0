"""The one rule for which model a path means."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.checkpoints import locations
from regard.checkpoints.atomic_folders import MANIFEST
from regard.checkpoints.locations import ModelLocation, cache_folder, locate_model
from regard.errors import CheckpointError
from regard.inference.loading import load


def write(folder, name=MANIFEST):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("{}")
    return folder


def test_a_model_folder_means_itself(tmp_path):
    folder = write(tmp_path / "mine")
    assert locate_model(folder) == locate_model(str(folder)) == ModelLocation(folder, None)


def test_a_run_means_its_model_or_its_newest_snapshot(tmp_path):
    assert locate_model(tmp_path) is None
    write(tmp_path / "weights" / "step-00000010")
    newest = write(tmp_path / "weights" / "step-00000200")
    location = locate_model(tmp_path)
    assert location == ModelLocation(newest, tmp_path)
    assert location.is_underway
    model = write(tmp_path / "model")
    assert locate_model(tmp_path) == ModelLocation(model, tmp_path)
    assert list(locate_model(tmp_path).snapshots()) == [10, 200]


def test_the_model_of_a_run_knows_its_run(tmp_path):
    write(tmp_path, "metrics.jsonl")
    assert locate_model(write(tmp_path / "model")).run == tmp_path


def test_a_path_without_a_model_means_none(tmp_path):
    assert locate_model(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/regard"),
        ("linux", {"HOME": "/h"}, "/h/.cache/regard"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Caches/regard"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/regard/Cache"),
        ("win32", {"LOCALAPPDATA": "/l", "REGARD_CACHE": "/c"}, "/c"),
    ],
)
def test_the_cache_is_where_this_system_keeps_such_things(monkeypatch, platform, variables, expected) -> None:
    for name in ("REGARD_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(locations.sys, "platform", platform)
    assert cache_folder() == Path(expected)


@pytest.mark.parametrize("name", ["\ud800", "a\0b", "a" * 10_000], ids=["half a character", "NUL", "long"])
def test_a_name_that_no_folder_can_have_is_not_a_folder(name):
    assert locate_model(name) is None
    with pytest.raises(CheckpointError, match="is not a folder"):
        load(name)
