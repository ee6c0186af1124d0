"""`regard demo`: the command line around the story, with a model that is trained for seconds."""

from __future__ import annotations

import json

import pytest

from regard.cli.app import run
from regard.demo.corpus import corpus
from regard.demo.story import training
from regard.demo.story.promises import PROMISES, Promises

SMALL = [
    "training.steps=4", "training.batch_tokens=256", "validation.validate_every=4",
    "checkpoints.snapshot_every=2",
    "model.layers=1", "model.width=16", "model.feed_forward_width=16", "model.context=32",
    "validation.sentences=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The options that make a small demo of its own; the corpus is small too."""
    patch = pytest.MonkeyPatch()
    patch.setattr(training, "built_in", lambda: training.corpus(pairs=4000))
    patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
    options = [part for setting in SMALL for part in ("--set", setting)]
    yield ["--out", str(tmp_path_factory.mktemp("demo") / "run"), *options]
    patch.undo()


def test_the_demo_trains_then_tells_then_answers(small, capsys):
    assert run(["demo", *small]) == 0
    told = capsys.readouterr()
    assert "What to try next" in told.out
    assert "Training a model of" in told.err
    assert run(["demo", "The zebra sleeps.", *small]) == 0
    told = capsys.readouterr()
    assert "Never met in training: zebra" in told.out
    assert "Training" not in told.err


def test_check_ends_with_json_and_exits_1_where_a_promise_is_missed(small, capsys, monkeypatch):
    assert run(["demo", "--check", "--json", *small]) == 1
    told = capsys.readouterr()
    verdict = json.loads(told.out.splitlines()[-1])
    assert list(verdict) == ["exact_match", "lectures_right", "lectures_total", "seconds"]
    assert verdict["lectures_total"] == 17
    assert verdict["seconds"] > 0
    assert "missed: exact match" in told.err
    assert "Training a model of" in told.err


def test_check_exits_0_where_every_promise_is_kept(small, capsys, monkeypatch):
    monkeypatch.setitem(PROMISES, "demo", Promises(0.0, 600.0))
    monkeypatch.setattr("regard.demo.story.promises.Lecture.accepts", lambda *_: True)
    assert run(["demo", "--check", *small]) == 0
    assert "Every promise is kept" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["language-model", "--check"], "cannot be combined with --reverse or --check"),
        (["A sentence.", "--check"], "remove the sentence"),
        (["--json"], "--json needs --check"),
        (["--set", "training.steps=3"], "add --out DIR"),
        (["--trained", "--fresh"], "--trained cannot be combined with --fresh"),
        (["--trained", "--out", "mine"], "--trained cannot be combined with"),
        (["--show-corpus", "--trained"], "--show-corpus takes only a number"),
        (["--show-corpus", "many"], "must be a number"),
        (["--show-corpus", "--check"], "--show-corpus takes only a number"),
        (["--show-corpus", "--out", "."], "exists; choose another"),
        (["--show-corpus", "7", "--out", "elsewhere"], "must be between"),
    ],
)
def test_a_wrong_call_is_one_line(arguments, rule, capsys):
    assert run(["demo", *arguments]) == 2
    told = capsys.readouterr()
    assert rule in told.err
    assert len(told.err.splitlines()) == 1


def test_the_corpus_is_shown(capsys):
    assert run(["demo", "--show-corpus", "1"]) == 0
    assert "30,000 pairs to learn from" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "languages"), [([], ("en", "fr")), (["--reverse"], ("fr", "en"))])
def test_the_corpus_can_be_had_as_files(options, languages, capsys, tmp_path):
    place = tmp_path / "mine" / "text"
    assert run(["demo", "--show-corpus", "1000", "--out", str(place), *options]) == 0
    named = [place / f"{part}.{language}" for part in ("train", "valid", "test") for language in languages]
    assert capsys.readouterr().out.splitlines() == list(map(str, named))
    lines = [path.read_text(encoding="utf-8").splitlines() for path in named]
    assert [len(side) for side in lines[:2]] == [1000, 1000]
    pairs = corpus(pairs=1000, reverse=bool(options)).test
    assert list(zip(*lines[4:], strict=True)) == [(pair.source, pair.target) for pair in pairs]


def test_a_built_in_name_stands_for_its_folder(small, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr("regard.demo.story.model_store.SHIPPED", tmp_path)
    assert run(["translate", "demo", "I am a student"]) == 2
    assert "regard demo trains a new one" in capsys.readouterr().err
    assert run(["demo", *small]) == 0
    monkeypatch.setattr("regard.demo.story.model_store.trained_folder", lambda name: small[1])
    for command in (["translate", "demo", "I am a student"], ["inspect", "demo", "I am a student"]):
        assert run(command) == 0
    assert run(["translate", "./demo", "I am a student"]) == 1
