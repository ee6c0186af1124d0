"""The run from nothing to a model in its place; used again, made anew, never half there."""

from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest

from regard.demo.story.training import Demo, obtain, sentences_for
from regard.errors import Interrupted, UsageError
from regard.runs.recipe import Recipe


def test_a_run_leaves_a_model_its_snapshots_and_what_is_known_of_it(demo):
    assert (demo.folder / "model" / "manifest.json").is_file()
    assert [int(path.name.removeprefix("step-")) for path in demo.snapshots] == list(range(0, 21, 2))
    assert (demo.facts["pairs"], demo.facts["steps"]) == (4000, 20)
    assert {"cat", "because"} <= set(demo.facts["words"])
    assert json.loads((demo.folder / "demo.json").read_bytes()) == demo.facts
    assert not (demo.folder / "checkpoints").exists()


def test_the_run_names_its_text_where_it_now_is(demo, make_place):
    recipe = Recipe.load(demo.folder / "recipe.toml")
    sentences = sentences_for(make_place(demo.folder))
    for name, pairs in (("source", sentences.train), ("test_source", sentences.test)):
        file = demo.folder / "corpus" / {"source": "train.en", "test_source": "test.en"}[name]
        assert getattr(recipe.data, name) == str(file)
        assert file.read_text(encoding="utf-8").splitlines() == [pair.source for pair in pairs]


def test_a_second_start_reuses_the_model_and_fresh_does_not(demo, make_place, monkeypatch):
    trained = []
    monkeypatch.setattr("regard.demo.story.training._train", lambda *_: trained.append(1))
    assert obtain(make_place(demo.folder)).facts == demo.facts
    assert trained == []
    obtain(make_place(demo.folder), fresh=True)
    assert trained == [1]
    obtain(make_place(demo.folder, tokenizer={"lowercase": True}))
    assert trained == [1, 1]


def test_training_anew_takes_the_place_of_the_old(make_place, tmp_path):
    place = make_place(tmp_path / "model")
    obtain(place, show=False)
    before = (place.path / "model" / "model.safetensors").read_bytes()
    other = replace(place, settings={**place.settings, "tokenizer": {"lowercase": True}})
    assert other.facts() is None
    obtain(other, show=False)
    assert place.facts() is None
    assert (place.path / "model" / "model.safetensors").read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_stopped_run_leaves_nothing(make_place, tmp_path, monkeypatch):
    place = make_place(tmp_path / "model")

    def stop(*_, **__):
        raise Interrupted("ended by signal 15", signal.SIGTERM)

    monkeypatch.setattr("regard.demo.story.training.finish", stop)
    with pytest.raises(Interrupted, match="regard demo begins anew") as caught:
        obtain(place, show=False)
    assert caught.value.exit_code == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else_is_never_replaced(make_place, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(UsageError, match="not a demo folder"):
        obtain(make_place(tmp_path / "mine"), show=False)
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_folder_is_opened_whatever_it_was_made_of(demo, tmp_path):
    opened = Demo.open(demo.folder)
    assert (opened.folder, opened.facts) == (demo.folder, demo.facts)
    with pytest.raises(UsageError, match="not a demo folder"):
        Demo.open(tmp_path)


def test_the_reverse_model_reads_french(make_place, tmp_path):
    found = obtain(make_place(tmp_path / "model", name="demo-reverse"), show=False)
    assert {"parce", "qu'"} <= set(found.facts["words"])
    assert found.facts["lectures_total"] == 5
