"""TASKS: what every task declares, and a task that is added from outside the package."""

from __future__ import annotations

import pytest

import regard
from regard.errors import SettingError
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.runs.datastore import make_datastore
from regard.runs.evaluation import ScoringOptions, evaluate
from regard.runs.recipe import Recipe
from regard.runs.run import train
from regard.runs.sizing import RULES, Rules
from regard.runs.tables import AugmentTable, DataTable, ValidationTable
from regard.runs.tasks.language_modeling import LanguageModelingTask
from regard.runs.tasks.registry import TASKS, load_trained
from regard.runs.tasks.task import Measurement, Sample, Task
from regard.runs.tasks.translation import TranslationTask
from regard.runs.toys import builtin_data, write_toy
from regard.text.scores import Score
from regard.training.objectives import LanguageModeling


class BackwardLanguageModeling(LanguageModeling):
    """The loss of each token, given the tokens after it."""

    def forward(self, batch):
        reverse = {name: getattr(batch, name)[:, ::-1].copy() for name in ("input", "output", "keys")}
        return super().forward(type(batch)(reverse["output"], reverse["input"], reverse["keys"]))


class BackwardTask(LanguageModelingTask):
    """Predict each previous token of running text."""

    loss = BackwardLanguageModeling
    metrics = ("loss", "windows")

    def measure(self, trained, held, settings):
        samples = [Sample("backward", "sample")][: settings.samples]
        return Measurement([Score("windows", float(len(held.data)))], samples)


@pytest.fixture
def backward(monkeypatch):
    monkeypatch.setitem(TASKS, "backward", BackwardTask())


def test_a_task_from_outside_is_trained_scored_and_resumed(backward, tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text('''
task = "backward"
[model]
layers = 1
width = 16
heads = 2
feed_forward_width = 16
context = 16
[training]
steps = 3
batch_tokens = 128
[schedule]
warmup_steps = 1
[tokenizer]
kind = "word"
''', encoding="utf-8")  # fmt: skip
    files = builtin_data("language-modeling", tmp_path)
    run = regard.train(recipe, text=files["text"], out=tmp_path / "run", show=False)
    assert (run.step, run.recipe.task) == (3, "backward")
    assert {"loss", "perplexity", "windows"} <= run.metrics.keys()
    assert load_trained(run.folder).task == "backward"
    assert regard.resume(run.folder, {"training": {"steps": 4}}, show=False).step == 4


def test_an_unknown_task_is_one_line():
    with pytest.raises(SettingError, match="unknown task 'translate'; did you mean translation"):
        Recipe.read({"task": "translate"})
    with pytest.raises(SettingError, match=r"task \(None\) must be the name of a task"):
        Recipe.read({})


def test_every_task_declares_settings_that_exist():
    for task in TASKS.values():
        assert all(name in DataTable.model_fields for source in task.sources for name in source)
        assert set(task.augmentations) <= set(AugmentTable.model_fields)
        assert task.metrics[0] == "loss"
        config = ModelConfig(family=task.family, output=task.output, **task.placeholder_sizes())
        assert task.fits(config.family, config.output)


def test_a_task_refuses_the_model_of_another():
    model = build_model(ModelConfig(vocabulary=8, width=8, heads=2, layers=1, feed_forward_width=8))
    with pytest.raises(SettingError, match="needs a model of family decoder-only with output words"):
        TASKS["language-modeling"].objective(model)


def test_a_metric_of_another_task_is_not_monitored():
    assert ValidationTable(monitor="bleu")
    with pytest.raises(SettingError, match=r"monitor \(bleu\) must be one of loss for language-modeling"):
        Recipe.load("language-model", {"validation": {"monitor": "bleu"}})


class PoliteTranslation(TranslationTask):
    """A task from outside the package."""


class OwnTask(Task):
    """A task without rules for a time budget."""


def test_a_task_from_outside_is_searched_scored_and_sized(tmp_path, monkeypatch):
    monkeypatch.setitem(TASKS, "polite-translation", PoliteTranslation())
    own = tmp_path / "own.toml"
    model = "model = { layers = 1, width = 16, heads = 2, feed_forward_width = 32, context = 16 }"
    training = "training = { steps = 1, batch_tokens = 256, threads = 1 }"
    own.write_text(f'task = "polite-translation"\n{model}\n{training}\ntokenizer = {{ kind = "word" }}\n')
    files = write_toy(tmp_path, pairs=60)
    run = train(own, **files, out=tmp_path / "run", show=False)  # pyright: ignore[reportArgumentType]
    scores = evaluate(run.folder, files=files, options=ScoringOptions(beams=2)).evaluations[0].scores
    assert "BLEU" in {score.name for score in scores}
    assert make_datastore(run.folder).pairs == 56
    assert TASKS.find("polite-translation").rules == RULES["translation"]
    assert OwnTask.rules == Rules()
