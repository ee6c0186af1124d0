"""Going on after an end of any kind: bit-equal, from the last good checkpoint, or refused with reasons."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from regard.checkpoints import atomic_folders
from regard.checkpoints.folder import read_folder
from regard.checkpoints.untrusted_files import check_manifest
from regard.errors import CheckpointError, Interrupted, TrainingError
from regard.text.tokenizer import Tokenizer, Tokenizers
from regard.training import checkpoint_manager
from regard.training.checkpoint_manager import Lock
from regard.training.events import StepDone, Validation
from regard.training.settings import MAY_CHANGE
from regard.training.state import Best
from regard.training.trainer import Trainer

from . import toy

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")


def program(out: Path, values: dict, *options: str) -> subprocess.CompletedProcess:
    """Train in a process of its own."""
    command = [sys.executable, toy.__file__, str(out), json.dumps(values), *options]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=300)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def straight(out: Path, **values) -> Trainer:
    trainer = toy.trainer(out, values)
    trainer.train()
    return trainer


MODES = {
    "adamw, ema": {"averaging": "ema", "gradient_accumulation": 3},
    "muon, last": {"optimizer": "muon", "averaging": "last", "every": 3, "last": 2},
    "muon, none": {"optimizer": "muon", "schedule": "cosine", "gradient_accumulation": 2},
    "muon, two replicas": {"optimizer": "muon", "replicas": 2, "gradient_accumulation": 2},
}


@posix
def test_runs_of_one_and_of_two_processes_end_bit_equal(tmp_path):
    values = {"steps": 22, "save_every": 4, "validate_every": 3, "keep_checkpoints": 3, **MODES["adamw, ema"]}
    assert program(tmp_path / "a", values).returncode == 0
    ended = program(tmp_path / "b", values, "--kill-after", "13", str(int(signal.SIGTERM)), "1")
    assert (ended.returncode, ended.stderr.count("\n")) == (143, 1)
    assert "step-00000013; resume" in ended.stderr
    assert program(tmp_path / "b", values, "--resume").returncode == 0
    first, second = (contents(tmp_path / name / "checkpoints" / "step-00000022") for name in "ab")
    assert first == second
    assert {"training.json", "training.safetensors", "model.safetensors"} <= set(first)
    values = json.loads(first["training.json"])
    assert values["source"]["epoch"] > 0 or values["source"]["index"] > 0
    assert len(values["progress"]["losses"]) == 22


@posix
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", [3, 8, 13])
def test_every_kind_of_state_is_taken_up_bit_equal(tmp_path, mode, at):
    values = {"steps": 15, "save_every": None, "validate_every": 4, **MODES[mode]}
    whole = straight(tmp_path / "a", **values)
    first = toy.trainer(tmp_path / "b", values, [toy.kill_after(at, signal.SIGINT)])
    with pytest.raises(Interrupted):
        first.train()
    second = toy.trainer(tmp_path / "b", values)
    assert second.resume()
    assert second.progress.step == at
    second.train()
    assert contents(whole.checkpoints.path(15)) == contents(second.checkpoints.path(15))


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_inside_an_accumulated_step_discards_what_was_begun(tmp_path, number):
    values = {"steps": 9, "gradient_accumulation": 4, "averaging": "ema"}
    before = signal.getsignal(number)
    whole = straight(tmp_path / "a", **values)
    trainer = toy.trainer(tmp_path / "b", values)
    calls: list[int] = []
    real = trainer.module.forward

    def forward(batch):
        calls.append(trainer.progress.step)
        if (
            trainer.module.training and calls.count(6) == 2
        ):  # the second piece of step 7, after which nothing is saved yet
            os.kill(os.getpid(), number)
        return real(batch)

    trainer.module.forward = forward
    with pytest.raises(Interrupted, match="after step 6") as error:
        trainer.train()
    assert error.value.exit_code == 128 + number
    assert calls.count(6) == 2
    assert signal.getsignal(number) == before
    second = toy.trainer(tmp_path / "b", values)
    assert second.resume()
    assert second.progress.step == 6
    second.train()
    assert contents(whole.checkpoints.path(9)) == contents(second.checkpoints.path(9))


@posix
def test_a_second_signal_ends_at_once(tmp_path):
    ended = program(tmp_path, {"save_every": 2}, "--kill-after", "3", str(int(signal.SIGTERM)), "2")
    assert ended.returncode == 143
    assert checkpoint_manager.CheckpointManager(tmp_path).steps() == [2]
    again = toy.trainer(tmp_path, {"save_every": 2})
    assert again.resume()
    assert again.train().step == 10


@posix
def test_a_kill_between_the_renames_of_the_only_checkpoint_is_resumed(tmp_path):
    values = {"steps": 9, "validate_every": 4, "save_every": None}
    whole = straight(tmp_path / "a", **values)
    run = tmp_path / "b"
    first = toy.trainer(run, values, [toy.kill_after(4, signal.SIGTERM)])
    with pytest.raises(Interrupted):  # saved before it is validated: the next process replaces it
        first.train()
    ended = program(run, values, "--resume", "--kill-between-renames")
    assert ended.returncode == 9, ended.stderr
    assert [name.split("-")[0] for name in names(run / "checkpoints")] == [".replaced", ".unfinished"]
    reader = toy.trainer(None, values)
    assert reader.resume(run)
    assert reader.progress.step == 4
    for path in (None, run / "checkpoints" / "step-00000004"):
        copy = shutil.copytree(run, tmp_path / str(path is None))
        again = toy.trainer(copy, values)
        assert again.resume(path and copy / path.relative_to(run))
        again.train()
        assert contents(whole.checkpoints.path(9)) == contents(again.checkpoints.path(9))
        assert not list(copy.rglob(".*"))


@posix
def test_a_closed_terminal_saves_as_any_signal_does(tmp_path):
    hangup = str(int(signal.SIGHUP))
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the program would inherit "ignore"
    try:
        ended = program(tmp_path, {"save_every": None}, "--kill-after", "3", hangup, "2")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended.returncode == 129
    assert "ended by signal 1 after step 3" in ended.stderr
    assert checkpoint_manager.CheckpointManager(tmp_path).steps() == [3]


@posix
def test_a_hangup_that_is_ignored_stays_ignored(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        trainer = toy.trainer(tmp_path, {}, [toy.kill_after(3, signal.SIGHUP)])
        assert trainer.train().step == 10
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
def test_a_run_killed_at_any_instant_resumes_by_itself(tmp_path):
    values = {"steps": 10**6, "save_every": 1, "validate_every": None, "averaging": "ema"}
    ended = program(tmp_path, values, "--kill-at-random", "12", "7")
    results = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [result["code"] for result in results] == [0] * 12, ended.stderr
    assert not any(result["left"] for result in results)
    assert sum(result["reached"] > 0 for result in results) > 3


@posix
def test_a_signal_breaks_a_validation_off_and_it_is_made_good(tmp_path):
    values = {"steps": 9, "validate_every": 4, "averaging": "ema"}
    whole = straight(tmp_path / "a", **values)
    trainer = toy.trainer(tmp_path / "b", values)

    def endless(module):
        os.kill(os.getpid(), signal.SIGTERM)
        while True:
            time.sleep(0.01)

    trainer.validate = endless
    with pytest.raises(Interrupted, match="after step 4"):
        trainer.train()
    second = toy.trainer(tmp_path / "b", values)
    assert second.resume()
    second.train()
    assert contents(whole.checkpoints.path(9)) == contents(second.checkpoints.path(9))
    assert second.checkpoints.steps() == whole.checkpoints.steps()


@pytest.mark.parametrize("lose", [shutil.rmtree, lambda folder: damage(folder, "model.safetensors")])
def test_a_lost_or_damaged_best_checkpoint_is_replaced(tmp_path, caplog, lose):
    first = straight(tmp_path, steps=6, validate_every=5, save_every=5)
    first.progress.best = Best(5, first.progress.best.value)
    first._save()
    lose(first.checkpoints.path(5))
    again = toy.trainer(tmp_path, {"steps": 12, "validate_every": 5, "save_every": 5})
    with caplog.at_level(logging.WARNING, "regard.training"):
        assert again.resume()
    assert "the best checkpoint, of step 5, cannot be used" in caplog.text
    check_manifest(again.train().best_folder)


@posix
def test_an_end_without_a_folder_is_told():
    trainer = toy.trainer(None, {})
    trainer.observers.append(toy.kill_after(2, signal.SIGINT))
    with pytest.raises(Interrupted, match="nothing is saved") as error:
        trainer.train()
    assert error.value.exit_code == 130


def damage(folder: Path, name: str = "training.safetensors") -> None:
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    "name", ["training.safetensors", "training.json", "model.safetensors", "manifest.json"]
)
def test_damage_is_passed_over_with_a_warning_and_refused_where_named(tmp_path, caplog, name):
    first = straight(tmp_path, save_every=5, validate_every=None)
    damage(first.checkpoints.path(10), name)
    again = toy.trainer(tmp_path, {"steps": 12, "validate_every": None})
    with caplog.at_level(logging.WARNING, "regard.training"):
        assert again.resume()
    assert again.progress.step == 5
    assert name in caplog.text
    assert "trying the checkpoint before it" in caplog.text
    with pytest.raises(CheckpointError, match=name):
        toy.trainer(tmp_path, {"validate_every": None}).resume(first.checkpoints.path(10))
    again.train()
    assert again.checkpoints.steps() == [10, 12]
    for step in (10, 12):
        check_manifest(again.checkpoints.path(step))


def test_without_an_undamaged_checkpoint_nothing_is_resumed(tmp_path):
    first = straight(tmp_path, save_every=5)
    for step in first.checkpoints.steps():
        (first.checkpoints.path(step) / "training.json").unlink()
    assert not toy.trainer(tmp_path, {}).resume()
    with pytest.raises(CheckpointError, match="no undamaged checkpoint"):
        toy.trainer(tmp_path, {}).resume(tmp_path)


def test_a_path_may_be_a_run_or_a_checkpoint(tmp_path):
    first = straight(tmp_path, save_every=5, validate_every=None)
    for path, step in ((tmp_path, 10), (first.checkpoints.path(5), 5)):
        trainer = toy.trainer(None, {"validate_every": None})
        assert trainer.resume(path)
        assert trainer.progress.step == step
    with pytest.raises(CheckpointError, match="is not a folder"):
        toy.trainer(None, {}).resume(tmp_path / "nowhere")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@posix
def test_what_later_steps_left_is_set_aside_and_removed_when_they_are_passed(tmp_path):
    values = {"steps": 9, "save_every": 3, "snapshot_every": 3, "keep_checkpoints": 9, "validate_every": None}
    first = straight(tmp_path, **values)
    last = contents(first.checkpoints.path(9))
    again = toy.trainer(tmp_path, values, [toy.kill_after(4, signal.SIGTERM)])
    again.resume(first.checkpoints.path(3))
    with pytest.raises(Interrupted):
        again.train()
    assert contents(tmp_path / "checkpoints" / "abandoned-step-00000009") == last
    assert names(tmp_path / "weights") == [
        "abandoned-step-00000006", "abandoned-step-00000009", "step-00000000", "step-00000003",
    ]  # fmt: skip
    again = toy.trainer(tmp_path, values, [toy.kill_after(7, signal.SIGTERM)])
    assert again.resume()
    with pytest.raises(Interrupted):
        again.train()
    assert names(tmp_path / "checkpoints")[0] == "abandoned-step-00000009"
    assert names(tmp_path / "weights")[:2] == ["abandoned-step-00000009", "step-00000000"]
    again = toy.trainer(tmp_path, values)
    assert again.resume()
    again.train()
    assert contents(again.checkpoints.path(9)) == last
    assert names(tmp_path / "weights") == [f"step-{step:08}" for step in (0, 3, 6, 9)]
    assert not list(tmp_path.rglob("abandoned*"))


def test_snapshots_of_another_trajectory_are_never_mixed_in(tmp_path):
    values = {"steps": 9, "save_every": 3, "snapshot_every": 2, "keep_checkpoints": 9, "validate_every": None}
    first = straight(tmp_path, **values)
    again = toy.trainer(tmp_path, {**values, "steps": 7, "snapshot_every": 4, "learning_rate": 0.01})
    again.resume(first.checkpoints.path(3))
    again.train()
    assert names(tmp_path / "weights") == ["step-00000000", "step-00000002", "step-00000004"]
    assert names(tmp_path / "checkpoints") == ["step-00000003", "step-00000006", "step-00000007"]


# What may change, and what may not


def test_another_architecture_is_refused_with_a_diff(tmp_path):
    straight(tmp_path)
    with pytest.raises(CheckpointError, match=r"another model: .*layers 1, now 2; .*start a new run"):
        toy.trainer(tmp_path, {}, layers=2).resume()
    with pytest.raises(CheckpointError, match=r"dropout 0\.1, now 0\.3"):
        toy.trainer(tmp_path, {}, dropout=0.3).resume()


def test_another_tokenizer_is_refused(tmp_path):
    straight(tmp_path)
    trainer = toy.trainer(tmp_path, {})
    other = Tokenizers.joint(Tokenizer.train(["z y x"], kind="word"))
    changed = Trainer(
        trainer.module, trainer.source, trainer.settings, tmp_path, tokenizers=other, task="translation"
    )
    with pytest.raises(CheckpointError, match="another tokenizer: fingerprint"):
        changed.resume()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2},
        {"optimizer": "muon"},
        {"averaging": "ema"},
        {"gradient_accumulation": 2},
        {"freeze": ["head.*"]},
    ],
)
def test_settings_that_make_another_run_are_refused_with_a_diff(tmp_path, change):
    straight(tmp_path)
    name = next(iter(change))
    with pytest.raises(
        CheckpointError, match=rf"other settings: {name}\b.*, now .*may change steps, max_grad"
    ):
        toy.trainer(tmp_path, change).resume()


def test_settings_that_may_change_take_effect(tmp_path, caplog):
    straight(tmp_path)
    values = dict(
        steps=12, learning_rate=0.01, schedule="linear", warmup_steps=1, min_lr_ratio=0.1, max_grad_norm=None,
        weight_decay=0.1, validate_every=1, early_stopping_patience=5, save_every=1, keep_checkpoints=4,
        snapshot_every=6, strategy="fsdp", timeout=60, activation_checkpointing=True,
    )  # fmt: skip
    assert {*values, "compile"} == {
        "schedule" if name == "schedule.name" else name.rpartition(".")[2] for name in MAY_CHANGE
    }
    trainer = toy.trainer(tmp_path, values)
    with caplog.at_level(logging.INFO, "regard.training"):
        assert trainer.resume()
    assert "steps 10, now 12" in caplog.text
    assert trainer.train().step == 12


def test_other_data_is_refused(tmp_path):
    straight(tmp_path)
    trainer = toy.trainer(tmp_path, {})
    changed = Trainer(
        trainer.module,
        toy.batches(seed=5),
        trainer.settings,
        tmp_path,
        tokenizers=Tokenizers.joint(toy.tokenizer()),
    )
    with pytest.raises(CheckpointError, match="order of batches"):
        changed.resume()


def test_more_validation_leaves_the_weights_bit_equal(tmp_path):
    whole = straight(tmp_path / "a", save_every=5, validate_every=None)
    first = toy.trainer(tmp_path / "b", {"steps": 5, "validate_every": None})
    first.train()
    second = toy.trainer(tmp_path / "b", {"validate_every": 1})
    second.resume()
    second.train()
    for a, b in zip(whole.module.parameters(), second.module.parameters(), strict=True):
        assert torch.equal(a, b)


# What goes wrong with the folder


@pytest.mark.parametrize("pieces", [0, 2, 30, 70, 100])
def test_a_full_disk_leaves_the_last_checkpoint_and_nothing_half_written(tmp_path, monkeypatch, pieces):
    trainer = toy.trainer(tmp_path, {"save_every": 3, "validate_every": None})
    trainer.validate = None
    real, left = atomic_folders.write_file, [pieces]

    def write(path, written):
        def limited():
            for piece in written:
                left[0] -= 1
                if left[0] < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                yield piece

        real(path, limited() if trainer.progress.step > 3 else written)

    monkeypatch.setattr(atomic_folders, "write_file", write)
    with pytest.raises(CheckpointError, match=r"step-00000006: No space left on device; earlier files are"):
        trainer.train()
    assert [path.name for path in trainer.checkpoints.checkpoint_folder.iterdir()] == ["step-00000003"]
    read_folder(trainer.checkpoints.path(3))
    monkeypatch.undo()
    again = toy.trainer(tmp_path, {"save_every": 3, "validate_every": None})
    assert again.resume()
    assert again.train().step == 10


def test_an_unwritable_folder_is_found_before_the_first_step(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    stepped: list = []
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(CheckpointError, match="cannot write"):
            toy.trainer(out, {}, [stepped.append]).train()

    def refuse(path, pieces):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(checkpoint_manager, "write_file", refuse)
    with pytest.raises(CheckpointError, match="Read-only file system"):
        toy.trainer(tmp_path / "out", {}, [stepped.append]).train()
    assert not stepped


def test_too_little_room_is_found_before_the_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_manager.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(TrainingError, match="a checkpoint needs about"):
        toy.trainer(tmp_path, {}).train()
    monkeypatch.undo()
    toy.trainer(tmp_path, {"steps": 1}).train()


def test_a_folder_that_vanishes_is_told(tmp_path):
    trainer = toy.trainer(tmp_path / "out", {"save_every": 4, "validate_every": None})

    def vanish(event):
        if isinstance(event, StepDone) and event.step == 2:
            shutil.rmtree(tmp_path / "out")

    trainer.observers.append(vanish)
    with pytest.raises(CheckpointError, match="checkpoints does not exist any more"):
        trainer.train()
    assert not (tmp_path / "out").exists()


def test_a_second_writer_is_refused_and_readers_are_welcome(tmp_path):
    trainer = toy.trainer(tmp_path, {"save_every": 2, "validate_every": None})
    messages: list[str] = []

    def meddle(event):
        if isinstance(event, StepDone) and event.step == 5:
            with pytest.raises(TrainingError) as error:
                toy.trainer(tmp_path, {"steps": 12, "validate_every": None}).train()
            messages.append(str(error.value))
            reader = toy.trainer(None, {"validate_every": None})
            assert reader.resume(tmp_path)
            assert reader.progress.step == 4

    trainer.observers.append(meddle)
    trainer.train()
    assert f"is being written to by process {os.getpid()}" in messages[0]


def test_a_lock_that_a_dead_process_left_is_recovered(tmp_path):
    (tmp_path / "run.lock").write_text('{"pid": 999999999, "host": "here"}', encoding="utf-8")
    straight(tmp_path, steps=2)
    lock = Lock(tmp_path)
    lock.acquire()
    with pytest.raises(TrainingError, match="being written to"):
        Lock(tmp_path).acquire()
    lock.release()
    lock.acquire()
    lock.release()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full there")
def test_a_full_disk_holds_and_releases_the_lock_all_the_same(tmp_path):
    lock = Lock(tmp_path)
    lock.path.symlink_to("/dev/full")
    lock.acquire()
    lock.release()


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    trainer = straight(tmp_path)
    newest = trainer.checkpoints.path(10)
    told = json.loads((newest / "training.json").read_text(encoding="utf-8"))
    (newest / "training.json").write_text(json.dumps({**told, "format": 9}), encoding="utf-8")
    (newest / "manifest.json").unlink()
    atomic_folders.seal(newest)
    with pytest.raises(CheckpointError, match="has format 9, and this version reads up to 2"):
        toy.trainer(tmp_path, {}).resume()


@pytest.mark.parametrize(
    "change",
    [
        {"progress": None}, {"progress": {"step": 1}}, {"random": {}}, {"random": {"numpy": 3, "python": 3}},
        {"optimizer": {"nobody": {"step": 1}}}, {"source": None}, {"source": [1]}, {"settings": 3},
        {"progress": {"step": "x", "best": 1, "since_best": 0, "validated": 0, "losses": []}},
    ],
    ids=str,
)  # fmt: skip
def test_a_state_that_makes_no_sense_is_one_line(tmp_path, change):
    newest = straight(tmp_path).checkpoints.path(10)
    told = json.loads((newest / "training.json").read_text(encoding="utf-8"))
    (newest / "training.json").write_text(json.dumps({**told, **change}), encoding="utf-8")
    (newest / "manifest.json").unlink()
    atomic_folders.seal(newest)
    with pytest.raises(CheckpointError):
        toy.trainer(tmp_path, {}).resume()


@pytest.mark.parametrize("at", [3, 4, 5])
def test_patience_goes_on_counting_after_a_resume(tmp_path, at):
    values = {"steps": 50, "validate_every": 1, "save_every": 1, "early_stopping_patience": 4}
    found = iter([3.0, 2.0, *(5.0,) * 50])  # the second validation is the best

    def validate(module):
        return Validation({"loss": next(found)})

    first = toy.trainer(tmp_path, {**values, "steps": at})
    first.validate = validate
    first.train()
    second = toy.trainer(tmp_path, values)
    second.validate = validate
    assert second.resume()
    assert second.progress.since_best == at - 2
    outcome = second.train()
    assert (outcome.step, outcome.reason) == (6, "patience")
    assert outcome.best is not None
    assert (outcome.best.step, outcome.best.value) == (2, 2.0)
