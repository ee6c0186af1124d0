"""A time budget with a machine of known speed: the run fills the time, keeps what was given, and repeats."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import SettingError
from regard.runs import run as runs
from regard.runs.budget import Budget
from regard.runs.metrics import read_metrics
from regard.runs.prepared_data import PreparedData, gather
from regard.runs.recipe import Recipe, find_task
from regard.runs.run import as_settings, prepare, train
from regard.runs.sizing import SHAPE, Shape
from regard.runs.timing import END_SECONDS, START_SECONDS, Pace, expect, measure_pace, tokens_of
from regard.runs.toml import merged
from regard.runs.toys import builtin_data
from regard.text.tokenizer import Tokenizers
from tests.runs.conftest import RECIPES

FLOPS = 1e9


class FakeMachine:
    """A machine whose steps take as long as their operations at FLOPS, and 10 ms; its clock stands still."""

    def __init__(self, flops: float = FLOPS):
        self.flops = flops
        self.measured: list[Shape] = []

    def clock(self) -> float:
        return 100.0

    def measure(self, recipe: Recipe, material: PreparedData, seconds: float) -> Pace:
        model = recipe.model
        shape = Shape(*(model[key] for key in ("layers", "width", "heads", "feed_forward_width")))
        self.measured.append(shape)
        tokens, epoch_steps = tokens_of(material), max(1, tokens_of(material) // recipe.training.step_tokens)
        vocabulary = material.words.tokenizers.target.vocabulary
        seconds = find_task(recipe.task).rules.flops(shape, vocabulary) * tokens / epoch_steps / self.flops
        return Pace(seconds + 0.01, epoch_steps, tokens, 10_000)

    def budget(self) -> Any:
        return partial(Budget, measure=self.measure, flops=lambda device: self.flops, clock=self.clock)


@pytest.fixture
def machine(monkeypatch) -> FakeMachine:
    """Runs are sized for a fake machine."""
    fake = FakeMachine()
    monkeypatch.setattr(runs, "Budget", fake.budget())
    return fake


def recipe_for(task: str, folder: Path, changes: dict[str, Any]) -> Recipe:
    """The recipe of a task on built-in data."""
    files = as_settings(builtin_data(task, folder), {"threads": 1})
    return Recipe.load(RECIPES[task], merged(files, changes))


@pytest.mark.parametrize("task", RECIPES)
@pytest.mark.parametrize("minutes", [0.5, 30.0])
def test_a_run_is_expected_to_fill_its_time(task, minutes, tmp_path, machine):
    recipe = recipe_for(task, tmp_path, {"training": {"minutes": minutes}})
    prepared = prepare(recipe, tmp_path / "run")
    pace = machine.measure(prepared.recipe, prepared.material, 1)
    total = START_SECONDS + expect(prepared.recipe, prepared.material, pace).total
    assert total == pytest.approx(60 * minutes, rel=0.04)
    assert prepared.recipe.training.minutes is None
    assert "minutes" not in (tmp_path / "run" / "recipe.toml").read_text(encoding="utf-8")
    assert any("expected to end after" in line for line in prepared.notes)


@pytest.mark.parametrize(("speed", "chosen"), [(2.0, "bfloat16"), (0.7, "float32")])
def test_precision_is_that_of_the_faster_steps_not_of_the_faster_products(
    speed, chosen, tmp_path, machine, monkeypatch
):
    monkeypatch.setattr("regard.runs.machine.half_speed", lambda device: 3.0)
    in_float32 = machine.measure

    def measure(recipe: Recipe, material: PreparedData, seconds: float) -> Pace:
        pace = in_float32(recipe, material, seconds)
        is_half = recipe.training.precision == "bfloat16"
        return replace(pace, step_seconds=pace.step_seconds / (speed if is_half else 1))

    monkeypatch.setattr(machine, "measure", measure)
    monkeypatch.setattr(runs, "Budget", machine.budget())
    recipe = recipe_for("translation", tmp_path, {"training": {"minutes": 2}})
    prepared = prepare(recipe, tmp_path / "run")
    assert prepared.recipe.training.precision == prepared.folder.recipe().training.precision == chosen
    assert any(line.startswith(f"precision {chosen}: a step takes") for line in prepared.notes)
    pace = measure(prepared.recipe, prepared.material, 1)
    total = START_SECONDS + expect(prepared.recipe, prepared.material, pace).total
    assert total == pytest.approx(120, rel=0.04)


def test_regularisation_follows_from_the_speed_that_was_measured(tmp_path, monkeypatch):
    machine = FakeMachine(flops=2e8)
    slower = partial(Budget, measure=machine.measure, flops=lambda device: 1e13, clock=machine.clock)
    monkeypatch.setattr(runs, "Budget", slower)  # steps take far longer than products of matrices promise
    given = {"model": {"width": 32, "layers": 2}, "training": {"minutes": 2, "batch_tokens": 512}}
    prepared = prepare(recipe_for("translation", tmp_path, given), tmp_path / "run")
    pace = machine.measure(prepared.recipe, prepared.material, 1)
    epochs = prepared.recipe.training.steps / pace.epoch_steps
    assert prepared.recipe.model["dropout"] == pytest.approx(0.06 * math.log(epochs), abs=0.02)
    (said,) = [line for line in prepared.notes if "each text is seen" in line]
    assert float(said.split()[-2]) == pytest.approx(epochs, rel=0.2)


def test_regularisation_is_that_of_the_loss_that_was_measured(tmp_path, monkeypatch):
    def measure(recipe: Recipe, material: PreparedData, seconds: float) -> Pace:
        """2.5 passes over the text with R-Drop, which takes twice as long, and 5 without."""
        tokens, epoch_steps = tokens_of(material), tokens_of(material) // recipe.training.step_tokens
        return Pace((20.0 if recipe.training.r_drop else 10.0) / epoch_steps, epoch_steps, tokens, 10_000)

    budget = partial(Budget, measure=measure, flops=lambda device: 1e13, clock=lambda: 100.0)
    monkeypatch.setattr(runs, "Budget", budget)
    given = {"training": {"minutes": 1, "batch_tokens": 256}}
    prepared = prepare(recipe_for("classification", tmp_path, given), tmp_path / "run")
    pace = measure(prepared.recipe, prepared.material, 1)
    epochs = prepared.recipe.training.steps / pace.epoch_steps
    said = [line for line in prepared.notes if "labels, seen" in line]
    assert len(said) == 4
    for line in said:
        assert float(line.split()[-2]) == pytest.approx(epochs, rel=0.2)


def test_given_settings_are_kept(tmp_path, machine):
    given = {"model": {"width": 48, "dropout": 0.37}, "tokenizer": {"vocabulary": 300}}
    recipe = recipe_for("translation", tmp_path, {**given, "training": {"minutes": 2, "batch_tokens": 700}})
    sized = prepare(recipe, tmp_path / "run").recipe
    assert (sized.model["width"], sized.model["dropout"]) == (48, 0.37)
    assert (sized.tokenizer.vocabulary, sized.training.batch_tokens) == (300, 700)


def test_a_recipe_of_ones_own_keeps_everything_but_its_length(tmp_path, machine):
    machine.flops = 6e10
    own = tmp_path / "own.toml"
    own.write_text(Recipe.load("multi30k").to_toml(), encoding="utf-8")
    files = as_settings(builtin_data("translation", tmp_path), {"threads": 1, "minutes": 5})
    before, sized = Recipe.load("multi30k"), prepare(Recipe.load(own, files), tmp_path / "run").recipe
    share = sized.training.steps / before.training.steps
    assert share != 1
    assert {key: sized.model[key] for key in before.model} == before.model
    assert sized.optimizer == before.optimizer
    assert sized.tokenizer == before.tokenizer
    assert sized.schedule.warmup_steps == pytest.approx(share * before.schedule.warmup_steps, abs=0.5)
    assert sized.augment.bidirectional_epochs == max(1, round(7 * share))


@pytest.mark.parametrize(
    "given", [{"tokenizer": {"kind": "word"}}, {"model": {"dropout": 0.0}}], ids=["words", "no dropout"]
)
def test_nothing_is_chosen_that_given_settings_make_impossible(given, tmp_path, machine):
    recipe = recipe_for("classification", tmp_path, {**given, "training": {"minutes": 1}})
    sized = prepare(recipe, tmp_path / "run").recipe
    assert not (sized.augment.bpe_dropout if "tokenizer" in given else sized.training.r_drop)


def test_two_tokenizers_exclude_bidirectional_training(tmp_path, machine):
    files = {"training": {"minutes": 2}, "tokenizer": {"joint": False}}
    words = prepare(recipe_for("translation", tmp_path, files), tmp_path / "words").folder.text
    own = {"training": {"minutes": 2}, "tokenizer": {"init_from": str(words)}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.runs.prepared_data._tokenizers", lambda *_: Tokenizers.load(words))
        sized = prepare(recipe_for("translation", tmp_path, own), tmp_path / "run").recipe
    assert sized.augment.bidirectional_epochs == 0


@pytest.mark.parametrize(
    "given", [{"width": 100}, {"heads": 6}, {"layers": 1}, {"size": "tiny"}, {"size": "tiny", "width": 64}]
)
def test_given_numbers_of_a_size_are_kept_and_the_others_fit_them(given, tmp_path, machine):
    changes = {"model": given, "training": {"minutes": 1}}
    sized = prepare(recipe_for("translation", tmp_path, changes), tmp_path / "run").recipe
    config = sized.model_config(vocabulary=8)
    numbers = {key: value for key, value in given.items() if key != "size"}
    if "size" in given:
        numbers = {"layers": 4, "heads": 4, "feed_forward_width": 256, "width": 128, **numbers}
        assert {*machine.measured} == {Shape(**{key: numbers[key] for key in SHAPE})}
    assert {key: getattr(config, key) for key in numbers} == numbers
    assert config.width % config.heads == 0
    assert "optimizer.learning_rate" in Path(tmp_path / "run" / "run.json").read_text(encoding="utf-8")


def test_a_batch_of_several_parts_has_the_chosen_size_as_a_whole(tmp_path, machine):
    changes = {"training": {"minutes": 1, "gradient_accumulation": 4}}
    parts = prepare(recipe_for("translation", tmp_path, changes), tmp_path / "parts").recipe.training
    whole = prepare(recipe_for("translation", tmp_path, {"training": {"minutes": 1}}), tmp_path / "whole")
    assert parts.gradient_accumulation == 4
    assert parts.step_tokens == whole.recipe.training.step_tokens


def test_a_length_given_beside_a_recipe_of_ones_own_is_not_scaled(tmp_path, machine):
    machine.flops = 6e10
    own = tmp_path / "own.toml"
    own.write_text(Recipe.load("multi30k").to_toml(), encoding="utf-8")
    given = {"training": {"minutes": 5, "threads": 1}, "schedule": {"warmup_steps": 77}}
    files = as_settings(builtin_data("translation", tmp_path), {})
    sized = prepare(Recipe.load(own, merged(files, given)), tmp_path / "run").recipe
    assert sized.schedule.warmup_steps == 77
    assert sized.training.steps != Recipe.load("multi30k").training.steps
    assert sized.validation.validate_every != Recipe.load("multi30k").validation.validate_every


def test_a_sized_run_is_repeated_by_its_recipe_without_a_clock(tmp_path, machine):
    machine.flops = 2e8
    files = builtin_data("translation", tmp_path)
    small = {"training": {"threads": 1}, "model": {"width": 16, "layers": 1}, "validation": {"sentences": 2}}
    first = train("translation", **files, out=tmp_path / "a", minutes=0.12, settings=small, show=False)
    second = regard.train(tmp_path / "a" / "recipe.toml", out=tmp_path / "b", show=False)
    losses = [
        [event["loss"] for event in read_metrics(run.folder / "metrics.jsonl") if event["event"] == "step"]
        for run in (first, second)
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == first.recipe.training.steps


def test_too_little_time_is_refused_and_leaves_nothing(tmp_path, machine):
    recipe = recipe_for("translation", tmp_path, {"training": {"minutes": 0.1}})
    machine.flops = 1e5
    with pytest.raises(SettingError, match=r"minutes \(0.1\).*give more minutes"):
        prepare(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    recipe = recipe_for("translation", tmp_path, {"training": {"minutes": END_SECONDS / 60}})
    with pytest.raises(SettingError, match="no time for training"):
        prepare(recipe, tmp_path / "run")


@pytest.mark.parametrize("task", RECIPES)
def test_text_that_takes_longer_than_the_time_is_refused_while_it_is_read(
    task, tmp_path, machine, monkeypatch
):
    ticks = iter(range(10**6))
    machine.clock = lambda: float(next(ticks))  # each example, or block of running text, takes a second
    monkeypatch.setattr(runs, "Budget", machine.budget())
    recipe = recipe_for(task, tmp_path, {"training": {"minutes": 0.06}})
    with pytest.raises(SettingError, match=r"minutes \(0.06\): .* % of the text.*more minutes or less text"):
        prepare(recipe, tmp_path / "run")
    assert next(ticks) < 20


def test_steps_and_minutes_together_are_refused(tmp_path):
    with pytest.raises(SettingError, match="leave one of them out"):
        Recipe.load("translation", {"training": {"steps": 5, "minutes": 1}})
    own = tmp_path / "own.toml"
    own.write_text('task = "translation"\ntraining = { minutes = 5 }\n', encoding="utf-8")
    assert Recipe.load(own).training.minutes == 5
    assert Recipe.load(own, {"training": {"steps": 9}}).training.minutes is None


def test_real_steps_are_measured_and_change_nothing(tmp_path):
    small = {"training": {"steps": 40, "batch_tokens": 256}, "model": {"width": 16, "layers": 1, "heads": 2}}
    recipe = recipe_for("translation", tmp_path, small)
    recipe = recipe.changed({"training": {"threads": 1, "device": "cpu"}})
    material = gather(recipe)
    pace = measure_pace(recipe, material, seconds=0.05, most=5)
    assert 0 < pace.step_seconds < 5
    assert pace.epoch_tokens == sum(len(material.train[side].ids) for side in ("source", "target"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.source", "copy.target"]


def test_the_expected_time_is_said_before_the_first_step(tmp_path, capsys):
    files = builtin_data("translation", tmp_path)
    small = {
        "training": {"steps": 2, "threads": 1}, "model": {"width": 16, "layers": 1, "heads": 2},
        "validation": {"sentences": 2},
    }  # fmt: skip
    train("translation", **files, out=tmp_path / "run", settings=small)
    said = capsys.readouterr().err
    assert said.index("expected time") < said.index("step 1/2")
    regard.resume(tmp_path / "run", {"training": {"steps": 5}})
    assert "expected time" in (said := capsys.readouterr().err)
    assert ": 3 steps of" in said
