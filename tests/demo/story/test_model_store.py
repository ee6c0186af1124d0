"""Where models are kept, and when one counts as there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.demo.story import model_store as room
from regard.demo.story.model_store import (
    COMMANDS,
    RECIPES,
    DemoFolder,
    find_demo_folder,
    trained_folder,
)
from regard.errors import UsageError


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


@pytest.fixture
def stores(monkeypatch, tmp_path):
    """The user's cache and the folder of the shipped models, both empty."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(room, "SHIPPED", tmp_path / "shipped")
    return tmp_path / "cache", tmp_path / "shipped"


def put(folder: Path, fingerprint: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "demo.json").write_text(json.dumps({"fingerprint": fingerprint}), encoding="utf-8")


def test_a_model_trained_here_wins_over_the_shipped_one_if_it_is_up_to_date(stores):
    cache, shipped = stores
    for name in RECIPES:
        present = find_demo_folder(name).fingerprint
        put(shipped / name, present)
        assert trained_folder(name) == shipped / name
        put(cache / name, "of another recipe")
        assert trained_folder(name) == shipped / name
        put(cache / name, present)
        assert trained_folder(name) == cache / name


def test_a_shipped_model_of_another_recipe_is_not_used(stores):
    for name, command in COMMANDS.items():
        put(stores[1] / name, "of another recipe")
        with pytest.raises(UsageError, match=f"shipped {name} is out of date; {command} trains a new one"):
            trained_folder(name)


def test_the_shipped_model_does_not_stand_for_other_settings(stores, tmp_path):
    put(stores[1] / "demo", find_demo_folder("demo").fingerprint)
    assert DemoFolder("demo", tmp_path / "mine").ready() == stores[1] / "demo"
    assert DemoFolder("demo", tmp_path / "mine", {"training": {"steps": 1}}).ready() is None


def test_settings_of_ones_own_need_a_folder_of_ones_own(tmp_path):
    with pytest.raises(UsageError, match="--out DIR"):
        find_demo_folder("demo", None, {"training": {"steps": 1}})
    assert find_demo_folder("demo", tmp_path, {"training": {"steps": 1}}).path == tmp_path


def test_every_built_in_name_has_a_recipe_and_a_command():
    assert tuple(RECIPES) == tuple(COMMANDS)
