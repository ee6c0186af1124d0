"""Where models are kept, and when one counts as there."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.demo.story import model_store as room
from regard.demo.story.model_store import (
    COMMANDS,
    RECIPES,
    DemoFolder,
    cache_folder,
    find_demo_folder,
    trained_folder,
)
from regard.errors import UsageError


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
def test_the_cache_is_where_this_system_keeps_such_things(monkeypatch, platform, variables, expected):
    for name in ("REGARD_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(room.sys, "platform", platform)
    assert cache_folder() == Path(expected)


def test_a_fingerprint_is_of_name_settings_grammar_and_recipe(tmp_path, monkeypatch):
    first = DemoFolder("demo", tmp_path).fingerprint
    assert DemoFolder("demo", tmp_path / "elsewhere").fingerprint == first
    others = {
        DemoFolder("demo-reverse", tmp_path).fingerprint,
        DemoFolder("demo-language-model", tmp_path).fingerprint,
    }
    others |= {DemoFolder("demo", tmp_path, {"training": {"steps": 1}}).fingerprint}
    others |= {DemoFolder("demo", tmp_path, pairs=1000).fingerprint}
    (tmp_path / "grammar.py").write_text("another")
    monkeypatch.setattr(room, "GRAMMAR", tmp_path)
    others |= {DemoFolder("demo", tmp_path).fingerprint}
    assert len(others - {first}) == 5


def test_damaged_facts_count_as_no_model(tmp_path):
    for text in ("", "[]", '{"fingerprint": "other"}'):
        (tmp_path / "demo.json").write_text(text)
        assert DemoFolder("demo", tmp_path).facts() is None


def test_an_untrained_name_says_what_makes_it(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    for name, command in COMMANDS.items():
        with pytest.raises(UsageError, match=f"not trained on this machine yet; {command} makes it"):
            trained_folder(name)


def test_settings_of_ones_own_need_a_folder_of_ones_own(tmp_path):
    with pytest.raises(UsageError, match="--out DIR"):
        find_demo_folder("demo", None, {"training": {"steps": 1}})
    assert find_demo_folder("demo", tmp_path, {"training": {"steps": 1}}).path == tmp_path


def test_every_built_in_name_has_a_recipe_and_a_command():
    assert tuple(RECIPES) == tuple(COMMANDS)
