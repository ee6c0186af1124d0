"""The models that come with the package: of the present grammar and recipe, small, as good as promised."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.checkpoints.folder import load_model, read_folder
from regard.cli.app import run
from regard.demo.corpus import built_in
from regard.demo.story import shipping
from regard.demo.story.model_store import RECIPES, SHIPPED, DemoFolder, read_facts
from regard.demo.story.promises import PROMISES, Promises, judge
from regard.demo.story.referents import find_switch, resolve
from regard.demo.story.shipping import LARGEST, folder_size, ship
from regard.demo.story.training import sentences_for
from regard.errors import UsageError
from regard.inference.loading import load
from regard.inspection.analysis.interventions import Intervention, patches
from regard.inspection.inspection import inspect

MAKE_AGAIN = "python -m regard.demo.story.shipping makes it again"


@pytest.mark.parametrize("name", RECIPES)
def test_a_shipped_model_is_of_the_present_grammar_and_recipe(name):
    facts = read_facts(SHIPPED / name)
    assert facts is not None, MAKE_AGAIN
    assert facts["fingerprint"] == DemoFolder(name, SHIPPED / name).fingerprint, MAKE_AGAIN


@pytest.mark.parametrize("name", RECIPES)
def test_a_shipped_model_is_small_and_in_float16(name):
    folder = read_folder(SHIPPED / name / "model")
    assert folder_size(SHIPPED / name) <= LARGEST
    assert set(folder.weights.dtypes.values()) == {"F16"}
    assert sum(weight.numel() for weight in load_model(folder).parameters()) < 1_000_000
    assert {path.name for path in (SHIPPED / name).iterdir()} == {"demo.json", "model"}


@pytest.mark.parametrize("name", PROMISES)
def test_a_shipped_translator_keeps_the_promises(name):
    found = judge(load(SHIPPED / name), sentences_for(DemoFolder(name, SHIPPED / name)))
    assert found.exact_match >= PROMISES[name].exact_match, MAKE_AGAIN
    assert found.lectures_right == found.lectures_total, MAKE_AGAIN
    facts = read_facts(SHIPPED / name) or {}
    assert (facts["exact_match"], facts["lectures_right"]) == (found.exact_match, found.lectures_right)


def test_the_shipped_encoder_links_words_as_the_story_and_the_documents_say():
    translator, sentences = load(SHIPPED / "demo"), built_in()
    assert resolve(translator, sentences, "bank").is_clear, MAKE_AGAIN
    assert find_switch(translator, sentences).is_clear, MAKE_AGAIN


def test_the_shipped_model_writes_il_when_it_is_made_to_attend_to_the_animal():
    """The intervention of the studio's tour, with the figures of docs/demo.md."""
    translator = load(SHIPPED / "demo")
    seen = inspect(translator, "The animal didn't cross the street because it was too wide")
    (animal,), (it,), (street,) = map(seen.source.find, ("animal", "it", "street"))
    weights = np.stack([seen.attention("encoder", layer)[:, it, street] for layer in range(4)])
    layer, head = map(int, np.unravel_index(weights.argmax(), weights.shape))
    row = seen.attention("encoder", layer, head)[it].copy()
    row[[animal, street]] = row[animal] + row[street], 0
    moved = patches([Intervention("encoder", layer, head, it, tuple(row.tolist()))])
    step, elle = seen.target.labels().index("elle") - 1, seen.target.find("elle")[0]
    chances = [one.probabilities[step, seen.target.ids[elle]] for one in (seen, seen.again(patch=moved))]
    assert chances == pytest.approx([0.95, 0.02], abs=0.005), MAKE_AGAIN
    assert "qu'il" in inspect(translator, seen.source.text, patch=moved).target.text


def test_the_shipped_language_model_completes_the_pangram():
    written = load(SHIPPED / "demo-language-model").complete("The quick brown", temperature=0, stop=".")
    assert written.text.strip().startswith("fox jumps over the lazy dog")


def test_a_model_is_stored_in_float16_with_its_facts(demo, make_place, tmp_path, monkeypatch):
    place = make_place(demo.folder)
    monkeypatch.setitem(PROMISES, "demo", Promises(0.0, 0.0))
    monkeypatch.setattr("regard.demo.story.promises.Lecture.accepts", lambda *_: True)
    folder = ship(place, tmp_path)
    assert folder == tmp_path / "demo"
    weights, stored = (load_model(path / "model").state_dict() for path in (demo.folder, folder))
    for name, weight in weights.items():
        torch.testing.assert_close(stored[name], weight.half().float(), rtol=0, atol=0)
    facts = read_facts(folder) or {}
    assert facts["fingerprint"] == place.fingerprint
    assert facts["words"] == demo.facts["words"]
    assert facts["lectures_right"] == facts["lectures_total"]


def test_a_model_that_misses_a_promise_or_is_too_large_is_not_stored(demo, make_place, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="demo is not shipped: exact match is"):
        ship(make_place(demo.folder), tmp_path)
    monkeypatch.setattr(shipping, "check_promises", lambda *_: None)
    monkeypatch.setattr(shipping, "LARGEST", 1000)
    with pytest.raises(UsageError, match="at most 1,000 are shipped"):
        ship(make_place(demo.folder), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name_is_one_line(capsys):
    assert shipping.main(["mine"]) == 2
    assert capsys.readouterr().err == (
        "error: mine is not a built-in model; there are demo, demo-language-model, demo-reverse\n"
    )


def test_a_built_in_name_answers_at_once_without_training(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr("regard.demo.story.training._train", lambda *_: pytest.fail("it trains"))
    assert run(["translate", "demo", "I am a student"]) == 0
    assert run(["translate", "demo-reverse", "Je suis étudiant"]) == 0
    assert capsys.readouterr().out.splitlines() == ["Je suis étudiant", "I am a student"]
    assert run(["demo", "--trained"]) == 0
    told = capsys.readouterr()
    assert "What to try next" in told.out
    assert "Training" not in told.err
    assert list(tmp_path.iterdir()) == []
