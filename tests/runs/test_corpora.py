"""A run's text in its parts: what is held out stays held out, and validation is not filtered."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from regard.errors import DataError
from regard.runs.datastore import make_datastore
from regard.runs.evaluation import ScoringOptions, evaluate
from regard.runs.recipe import Recipe
from regard.runs.run import prepare, resume
from regard.runs.run_folder import RunFolder
from regard.runs.tables import DataTable
from regard.runs.tasks.registry import TASKS
from regard.runs.toml import merged
from regard.runs.toys import small_settings
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


@pytest.mark.parametrize("objective", ["translation", "masked-language-modeling", "classification"])
def test_a_run_of_an_earlier_version_keeps_what_it_held_out(objective, small_run, tmp_path, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(ValidationSplit, "choose", ValidationSplit.choose_format_1)
        run = small_run(objective, tmp_path)
    (run.folder / "text" / "held_out.json").unlink()  # which it did not have
    facts, before = RunFolder(run.folder).facts(), token_folders(run)
    assert facts["valid"]["kept"] >= 100  # as many texts as are asked for examples, copies not counted
    shutil.rmtree(run.folder / "text" / "tokens")  # all of the text is read again
    assert resume(run.folder, {"training": {"steps": 6}}, show=False).step == 6
    assert token_folders(run) == before
    options = ScoringOptions(beams=1) if objective == "translation" else None
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


@pytest.mark.parametrize("objective", FILES)
def test_validation_and_test_are_not_filtered_like_training(objective, tmp_path):
    (name, ending), (_, lines) = FILES[objective].items()
    header = ["text\tlabel"] if name == "labelled" else []
    file = write(tmp_path / f"a.{ending}", [*header, *lines])
    filters = {"min_length": 2, "max_length": 3, "max_ratio": 1.5, "drop_duplicates": True}
    corpora = TASKS.find(objective).corpora(
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
