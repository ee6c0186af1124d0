"""A run's text in its parts: what is held out stays held out, and validation is not filtered."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from regard.errors import DataError, SettingError
from regard.runs.corpora import plain
from regard.runs.datastore import make_datastore
from regard.runs.evaluation import ScoringOptions, evaluate
from regard.runs.metrics import read_metrics
from regard.runs.prepared_data import training_batches
from regard.runs.recipe import Recipe
from regard.runs.run import prepare, prepare_again, resume, start
from regard.runs.run_folder import RunFolder
from regard.runs.tables import DataTable
from regard.runs.tasks.registry import TASKS
from regard.runs.toml import merged
from regard.runs.toys import small_settings
from regard.text.corpus import Filters
from regard.text.splitting import ValidationSplit


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def token_folders(run) -> set[str]:
    return {path.name for path in (run.folder / "text" / "tokens").iterdir()}


def test_a_run_keeps_its_split(small_run, tmp_path, monkeypatch):
    """Whatever rule a later version has, a run that exists holds out what it held out."""
    run = small_run("translation", tmp_path)
    facts, before = RunFolder(run.folder).facts(), token_folders(run)
    monkeypatch.setattr(ValidationSplit, "choose", None)
    assert resume(run.folder, {"training": {"steps": 6}}, show=False).step == 6
    shutil.rmtree(run.folder / "text" / "tokens")
    assert resume(run.folder, {"training": {"steps": 8}}, show=False).step == 8
    assert token_folders(run) == before
    assert (
        evaluate(run.folder, options=ScoringOptions(beams=1)).evaluations[0].examples
        == facts["valid"]["kept"]
    )
    assert make_datastore(run.folder).pairs == facts["train"]["kept"]


def test_a_damaged_split_is_one_line(small_run, tmp_path):
    run = small_run("translation", tmp_path, steps=2)
    for damage in ("", "[]", "{}", '{"seed": 1, "hashes": 5}'):
        (run.folder / "text" / "held_out.json").write_text(damage, encoding="utf-8")
        with pytest.raises(DataError, match=r"held_out\.json is damaged; restore it"):
            evaluate(run.folder, options=ScoringOptions(beams=1))


@pytest.mark.parametrize("task", ["translation", "masked-language-modeling", "classification"])
def test_a_run_of_an_earlier_version_keeps_what_it_held_out(task, small_run, tmp_path, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(ValidationSplit, "choose", ValidationSplit.choose_format_1)
        run = small_run(task, tmp_path)
    (run.folder / "text" / "held_out.json").unlink()  # which it did not have
    facts, before = RunFolder(run.folder).facts(), token_folders(run)
    assert facts["valid"]["kept"] >= 100  # as many texts as are asked for examples, copies not counted
    shutil.rmtree(run.folder / "text" / "tokens")  # all of the text is read again
    assert resume(run.folder, {"training": {"steps": 6}}, show=False).step == 6
    assert token_folders(run) == before
    options = ScoringOptions(beams=1) if task == "translation" else None
    assert evaluate(run.folder, options=options).evaluations[0].examples == facts["valid"]["kept"]


def test_many_translations_of_few_sources_are_mostly_trained_on(tmp_path):
    sides = {"source": lambda n: f"source {n % 100}", "target": lambda n: f"target {n}"}
    files = {name: write(tmp_path / name, [line(n) for n in range(2000)]) for name, line in sides.items()}
    recipe = Recipe.load("translation", merged(small_settings(), {"data": files}))
    facts = RunFolder(prepare(recipe, tmp_path / "run").folder.path).facts()
    assert 20 <= facts["valid"]["kept"] <= 100
    assert facts["train"]["kept"] + facts["valid"]["kept"] == 2000


@pytest.mark.parametrize("rare", ["a text", "text 3"])  # one of its own, and one that has another label too
def test_a_label_with_one_example_is_trained_on(rare, tmp_path):
    rows = [f"text {number}\t{number % 2}" for number in range(60)]
    for place, most in ((0, 1000), (30, 1000), (60, 2)):
        table = write(tmp_path / "a.tsv", ["text\tlabel", *rows[:place], f"{rare}\trare", *rows[place:]])
        changes = {"data": {"labelled": table, "validation_split": 0.4, "max_validation_examples": most}}
        recipe = Recipe.load("classification", merged(small_settings(), changes))
        run = prepare(recipe, tmp_path / f"run{place}")
        assert run.material.words.labels == ("0", "1", "rare")
        assert 2 in run.material.train["label"].ids
        assert 2 not in run.material.valid.data["label"].ids
        (tmp_path / "a.tsv").unlink()


FILES: dict[str, Any] = {
    "translation": {"tsv": "tsv", "lines": ["a b\tb a", "a\tb", "a b c d\ta b c d", "a b\tb a", "a\tb c d"]},
    "classification": {"labelled": "tsv", "lines": ["a b\t0", "a\t0", "a b c d\t1", "a b\t0", "a\t0"]},
    "masked-language-modeling": {"text": "txt", "lines": ["a b", "a", "a b c d", "a b", "a"]},
}


@pytest.mark.parametrize("task", FILES)
def test_validation_and_test_are_not_filtered_like_training(task, tmp_path):
    (name, ending), (_, lines) = FILES[task].items()
    header = ["text\tlabel"] if name == "labelled" else []
    file = write(tmp_path / f"a.{ending}", [*header, *lines])
    filters = {"min_length": 2, "max_length": 3, "max_ratio": 1.5, "drop_duplicates": True}
    corpora = TASKS.find(task).corpora(
        DataTable(**{name: file, "valid": file, "test": file, "filters": filters})
    )
    assert len(list(corpora.train)) == 1
    assert [len(list(part)) for part in (corpora.valid, corpora.test)] == [5, 5]


def test_unusable_lines_of_validation_text_stop_where_that_is_asked(tmp_path):
    train, valid = write(tmp_path / "a", ["a b", "c d"]), write(tmp_path / "b", ["a b", "", "c d"])
    data: dict[str, Any] = {"text": train, "valid": valid}
    assert len(list(TASKS.find("masked-language-modeling").corpora(DataTable(**data)).valid)) == 2
    with pytest.raises(DataError, match="b:2: empty"):
        list(
            TASKS.find("masked-language-modeling").corpora(DataTable(**data, filters={"bad": "error"})).valid
        )


WEIGHTED = {
    "translation": ("translation", ("source", "target")),
    "language-modeling": ("language-model", ("text",)),
    "masked-language-modeling": ("masked-language-model", ("text",)),
    "classification": ("classification", ("labelled",)),
}


def two_corpora(task: str, folder: Path, weights: list[float] | None) -> Recipe:
    """A small recipe for two files of each side, which have ten texts in common."""
    name, sides = WEIGHTED[task]
    data: dict[str, Any] = {} if weights is None else {"weights": weights}
    for side in sides:
        parts = [[f"a {n % 50} {n}" for n in range(start, start + 100)] for start in (0, 90)]
        if side == "labelled":
            parts = [["text\tlabel", *(f"{row}\t{row[-1]}" for row in part)] for part in parts]
        names = [f"{side}{number}.{'tsv' if side == 'labelled' else 'txt'}" for number in (0, 1)]
        data[side] = [write(folder / name, part) for name, part in zip(names, parts, strict=True)]
    training = {"threads": 1, "steps": 4, "batch_tokens": 128}
    changes = {"data": data, "training": training, "checkpoints": {"save_every": 2}}
    return Recipe.load(name, merged(small_settings(), changes))


@pytest.mark.parametrize("task", WEIGHTED)
def test_weights_change_what_an_epoch_has_and_not_what_is_held_out(task, tmp_path):
    plain, recipe = (two_corpora(task, tmp_path, weights) for weights in (None, [1, 3]))
    before, run = prepare(plain, tmp_path / "plain"), prepare(recipe, tmp_path / "run")
    assert run.material.valid.data.identity == before.material.valid.data.identity
    assert run.material.train.weights == (1, 3)
    assert len(training_batches(recipe, run.material)) > len(training_batches(plain, before.material))
    corpora = TASKS.find(task).corpora(run.recipe.data, run.folder.text)
    assert corpora.split is None or not {*corpora.train} & {*corpora.valid}
    with pytest.raises(SettingError, match=r"another run.*data\.weights"):
        prepare_again(run.folder.path, {"data": {"weights": [2, 3]}})


@pytest.mark.parametrize("task", ["translation", "language-modeling"])
def test_a_run_with_weights_resumes_as_it_would_have_gone_on(task, tmp_path):
    run = start(two_corpora(task, tmp_path, [1.5, 3]), tmp_path / "run", show=False)
    whole = losses(run.folder)
    resume(run.folder / "checkpoints" / "step-00000002", show=False)
    assert losses(run.folder) == whole
    assert len(whole) == 4


def losses(run: Path) -> list[float]:
    return [event["loss"] for event in read_metrics(run / "metrics.jsonl") if event["event"] == "step"]


def test_weights_are_one_for_each_entry(tmp_path):
    recipe = two_corpora("translation", tmp_path, [1, 2, 3])
    with pytest.raises(SettingError, match=r"weights \(1, 2, 3\) must be a number for each of the 2 entries"):
        prepare(recipe, tmp_path / "run")


def test_a_label_that_only_validation_has_is_known_and_said(tmp_path):
    train = write(tmp_path / "train.tsv", ["text\tlabel", *(f"a {n}\t{n % 2}" for n in range(20))])
    valid = write(tmp_path / "valid.tsv", ["text\tlabel", "a 1\t1", "b 1\trare"])
    data = {"labelled": train, "valid": valid}
    training = {"threads": 1, "class_weights": "balanced"}
    changes = merged(small_settings(), {"data": data, "training": training})
    run = prepare(Recipe.load("classification", changes), tmp_path / "run")
    assert run.material.words.labels == ("0", "1", "rare")
    assert "; rare only in validation, so never predicted" in run.material.summary()[-1]
    objective: Any = run.trainer.module
    assert objective.loss.class_weights == pytest.approx((2 / 3, 2 / 3, 20 / 3))


def test_validation_files_have_the_longest_line_of_training(tmp_path):
    name = write(tmp_path / "a.txt", ["short", "x" * 50])
    data = DataTable(text=name, valid=name, filters=Filters(longest_line=20, min_length=3))
    assert [*plain(data).valid] == ["short"]
