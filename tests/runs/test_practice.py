"""What practitioners expect of a run: a shared tokenizer, F1, a precision that is measured and said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import RegardError, SettingError
from regard.runs import machine
from regard.runs.prepared_data import gather, make_model, training_objective
from regard.runs.recipe import Recipe
from regard.runs.run import prepare
from regard.runs.tables import TrainingTable
from regard.runs.timing import Pace, with_measured_precision
from regard.runs.toys import builtin_data
from regard.text.scores import confusion, macro_f1


def test_two_runs_share_a_tokenizer(small, tmp_path):
    first = small["translation"]
    files, model = builtin_data("translation", tmp_path), {"layers": 1, "width": 16, "heads": 2}
    given = {"tokenizer": {"init_from": str(first.folder)}, "model": model}
    second = prepare(Recipe.load("translation", {"data": files, **given}), tmp_path / "run")
    names = ("tokenizer.json",)
    assert [(second.folder.text / name).read_bytes() for name in names] == [
        (first.folder / "model" / name).read_bytes() for name in names
    ]

    again = Recipe.load(second.folder.recipe_file)
    assert again.tokenizer == second.recipe.tokenizer
    with pytest.raises(SettingError, match=r"tokenizer.vocabulary is for a new tokenizer"):
        Recipe.load("translation", {"tokenizer": {"init_from": str(first.folder), "vocabulary": 300}})


def test_a_missing_tokenizer_is_one_line(tmp_path):
    own = {"data": builtin_data("translation", tmp_path), "tokenizer": {"init_from": "nowhere"}}
    recipe = Recipe.load("translation", own)
    with pytest.raises(RegardError, match="nowhere"):
        prepare(recipe, tmp_path / "run")


def test_macro_f1_is_the_mean_of_the_labels():
    predicted, expected = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 0, 0, 1, 1, 1])
    # label 0: precision 2/3, recall 2/3; label 1 the same; label 2 does not occur
    assert macro_f1(confusion(predicted, expected, "abc")).value == pytest.approx(200 / 3)
    rare = macro_f1(confusion(np.zeros(10, int), np.array([0] * 9 + [1]), "ab")).value
    assert rare == pytest.approx(100 * (18 / 19) / 2)


@pytest.mark.parametrize(("half", "chosen"), [(0.5, "bfloat16"), (0.99, "float32"), (1.5, "float32")])
def test_automatic_precision_takes_the_faster_by_steps_of_the_run_and_says_so(half, chosen, tmp_path):
    def measure(recipe: Recipe, material: Any, seconds: float) -> Pace:
        return Pace(half if recipe.training.precision == "bfloat16" else 1.0, 10, 1000, 5)

    files = {"data": builtin_data("translation", tmp_path)}
    recipe = Recipe.load("translation", {**files, "training": {"precision": "auto"}})
    settled, lines = with_measured_precision(recipe, Any, 1.0, measure)
    assert settled.training.precision == chosen
    assert lines == [f"precision {chosen}: a step takes {half:.2g} s in bfloat16 and 1 s in float32"]


def test_float32_that_other_work_slowed_is_measured_again(tmp_path):
    float32 = iter([5.0, 1.0])

    def measure(recipe: Recipe, material: Any, seconds: float) -> Pace:
        return Pace(2.0 if recipe.training.precision == "bfloat16" else next(float32), 10, 1000, 5)

    files = {"data": builtin_data("translation", tmp_path)}
    recipe = Recipe.load("translation", {**files, "training": {"precision": "auto"}})
    assert with_measured_precision(recipe, Any, 1.0, measure)[0].training.precision == "float32"


def test_automatic_precision_is_not_tried_where_products_are_slow(monkeypatch):
    monkeypatch.setattr(machine, "half_speed", lambda device: 0.1)
    settled, lines = machine.with_precision(TrainingTable(precision="auto"))
    assert settled.precision == "float32"
    assert lines == ["precision float32: bfloat16 computes 0.1 times as fast as float32 here"]


def test_a_slow_precision_that_was_asked_for_is_said(monkeypatch):
    monkeypatch.setattr(machine, "half_speed", lambda device: 0.05)
    settled, lines = machine.with_precision(TrainingTable(precision="bfloat16"))
    assert settled.precision == "bfloat16"
    assert "set training.precision to float32" in lines[0]
    assert machine.with_precision(TrainingTable()) == (TrainingTable(), [])


def test_minutes_choose_the_precision_unless_it_is_given(monkeypatch):
    monkeypatch.setattr(machine, "half_speed", lambda device: 3.0)
    training = TrainingTable(minutes=1)
    assert machine.with_precision(training, is_given=False)[0].precision == "auto"
    assert machine.with_precision(training, is_given=True) == (training, [])


def test_a_run_stores_the_precision_that_was_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "half_speed", lambda device: 0.05)
    files = builtin_data("translation", tmp_path)
    settings = {
        "data": files,
        "training": {"precision": "auto", "threads": 1},
        "model": {"width": 16, "layers": 1},
    }
    prepared = prepare(Recipe.load("translation", settings), tmp_path / "run")
    assert prepared.recipe.training.precision == prepared.folder.recipe().training.precision == "float32"
    assert prepared.notes[0].startswith("precision float32")


def test_balanced_weights_give_every_label_the_same_total(tmp_path):
    rows = [
        "text\tlabel",
        *(f"word{n} good\tgood" for n in range(60)),
        *(f"word{n} bad\tbad" for n in range(20)),
    ]
    table = tmp_path / "reviews.tsv"
    table.write_text("\n".join(rows), encoding="utf-8")
    small = {"width": 16, "layers": 1, "heads": 2, "feed_forward_width": 32}
    training = {"class_weights": "balanced", "threads": 1, "device": "cpu"}
    recipe = Recipe.load(
        "classification", {"data": {"labelled": str(table)}, "model": small, "training": training}
    )
    material = gather(recipe)
    objective: Any = training_objective(recipe, material, make_model(recipe, material.words))
    counts = np.bincount(material.train["label"].ids)
    totals = counts * np.array(objective.loss.class_weights)
    assert totals == pytest.approx([counts.sum() / 2] * 2)
    logits, targets = torch.randn(4, 2), torch.tensor([0, 1, 1, 0])
    each = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    weighted = (each * torch.tensor(objective.loss.class_weights)[targets]).sum()
    assert replace(objective.loss, label_smoothing=0.0).of_logits(logits, targets) == pytest.approx(
        weighted.item()
    )


def test_class_weights_are_for_labels():
    with pytest.raises(RegardError, match="class_weights is not for translation"):
        Recipe.load("translation", {"training": {"class_weights": "balanced"}})
