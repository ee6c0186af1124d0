"""The models of a studio: found, named, described before torch is there, loaded with their snapshots."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from regard.checkpoints.folder import copy_model
from regard.demo.story.model_store import SHIPPED
from regard.errors import CheckpointError, UsageError
from regard.service.http_errors import NotFound, NotReady
from regard.service.locations import find_location, name_of
from regard.service.models import Entry, Models, open_models


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """No built-in model is trained on this machine."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("regard.demo.story.model_store.SHIPPED", tmp_path / "shipped")
    return tmp_path / "cache"


def test_a_home_is_found_from_run_and_model(demo_run):
    for path in (demo_run, demo_run / "model"):
        home = find_location(path)
        assert home.model.samefile(demo_run / "model")
        assert home.run.samefile(demo_run)
        assert list(home.snapshots()) == [0, 20]
    alone = find_location(demo_run / "weights" / "step-00000020")
    assert (alone.run, alone.snapshots()) == (None, {})


def test_a_run_that_goes_on_is_seen_by_its_last_snapshot(demo_run, tmp_path):
    shutil.copytree(demo_run / "weights", tmp_path / "going" / "weights")
    (tmp_path / "going" / "weights" / "step-00000040").mkdir()  # still being written
    (tmp_path / "going" / "weights" / "step-x").mkdir()
    home = find_location(tmp_path / "going")
    assert home.model.name == "step-00000020"
    assert home.run == tmp_path / "going"


def test_a_run_that_goes_on_is_followed(demo_run, tmp_path):
    run = tmp_path / "going"
    for step in (0, 20):
        kept = f"weights/step-{step:08}"
        shutil.copytree(demo_run / kept, run / kept)
        if step == 0:
            (entry,) = open_models([str(run)]).entries.values()
            first = entry.loaded()
    newer = entry.loaded()
    assert newer.key != first.key
    assert newer is entry.loaded() is entry.loaded(20)
    assert first is entry.loaded(0)
    shutil.copytree(demo_run / "model", run / "model")
    last = entry.loaded()
    assert last.key not in (first.key, newer.key)
    copy_model(demo_run / "weights" / "step-00000000", run / "model")
    last = entry.loaded()
    assert last.key == first.key
    shutil.rmtree(run)
    assert last is entry.loaded()


def test_a_replaced_model_has_the_vocabulary_of_its_new_files(demo_run, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(demo_run / "model", folder)
    (entry,) = open_models([str(folder)]).entries.values()
    first, words = entry.loaded(), entry.vocabulary
    shutil.rmtree(folder)
    shutil.copytree(SHIPPED / "demo-language-model" / "model", folder)
    assert entry.loaded().key != first.key
    assert entry.folder.config.family == "decoder-only"
    assert entry.vocabulary != words


@pytest.mark.parametrize("made", [True, False])
def test_a_folder_without_a_model(tmp_path, made):
    if made:
        (tmp_path / "x").mkdir()
    with pytest.raises(UsageError, match="contains no model" if made else "is not a folder"):
        open_models([str(tmp_path / "x")])


def test_a_damaged_model_is_refused_at_once(demo_run, tmp_path):
    shutil.copytree(demo_run / "model", tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match="damaged"):
        open_models([str(tmp_path / "model")])


def test_a_model_that_was_damaged_later_is_told_without_its_path(demo_run, tmp_path, caplog):
    shutil.copytree(demo_run, tmp_path / "run")
    (entry,) = open_models([str(tmp_path / "run")]).entries.values()
    for name in ("model", "weights/step-00000020"):
        (tmp_path / "run" / name / "model.safetensors").write_bytes(b"")
    for snapshot in (None, 20):
        with pytest.raises(NotReady) as refused:
            entry.loaded(snapshot)
        assert str(refused.value) == "run cannot be loaded; see the terminal"
    assert "model.safetensors is damaged" in caplog.text
    assert entry.loaded(0)


@pytest.mark.parametrize(
    ("path", "taken", "name"),
    [
        ("runs/mine", set(), "mine"),
        ("runs/mine/model", set(), "mine"),
        ("runs/mine", {"mine"}, "mine-2"),
        ("runs/mine", {"mine", "mine-2"}, "mine-3"),
        ("a b/<c>&d", set(), "c-d"),
        ("übung", set(), "übung"),
    ],
)
def test_a_name_for_a_folder(tmp_path, path, taken, name):
    assert name_of(tmp_path / path, taken) == name


def test_the_demo_is_offered_untrained(empty_cache):
    models = open_models()
    (card,) = models.cards()
    assert (card["name"], card["state"], card["family"]) == ("demo", "untrained", "encoder-decoder")
    assert card["title"] == "demo, English to French, not trained yet"
    with pytest.raises(NotReady, match="demo is not trained yet; train it on the page"):
        models["demo"].loaded()
    with pytest.raises(NotReady):
        models["demo"].training_curves()


def test_the_shipped_models_are_ready_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    models = open_models()
    assert [(card["name"], card["state"]) for card in models.cards()] == [
        ("demo", "ready"),
        ("demo-language-model", "ready"),
        ("demo-reverse", "ready"),
    ]
    assert models["demo"].loaded().subject.translate("I am a student").text == "Je suis étudiant"
    assert models["demo"].training_curves()["steps"] == []


def test_a_built_in_model_appears_when_it_is_trained(empty_cache, demo_run):
    from regard.demo.story.model_store import find_demo_folder

    models = open_models(["demo", "demo-language-model", "demo"])
    assert [card["state"] for card in models.cards()] == ["untrained", "untrained"]
    shutil.copytree(demo_run, empty_cache / "demo")
    facts = {"name": "demo", "fingerprint": find_demo_folder("demo").fingerprint, "words": ["the"]}
    (empty_cache / "demo" / "demo.json").write_text(json.dumps(facts), encoding="utf-8")
    assert [card["state"] for card in models.cards()] == ["ready", "untrained"]
    assert [card["name"] for card in open_models().cards()] == ["demo"]
    assert models["demo"].loaded().subject.translate("the") is not None


@pytest.mark.parametrize(
    "facts", ["{", "[]", '{"name": "mine", "words": []}', '{"name": "demo", "words": [1]}']
)
def test_only_the_demos_facts_make_a_demo(demo_run, tmp_path, facts):
    shutil.copytree(demo_run, tmp_path / "run")
    (tmp_path / "run" / "demo.json").write_text(facts, encoding="utf-8")
    (entry,) = open_models([str(tmp_path / "run")]).entries.values()
    assert entry.facts is None
    assert entry.card()["known_words"] is False


def test_an_unknown_model_names_the_nearest(models):
    with pytest.raises(NotFound, match="did you mean small"):
        models["smal"]


def test_snapshots_are_let_go_but_never_the_model(demo_run, monkeypatch):
    from regard.service import models as room

    monkeypatch.setattr(room, "SNAPSHOT_BYTES", 1)
    entry = Entry("small", find_location(demo_run))
    whole = entry.loaded()
    first = entry.loaded(0)
    assert entry.loaded(0) is first
    entry.loaded(20)
    assert entry.loaded() is whole
    assert entry.loaded(0) is not first
    assert whole.key != first.key


def test_the_page_is_there_before_torch(demo_run):
    code = f"""
import sys
from fastapi.testclient import TestClient
from regard.service.models import open_models
from regard.service.studio import make_studio
client = TestClient(make_studio(open_models([{str(demo_run)!r}])), base_url="http://localhost")
for path in ("/studio", "/studio/api/models", "/studio/api/progress/small"):
    assert client.get(path).status_code == 200, path
assert "torch" not in sys.modules
asked = dict(model="small", text="The street.")
assert client.post("/studio/api/trace", json=asked).status_code == 200
assert "torch" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_models_are_loaded_behind_the_scenes(demo_run, monkeypatch):
    from regard.service import models as room
    from regard.service.handlers import warm_up

    monkeypatch.setattr(room, "WARM_UP_DELAY", 0.0)
    models = open_models([str(demo_run)])
    models._warm_up(warm_up)
    assert list(models["small"]._loaded) == [models["small"].location.model]


def test_a_model_that_cannot_be_loaded_does_not_end_the_others(models, monkeypatch, caplog):
    from regard.service import models as room

    monkeypatch.setattr(room, "WARM_UP_DELAY", 0.0)
    tried = []

    def fail(entry):
        tried.append(entry.name)
        raise NotReady(f"{entry.name} is broken")

    Models(models.entries.values())._warm_up(fail)
    assert tried == list(models.entries)
    assert "classify is broken" in caplog.text
