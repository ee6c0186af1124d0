"""A run from its files to its folder: what it keeps, what it refuses, how it goes on."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

import regard
from regard.checkpoints.folder import load_model, read_folder
from regard.errors import (
    CheckpointError,
    DataError,
    Interrupted,
    RegardError,
    SettingError,
    TrainingError,
    UsageError,
)
from regard.runs.evaluation import evaluate
from regard.runs.metrics import read_metrics
from regard.runs.recipe import Recipe
from regard.runs.run import finish, prepare, prepare_again, resume, train
from regard.runs.run_folder import free_name
from regard.runs.tables import ValidationTable
from regard.runs.tasks.registry import load_trained
from regard.runs.tasks.task import EvaluationData, Trained, Vocabularies
from regard.runs.tasks.translation import TranslationTask
from regard.runs.toml import merged, read_toml
from regard.runs.toys import builtin_data, small_settings, write_toy
from regard.service.metrics_reader import metrics_of
from regard.service.training_progress import total_steps
from regard.text.corpus import Pair
from regard.text.splitting import ValidationSplit
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizer, Tokenizers
from regard.training.checkpoint_manager import CheckpointManager
from regard.training.events import Saved, StepDone, Validation


def test_a_run_keeps_everything_about_itself(each):
    kept = {path.name for path in each.folder.iterdir()}
    assert {"recipe.toml", "run.json", "text", "metrics.jsonl", "model", "report.html", "checkpoints"} <= kept
    facts = json.loads((each.folder / "run.json").read_bytes())
    assert (facts["threads"], facts["device"], facts["seed"]) == (1, "cpu", 1)
    assert facts["train"]["kept"] > 0
    recipe = Recipe.load(each.folder / "recipe.toml")
    assert (recipe.training.threads, recipe.training.device, recipe.training.seed) == (1, "cpu", 1)
    assert (each.step, each.reason) == (4, "steps")


def test_the_model_of_a_run_is_the_one_in_its_folder(each):
    again = load_trained(each.folder)
    assert again.task == each.recipe.task == read_folder(each.folder / "model").task
    for name, weight in each.model.model.state_dict().items():
        assert torch.equal(weight, again.module.state_dict()[name])


def test_the_model_of_a_run_can_be_used_at_once(small, copied):
    assert copied.model.translate("a b c d").text == "a b c d"
    assert small["language-modeling"].model.complete("a b", max_tokens=3, seed=1).tokens
    assert small["classification"].model.classify("a b c").label in "abcdefghij"
    assert small["masked-language-modeling"].model.fill("a [MASK] c").text


def test_validation_has_the_metrics_of_its_task(small):
    told = {name: set(run.metrics) for name, run in small.items()}
    assert told == {
        "translation": {"loss", "perplexity", "bleu", "chrf"},
        "language-modeling": {"loss", "perplexity", "bits_per_character"},
        "masked-language-modeling": {"loss", "perplexity", "accuracy"},
        "classification": {"loss", "accuracy", "f1"},
    }


def test_a_lower_casing_model_is_scored_without_case(monkeypatch):
    pairs = [Pair("a b c d e f", "A B C D E F")]
    monkeypatch.setattr("regard.runs.tasks.translation.translate", lambda *_: ["a b c d e f"])

    def found(lowercase):
        words = Tokenizer.train(["a b c d e f A B C D E F"], kind="word", lowercase=lowercase)
        trained = Trained(nn.Identity(), Vocabularies(Tokenizers.joint(words)), "translation")  # pyright: ignore[reportArgumentType]
        held = EvaluationData(Data({"source": Sequences.of([[1]])}), pairs)
        return TranslationTask().measure(trained, held, ValidationTable()).values()

    assert found(lowercase=True) == {"bleu": pytest.approx(100), "chrf": pytest.approx(100)}
    assert found(lowercase=False)["bleu"] < 10


def test_every_step_and_validation_is_in_the_metrics(each):
    events = read_metrics(each.folder / "metrics.jsonl")
    assert [event["step"] for event in events if event["event"] == "step"] == [1, 2, 3, 4]
    found = [event for event in events if event["event"] == "validation"]
    assert [event["step"] for event in found] == [2, 4]
    assert all(event["samples"] for event in found)
    assert each.metrics in [event["scores"] for event in found]


def test_the_validation_split_is_not_trained_on(small):
    run = small["translation"]
    facts = json.loads((run.folder / "run.json").read_bytes())
    assert facts["valid"]["kept"] == facts["train"]["skipped"]["held out"]["count"]
    assert 50 <= facts["valid"]["kept"] <= run.recipe.data.max_validation_examples
    assert facts["valid"]["kept"] + facts["train"]["kept"] + 9 == facts["train"]["read"]


def test_a_tokenizer_is_learned_on_the_training_part_alone(tmp_path):
    lines = [f"word{number} b c" for number in range(40)]
    (tmp_path / "a").write_text("\n".join(lines), encoding="utf-8")
    run = train(
        "translation",
        source=tmp_path / "a",
        target=tmp_path / "a",
        out=tmp_path / "run",
        settings={
            **small_settings(),
            "tokenizer": {"kind": "word", "vocabulary": 100},
            "training": {"steps": 1, "batch_tokens": 64},
        },
        show=False,
    )
    tokenizer, data = run.model.tokenizers.source, run.recipe.data
    chosen = ValidationSplit.choose(lines, data.validation_split, data.max_validation_examples)
    held = [line.split()[0] for line in lines if chosen.holds(line)]
    assert held
    assert all(tokenizer.encode(word) == [tokenizer.unknown] for word in held)
    assert tokenizer.unknown not in tokenizer.encode(next(w for w in lines if not chosen.holds(w)))


def test_separate_vocabularies_work_and_are_kept(tmp_path, small_run):
    run = small_run(
        "translation", tmp_path, steps=2, tokenizer={"joint": False}, architecture={"share_embeddings": True}
    )
    assert not run.model.tokenizers.are_joint
    assert not load_trained(run.folder).module.config.share_embeddings


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path, small_run):
    runs = [
        small_run("language-modeling", tmp_path, f"run{place}", steps=2, training={"seed": seed})
        for place, seed in enumerate((3, 3, 4))
    ]
    heads = [run.model.model.head.weight for run in runs]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_an_option_of_train_is_a_setting_of_the_recipe(tmp_path):
    files = builtin_data("language-modeling", tmp_path)
    settings = {**small_settings(), "training": {"steps": 1, "batch_tokens": 64}}
    run = regard.train(
        "language-model",
        text=files["text"],
        out=tmp_path / "run",
        threads=1,
        seed=7,
        device="cpu",
        settings=settings,
        show=False,
    )
    assert (run.recipe.training.seed, run.recipe.training.threads) == (7, 1)
    assert run.recipe.data.text == files["text"]


def test_a_finished_run_goes_on_to_more_steps(tmp_path, small_run):
    before = small_run("classification", tmp_path)
    run = resume(before.folder, {"training": {"steps": 6}}, show=False)
    assert run.step == 6
    events = read_metrics(run.folder / "metrics.jsonl")
    assert [event["step"] for event in events if event["event"] == "step"] == [1, 2, 3, 4, 5, 6]
    resumed = [event for event in events if event["event"] == "resumed"]
    assert any("steps 4, now 6" in change for change in resumed[0]["changes"])
    assert Recipe.load(run.folder / "recipe.toml").training.steps == 6


def test_another_run_is_not_resumed(small):
    run = small["translation"]
    with pytest.raises(SettingError, match=r"another run: model.width 64, now 32"):
        resume(run.folder, {"model": {"width": 32}}, show=False)
    with pytest.raises(SettingError, match=r"training.label_smoothing"):
        resume(run.folder, {"training": {"label_smoothing": 0.3}}, show=False)
    with pytest.raises(UsageError, match="is no run: it has no recipe"):
        resume(run.folder / "model", show=False)


def test_files_that_moved_are_found_again(tmp_path, small_run):
    run = small_run("language-modeling", tmp_path)
    text = Path(run.recipe.data.text)
    moved = text.rename(tmp_path / "moved")
    again = resume(run.folder, {"training": {"steps": 6}, "data": {"text": str(moved)}}, show=False)
    assert (again.step, again.recipe.data.text) == (6, str(moved))


def test_a_run_that_left_no_checkpoint_begins_anew(tmp_path, small_run):
    run = small_run("language-modeling", tmp_path)
    shutil.rmtree(run.folder / "checkpoints")
    again = resume(run.folder, show=False)
    steps = [
        event["step"] for event in read_metrics(run.folder / "metrics.jsonl") if event["event"] == "step"
    ]
    assert steps == [1, 2, 3, 4]
    assert again.metrics == run.metrics


def test_a_kill_right_after_a_save_leaves_no_gap_in_the_metrics(tmp_path, small_run, monkeypatch):
    images: list[Path] = []  # of the run's folder, as a kill after each rename of a checkpoint leaves it
    real = CheckpointManager.save

    def save(saves, step, write):
        path = real(saves, step, write)
        images.append(shutil.copytree(saves.out, tmp_path / f"killed{step}"))
        return path

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointManager, "save", save)
        small_run("language-modeling", tmp_path, checkpoints={"save_every": 3}, steps=8)
    assert len(images) > 3
    for image in images:
        resume(image, show=False)
        events = [(event["event"], event["step"]) for event in read_metrics(image / "metrics.jsonl")]
        assert [step for name, step in events if name == "step"] == list(range(1, 9))
        assert [step for name, step in events if name == "validation"] == [2, 4, 6, 8]


def same_model(folder: Path, checkpoint: Path) -> bool:
    names = {path.name for path in folder.iterdir()} - {"manifest.json"}
    assert {"config.json", "model.safetensors", "tokenizer.json"} == names
    return all((folder / name).read_bytes() == (checkpoint / name).read_bytes() for name in names)


def test_the_model_of_a_run_is_its_best_so_far_at_any_moment(tmp_path, writing):
    changes = {
        "training": {"steps": 8},
        "schedule": {"warmup_steps": 0},
        "checkpoints": {"save_every": 1},
        "validation": {"validate_every": 3},
    }
    run = prepare(writing.changed(changes), tmp_path / "x")
    losses = iter([0.5, 0.2, 0.3])
    run.trainer.validate = lambda _: Validation({"loss": next(losses)})
    best_at = {1: 1, 2: 2, 3: 3, 4: 3, 5: 3, 6: 6, 7: 6, 8: 6}
    seen: list[int] = []

    def look(event):
        if isinstance(event, Saved):
            seen.append(event.step)
            best = tmp_path / "x" / "checkpoints" / f"step-{best_at[event.step]:08}"
            assert same_model(tmp_path / "x" / "model", best)
            assert regard.load(tmp_path / "x").complete("a b", max_tokens=2, seed=1).tokens

    finish(run, show=False, observers=[look], report=False)
    assert seen == [*range(1, 9)]


@pytest.mark.skipif(os.name == "nt", reason="signals are other there")
def test_a_run_that_was_interrupted_has_a_model(tmp_path, writing):
    run = prepare(
        writing.changed({"training": {"steps": 8}, "schedule": {"warmup_steps": 0}}), tmp_path / "x"
    )
    with pytest.raises(Interrupted):
        finish(run, False, False, [kill_after(2)], report=False)
    assert same_model(tmp_path / "x" / "model", tmp_path / "x" / "checkpoints" / "step-00000002")


def kill_after(step: int):
    def observe(event):
        if isinstance(event, StepDone) and event.step == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return observe


def test_a_run_goes_on_from_a_checkpoint_that_is_named(tmp_path, small_run):
    folder = small_run(
        "language-modeling", tmp_path, checkpoints={"keep_checkpoints": 9, "snapshot_every": 1}
    ).folder
    earlier = folder / "checkpoints" / "step-00000002"
    run = regard.resume(
        earlier, {"training": {"steps": 3}, "validation": {"validate_every": None}}, show=False
    )
    assert (run.step, run.folder) == (3, folder)
    events = [(event["event"], event["step"]) for event in read_metrics(folder / "metrics.jsonl")]
    assert [step for name, step in events if name == "step"] == [1, 2, 3]
    assert sorted(path.name for path in (folder / "weights").iterdir())[-1] == "step-00000003"
    best = max(step for name, step in events if name == "validation")
    assert same_model(folder / "model", folder / "checkpoints" / f"step-{best:08}")


def test_a_named_checkpoint_that_cannot_be_used_is_refused(tmp_path, small_run):
    folder = small_run("language-modeling", tmp_path).folder
    before = (folder / "metrics.jsonl").read_bytes()
    last = folder / "checkpoints" / "step-00000004"
    damaged = bytearray((last / "training.safetensors").read_bytes())
    damaged[-1] ^= 1
    (last / "training.safetensors").write_bytes(damaged)
    with pytest.raises(CheckpointError, match=r"training\.safetensors is damaged"):
        resume(last, show=False)
    with pytest.raises(CheckpointError, match="step-00000009 is not a folder"):
        resume(folder / "checkpoints" / "step-00000009", show=False)
    last.rename(last.with_name("abandoned-step-00000004"))
    with pytest.raises(UsageError, match="is not a checkpoint; name one that is called step-N"):
        resume(last.with_name("abandoned-step-00000004"), show=False)
    assert (folder / "metrics.jsonl").read_bytes() == before


def test_a_report_that_cannot_be_written_does_not_hide_the_model(tmp_path, small_run, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.runs.run.write_report", full)
    assert small_run("language-modeling", tmp_path).step == 4
    assert "No space left on device" in caplog.text


def test_changed_text_is_noticed_on_resume(tmp_path, small_run):
    run = small_run("language-modeling", tmp_path)
    text = Path(run.recipe.data.text)
    text.write_text(text.read_text(encoding="utf-8").replace("a", "b"), encoding="utf-8")
    with pytest.raises(RegardError, match="data"):
        resume(run.folder, {"training": {"steps": 6}}, show=False)


def refuse(tmp_path, kind, match, recipe="translation", **arguments):
    with pytest.raises(kind, match=match) as error:
        train(recipe, out=tmp_path / "run", settings=small_settings(), show=False, **arguments)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_what_cannot_work_is_refused_before_the_first_step(tmp_path):
    files = write_toy(tmp_path, pairs=50)
    refuse(tmp_path, SettingError, r"learns from --source and --target, or --tsv, and was given nothing")
    refuse(tmp_path, SettingError, r"was given --source; name", source=files["source"])
    refuse(tmp_path, SettingError, r"was given --text", text=files["source"])
    refuse(tmp_path, SettingError, r"valid_source and valid_target go together", **files, valid_source="x")
    refuse(tmp_path, DataError, r"no such file: .*gone", source="gone", target="gone")
    short, one = tmp_path / "short", tmp_path / "one"
    short.write_text("a\nb\n", encoding="utf-8")
    refuse(tmp_path, DataError, r"50 lines but .*short has 2", source=files["source"], target=short)
    one.write_text("a\n", encoding="utf-8")
    refuse(tmp_path, DataError, r"cannot be split; give more", source=one, target=one)


def test_too_little_text_and_one_label_are_refused(tmp_path):
    (tmp_path / "little").write_text("a b\n", encoding="utf-8")
    refuse(
        tmp_path,
        DataError,
        r"too few for a window of 32; give more",
        recipe="language-model",
        text=tmp_path / "little",
    )
    rows = "".join(f"text {number}\tgood\n" for number in range(30))
    (tmp_path / "same.tsv").write_text("text\tlabel\n" + rows, encoding="utf-8")
    refuse(
        tmp_path, DataError, r"must be two or more", recipe="classification", labelled=tmp_path / "same.tsv"
    )


def test_a_metric_that_is_never_measured_cannot_be_monitored(tmp_path):
    files = builtin_data("language-modeling", tmp_path)
    settings = {"validation": {"monitor": "bleu"}}
    with pytest.raises(SettingError, match=r"monitor \(bleu\) must be one of loss for language-modeling"):
        train("language-model", **files, out=tmp_path / "run", settings=settings, show=False)


def test_a_folder_that_exists_or_cannot_be_written_is_refused(tmp_path, small):
    files = write_toy(tmp_path, pairs=50)
    with pytest.raises(UsageError, match="exists already; resume the run"):
        train("translation", **files, out=small["translation"].folder, show=False)
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match=r"cannot write to"):
        train("translation", **files, out=tmp_path / "file" / "run", show=False)


@pytest.fixture
def writing(tmp_path) -> Recipe:
    settings = merged(small_settings(), {"data": builtin_data("language-modeling", tmp_path)})
    return Recipe.load("language-model", settings)


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit(143), ValueError("a bug")], ids=repr)
@pytest.mark.parametrize("at", ["gather", "_trainer", "_facts"])
def test_a_preparation_that_ends_early_leaves_nothing(tmp_path, writing, monkeypatch, end, at):
    def interrupt(*_):
        raise end

    empty = tmp_path / "empty"
    empty.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(f"regard.runs.run.{at}", interrupt)
        for out in (tmp_path / "new", empty):
            with pytest.raises(end if isinstance(end, type) else type(end)):
                prepare(writing, out)
    assert not (tmp_path / "new").exists()
    assert list(empty.iterdir()) == []


def test_an_empty_folder_is_taken_and_no_other(tmp_path, writing):
    (tmp_path / "empty").mkdir()
    assert prepare(writing, tmp_path / "empty").folder.recipe() is not None
    mine = tmp_path / "mine" / "text" / "chapter"
    mine.mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    for name in ("run.lock", "notes"):
        (tmp_path / "notes" / name).touch()
    for taken in ("empty", "mine", "notes"):
        with pytest.raises(UsageError, match="exists already; resume the run in it, or choose another"):
            prepare(writing, tmp_path / taken)
    assert mine.is_dir()


def test_what_a_killed_preparation_left_can_be_used_again(tmp_path, writing, monkeypatch):
    images: list[Path] = []  # of the folder, as a kill at that instant leaves it

    def facts(*_):
        images.append(shutil.copytree(tmp_path / "run", tmp_path / "killed"))
        return {}

    monkeypatch.setattr("regard.runs.run._facts", facts)
    prepare(writing, tmp_path / "run")
    [image] = images
    assert {path.name for path in image.iterdir()} == {"run.lock", "text"}
    with pytest.raises(UsageError, match=r"holds no run yet; start one with --out .*killed"):
        resume(image, show=False)
    monkeypatch.undo()
    assert prepare(writing, image).folder.recipe().task == "language-modeling"


@pytest.mark.skipif(os.name == "nt", reason="Windows has another way to lock")
def test_a_folder_in_which_another_process_prepares_is_left_alone(tmp_path, writing):
    import fcntl

    out = tmp_path / "run"
    (out / "text").mkdir(parents=True)
    (out / "text" / "labels.json").touch()
    with (out / "run.lock").open("ab+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TrainingError, match="is being written to"):
            prepare(writing, out)
    assert (out / "text" / "labels.json").exists()


@pytest.mark.parametrize(
    "at", ["regard.text.token_files._write", "regard.runs.run_folder._replace", "pathlib.Path.mkdir"]
)
def test_a_disk_that_is_full_at_the_start_is_told_with_what_is_needed(tmp_path, writing, monkeypatch, at):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(at, full)
        needed = r"encoded text needs about [\d.]+ MB and a checkpoint up to [\d.]+ MB; free disk space"
        with pytest.raises(TrainingError, match=rf"the disk of .*run has [\d,.]+ MB left, and {needed}"):
            prepare(writing, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unusable_device_is_refused(tmp_path):
    files = write_toy(tmp_path, pairs=50)
    with pytest.raises(SettingError, match=r"device \(nonsense\) cannot be used"):
        train("translation", **files, device="nonsense", out=tmp_path / "run", show=False)


def test_without_out_a_free_name_is_taken(tmp_path):
    assert free_name(tmp_path, "demo") == tmp_path / "demo"
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo-2").mkdir()
    assert free_name(tmp_path, "demo") == tmp_path / "demo-3"


@pytest.mark.skipif(os.name == "nt", reason="Windows has another way to lock")
def test_two_writers_on_one_run_do_not_meet(tmp_path, small_run):
    import fcntl

    run = small_run("language-modeling", tmp_path)
    before = (run.folder / "metrics.jsonl").read_bytes()
    with (run.folder / "run.lock").open("ab+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TrainingError, match="is being written to"):
            resume(run.folder, {"training": {"steps": 8}}, show=False)
    assert (run.folder / "metrics.jsonl").read_bytes() == before
    assert Recipe.load(run.folder / "recipe.toml").training.steps == 4


@pytest.mark.parametrize("average", ["none", "ema"])
def test_the_model_of_a_run_is_its_best_and_not_its_last(tmp_path, small_run, monkeypatch, average):
    found = iter([3.0, 1.0, 2.0])  # of the validations at steps 2, 4 and 6
    monkeypatch.setattr(
        "regard.runs.validation._as_validation", lambda *_: Validation({"loss": next(found)}, samples=["x"])
    )
    averaging, checkpoints = {"name": average, "ema_decay": 0.5}, {"keep_checkpoints": 5}
    run = small_run("translation", tmp_path, steps=6, averaging=averaging, checkpoints=checkpoints)
    assert (run.step, run.metrics) == (6, {"loss": 1.0})
    saved = {step: load_model(run.folder / "checkpoints" / f"step-{step:08}") for step in (2, 4, 6)}
    kept, best = load_model(run.folder / "model").state_dict(), saved[4].state_dict()
    assert all(torch.equal(weight, best[name]) for name, weight in kept.items())
    for other in (2, 6):
        assert any(not torch.equal(weight, saved[other].state_dict()[name]) for name, weight in kept.items())
    for name, weight in run.model.model.state_dict().items():
        assert torch.equal(weight, kept[name])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in the file system")
@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "recipe.toml", "text/labels.json", "text/held_out.json", "text/validation.json"]
)
def test_a_pipe_in_the_folder_of_a_run_is_never_waited_for(name, small, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(small["translation"].folder, run)
    (run / name).unlink()
    os.mkfifo(run / name)
    signal.alarm(20)  # ends the process if something waits
    try:
        assert metrics_of(run).read() == [] or name != "metrics.jsonl"
        assert total_steps(run) is None or name != "recipe.toml"
        if name == "text/validation.json":  # can be made again from the data files
            assert prepare_again(run).material.valid.examples
        else:
            with pytest.raises(RegardError):
                evaluate(run) if name.endswith("held_out.json") else resume(run, show=False)
            with pytest.raises(RegardError, match=r"cannot read .*a pipe"):
                read_toml(run / name)
    finally:
        signal.alarm(0)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in the file system")
def test_a_pipe_among_token_files_counts_as_damage(small, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(small["translation"].folder, run)
    for file in [*(run / "text" / "tokens").glob("*/manifest.json")]:
        file.unlink()
        os.mkfifo(file)
    signal.alarm(20)
    try:
        assert len(prepare_again(run).material.train)
    finally:
        signal.alarm(0)
