"""What a resumed run may have otherwise than its checkpoint, what is logged of it, and what is refused."""

from __future__ import annotations

import json
import logging
import re
import shutil
from pathlib import Path

import pytest

from regard.checkpoints import atomic_folders
from regard.errors import DataError, RegardError, SettingError
from regard.runs.identity import recipe_changes
from regard.runs.metrics import read_metrics
from regard.runs.recipe import Recipe
from regard.runs.run import prepare_again, resume
from regard.runs.tables import RESUMABLE, DataTable

ROOT = Path(__file__).parents[2]


def changes_of(folder: Path) -> list[str]:
    """Every change that the last resume has noted in the metrics."""
    resumed = [event for event in read_metrics(folder / "metrics.jsonl") if event["event"] == "resumed"]
    return resumed[-1]["changes"]


def best_of(folder: Path) -> list[int]:
    events = read_metrics(folder / "metrics.jsonl")
    return [event["step"] for event in events if event["event"] == "validation" and event["is_best"]]


def edit(folder: Path, before: str, after: str) -> None:
    """Change recipe.toml by hand."""
    file = folder / "recipe.toml"
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


@pytest.fixture
def run(small_run, tmp_path) -> Path:
    """A translation run of four steps with validation files of its own."""
    valid = {"valid_source": tmp_path / "v.en", "valid_target": tmp_path / "v.de"}
    for path, lines in zip(valid.values(), (["a b c", "d e f g"], ["a b c", "d e f g"]), strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = {name: str(path) for name, path in valid.items()}
    return small_run("translation", tmp_path, data=data, validation={"samples": 0}).folder


def test_some_settings_may_change_and_no_others():
    before = Recipe.load("translation")
    after = before.changed(
        {"training": {"steps": 9000}, "optimizer": {"learning_rate": 0.01}, "validation": {"beams": 4}}
    )
    assert [*recipe_changes(before, after).values()] == [
        "training.steps 20000, now 9000",
        "optimizer.learning_rate 0.002, now 0.01",
        "validation.beams 1, now 4",
    ]
    with pytest.raises(SettingError, match=r"another run: model.width 256, now 64"):
        recipe_changes(before, before.changed({"model": {"width": 64}}))
    assert recipe_changes(before, before) == {}
    listed = before.changed({"data": {"source": ["/a"], "target": "/b"}})
    alone = before.changed({"data": {"source": "/a", "target": ["/b"]}})
    assert recipe_changes(listed, alone) == {}


def test_the_manual_lists_what_may_change():
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    section = text.split("## Resuming")[1].split("\n## ")[0]
    listed = set(re.findall(rf"`((?:{'|'.join(RESUMABLE)})\.\w+)`", section))
    assert listed == {f"{table}.{key}" for table, keys in RESUMABLE.items() for key in keys}


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("smoothing = 0.1", "smoothing = 0.3", r"training\.label_smoothing 0\.1, now 0\.3"),
        ("\ndropout = 0.1", "\ndropout = 0.4", r"model\.dropout 0\.1, now 0\.4"),
        ("batch_tokens = 512", "batch_tokens = 256", r"training\.batch_tokens 512, now 256"),
        ("_split = 0.05", "_split = 0.2", r"data\.validation_split 0\.05, now 0\.2"),
        ("kind = \"word\"", "kind = \"bpe\"", r"tokenizer\.kind 'word', now 'bpe'"),
        ("drop_duplicates = true", "drop_duplicates = false", r"data\.filters\.drop_duplicates True, now"),
    ],
)  # fmt: skip
def test_a_recipe_edited_by_hand_is_compared_with_the_checkpoint(run, before, after, line):
    edit(run, before, after)
    with pytest.raises(SettingError, match=f"this would be another run: {line}.*; start one with --out"):
        resume(run, {"training": {"steps": 6}}, show=False)


def test_what_may_change_may_be_edited_by_hand_and_is_logged(run):
    edit(run, "steps = 4", "steps = 6")
    assert resume(run, show=False).step == 6
    assert changes_of(run) == ["training.steps 4, now 6"]


def test_every_change_is_logged(run, caplog, tmp_path):
    moved = Path(shutil.copy(tmp_path / "copy.source", tmp_path / "elsewhere"))
    wanted = {
        "data": {"source": [str(moved)]},
        "training": {"steps": 5, "threads": 2},
        "optimizer": {"weight_decay": 0.5},
        "validation": {"early_stopping_patience": 4, "sentences": 1, "samples": 1},
    }
    with caplog.at_level(logging.INFO, "regard.training"):
        resume(run, wanted, show=False)
    changes = {change.split(" ")[0] for change in changes_of(run)}
    assert changes == {
        "data.source", "training.steps", "training.threads", "optimizer.weight_decay",
        "validation.early_stopping_patience", "validation.sentences", "validation.samples",
    }  # fmt: skip
    assert all(f"resumed with a change: {change}" in caplog.text for change in changes)


def test_nothing_is_logged_where_nothing_changed(run):
    resume(run, {"training": {"steps": 6}}, show=False)
    resume(run, show=False)
    assert changes_of(run) == []


def test_another_metric_starts_a_new_best(run, caplog):
    with caplog.at_level(logging.INFO, "regard.training"):
        again = resume(run, {"training": {"steps": 8}, "validation": {"monitor": "bleu"}}, show=False)
    assert "is not comparable any more: validation.monitor 'loss', now 'bleu'" in caplog.text
    events = [event for event in read_metrics(run / "metrics.jsonl") if event["event"] == "validation"]
    again_at = [event for event in events if event["step"] == 4]  # the step it went on from
    assert [(event["monitored"], event["is_best"]) for event in again_at] == [("bleu", True)]
    after = [event["scores"]["bleu"] for event in events if event["monitored"] == "bleu"]
    assert again.metrics["bleu"] == max(after)


@pytest.mark.parametrize(
    ("best", "change", "is_void"),
    [
        ("loss", {"beams": 3}, False),
        ("loss", {"samples": 2}, False),
        ("bleu", {"beams": 3}, True),
        ("chrf", {"sentences": 1}, True),
        ("bleu", {"samples": 2}, False),
    ],
)
def test_a_metric_that_is_measured_otherwise_is_another(small_run, tmp_path, best, change, is_void):
    run = small_run("translation", tmp_path, steps=1, validation={"monitor": best}).folder
    changes = prepare_again(run, {"validation": change}).changes
    assert changes is not None
    assert bool(changes.best_is_void) == is_void
    assert len(changes.permitted) == 1


def test_validation_files_that_were_swapped_start_a_new_best(run, tmp_path, caplog):
    swapped = {"valid_source": str(tmp_path / "v.de"), "valid_target": str(tmp_path / "v.en")}
    (tmp_path / "v.de").write_text("h i\n", encoding="utf-8")
    (tmp_path / "v.en").write_text("i h\n", encoding="utf-8")
    with caplog.at_level(logging.INFO, "regard.training"):
        again = resume(run, {"data": swapped}, show=False)
    assert "is another text" in caplog.text
    assert [line for line in changes_of(run) if line.endswith("has other text for validation")]
    assert best_of(run)[-1] == 4
    assert again.recipe.data.valid_source == swapped["valid_source"]


def test_validation_text_that_has_changed_in_its_place_is_noticed(run, tmp_path, caplog):
    (tmp_path / "v.en").write_text("h i j\nd e f g\n", encoding="utf-8")
    prepared = prepare_again(run)
    assert prepared.changes is not None
    assert prepared.changes.permitted == [f"{tmp_path / 'v.en'} has other text for validation"]
    assert prepared.changes.best_is_void
    assert [pair.source for pair in prepared.material.valid.examples] == ["h i j", "d e f g"]


def test_the_same_text_at_another_place_is_the_same(run, tmp_path):
    moved = {name: str(tmp_path / f"moved.{name}") for name in ("source", "target")}
    for name, path in moved.items():
        (tmp_path / f"copy.{name}").rename(path)
    changes = prepare_again(run, {"data": moved}).changes
    assert changes is not None
    assert not changes.best_is_void
    assert len(changes.permitted) == 2


def test_changed_training_data_is_refused_by_name(run, tmp_path, monkeypatch):
    file = tmp_path / "copy.target"
    file.write_text(file.read_text(encoding="utf-8").replace("a", "b"), encoding="utf-8")
    monkeypatch.setattr("regard.runs.run.gather_again", lambda *_: pytest.fail("nothing is encoded"))
    with pytest.raises(
        DataError, match=r"copy\.target: the training data has changed since this run"
    ) as error:
        resume(run, show=False)
    assert "copy.source" not in str(error.value)


def test_a_run_goes_on_without_its_files(run, tmp_path):
    expected = prepare_again(run).material
    for path in (*tmp_path.glob("copy.*"), *tmp_path.glob("v.*")):
        path.unlink()
    again = resume(run, {"training": {"steps": 6}}, show=False)
    assert again.step == 6
    assert sum("is not found; the text in the run's folder is used" in line for line in changes_of(run)) == 4
    assert again.metrics["bleu"] >= 0
    assert prepare_again(run).material.valid.examples == expected.valid.examples
    assert prepare_again(run).changes.best_is_void == ""  # pyright: ignore[reportOptionalMemberAccess]


def test_a_held_out_part_stays_the_one_it_was_whatever_the_rule_is_now(small_run, tmp_path, monkeypatch):
    run = small_run("translation", tmp_path).folder
    before = prepare_again(run).material
    monkeypatch.setattr(
        "regard.runs.corpora.ValidationSplit.choose", lambda *_, **__: pytest.fail("chosen anew")
    )
    (run / "text" / "validation.json").unlink()  # as in a run of an earlier version
    for _ in range(2):
        after = prepare_again(run).material
        assert after.train["source"].ids.tolist() == before.train["source"].ids.tolist()
        assert after.valid.data["target"].ids.tolist() == before.valid.data["target"].ids.tolist()
        assert after.valid.examples == before.valid.examples


@pytest.mark.parametrize(
    "task", ["translation", "masked-language-modeling", "language-modeling", "classification"]
)
def test_token_files_that_are_lost_are_made_again_or_refused(small_run, tmp_path, task):
    run = small_run(task, tmp_path).folder
    shutil.rmtree(run / "text" / "tokens")
    assert resume(run, {"training": {"steps": 5}}, show=False).step == 5
    shutil.rmtree(run / "text" / "tokens")
    for path in tmp_path.glob("*.*"):
        path.unlink()
    with pytest.raises(RegardError):
        resume(run, {"training": {"steps": 6}}, show=False)


def test_running_text_for_a_masked_model_is_taken_up_too(small_run, tmp_path):
    run = small_run("masked-language-modeling", tmp_path, data={"lines": False}).folder
    assert resume(run, {"training": {"steps": 6}}, show=False).step == 6


def test_a_checkpoint_that_says_nothing_of_its_run_is_one_line(run):
    newest = run / "checkpoints" / "step-00000004"
    told = json.loads((newest / "training.json").read_bytes())
    for broken in ({"recipe": 3, "text": {}}, {"recipe": {}}, {"text": 1}, [1]):
        (newest / "training.json").write_text(json.dumps({**told, "run": broken}), encoding="utf-8")
        (newest / "manifest.json").unlink()
        atomic_folders.seal(newest)
        with pytest.raises(RegardError, match="does not say which run it is of"):
            resume(run, show=False)


def test_every_file_of_the_data_table_that_is_read_is_known_by_its_content():
    from regard.runs.identity import TRAINING_FILES, VALIDATION_FILES

    test = {"test", "test_source", "test_target"}
    assert {*TRAINING_FILES, *VALIDATION_FILES} == set(RESUMABLE["data"]) - test
    assert set(RESUMABLE["data"]) <= set(DataTable.model_fields)
