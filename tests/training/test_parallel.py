"""Several ranks train as one process does: the same weights, files and order; a lost rank ends the others.

The ranks are forked by `tests.training.rank_jobs`, which takes longer acceptance runs as a program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard import ranks
from regard.errors import FailedElsewhere, SettingError, UnknownName
from regard.training.events import StepDone

from . import toy

PROJECT = Path(__file__).parents[2]
posix = pytest.mark.skipif(os.name == "nt", reason="ranks are forked")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, dict]:
    """The outcome of every job, from one program."""
    folder, jobs = tmp_path_factory.mktemp("ranks"), ("parity", "life", "worlds", "short_batches")
    command = [sys.executable, "-m", "tests.training.rank_jobs", str(folder), *jobs]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line.pop("job"): line for line in lines}


@posix
def test_ranks_train_as_one_process_does(outcomes):
    found = outcomes["parity"]
    assert len(found) == 6
    for name, far in found.items():
        assert far < (1e-6 if name.endswith("weights") else 1e-4), name


@posix
def test_ranks_without_rows_take_part_without_effect(outcomes):
    assert outcomes["short_batches"]["ddp"] < 1e-6
    assert outcomes["short_batches"]["fsdp with activation checkpointing"] < 1e-6


@posix
@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_a_run_of_two_ranks_resumes_bit_equal_after_a_kill_within_a_step(outcomes, name):
    found = outcomes["life"]
    assert found[f"{name} ranks agree"]
    assert found[f"{name} codes"] == [1, -9]
    assert "another process of the job ended" in found[f"{name} error"]
    assert "\n" not in found[f"{name} error"]
    assert found[f"{name} saved after the kill"] == ["step-00000004", "step-00000005"]
    assert found[f"{name} resumes bit-equal"]


@posix
@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_a_signal_to_one_rank_ends_both_after_the_same_step(outcomes, name):
    found = outcomes["life"]
    assert found[f"{name} codes of a signal"] == [143, 143]
    assert found[f"{name} saved after the signal"] == ["step-00000005", "step-00000006"]


@posix
@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_a_checkpoint_of_ranks_is_a_model_folder(outcomes, name):
    found = outcomes["life"]
    shards = [file for file in found[f"{name} files"] if file.startswith("shard-")]
    assert len(shards) == {"ddp": 0, "fsdp": 2}[name]
    assert {"model.safetensors", "training.json", "manifest.json"} < set(found[f"{name} files"])
    assert found[f"{name} model folder"]
    assert found[f"{name} left over"] == []


@posix
def test_the_number_of_ranks_and_the_strategy_may_change(outcomes):
    assert outcomes["worlds"]["distance"] < 1e-6


def test_one_process_starts_nothing():
    code = """
        import sys, torch
        from tests.training import toy
        toy.trainer(None, {"steps": 1}).train()
        assert not torch.distributed.is_initialized()
        wanted = ("fsdp", "tensor", "checkpoint", "elastic")
        found = [f"torch.distributed.{name}" for name in wanted if f"torch.distributed.{name}" in sys.modules]
        assert not found, found
    """
    command = [sys.executable, "-c", "\n".join(line.strip() for line in code.splitlines())]
    without = {name: value for name, value in os.environ.items() if name not in ranks.NEEDED}
    done = subprocess.run(command, cwd=PROJECT, env=without, capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr


def test_the_world_is_what_torchrun_says():
    variables = dict(RANK="3", WORLD_SIZE="4", LOCAL_RANK="1", MASTER_ADDR="a", MASTER_PORT="1")
    assert ranks.world(variables) == ranks.World(3, 4, 1)
    assert ranks.world({**variables, "TORCHELASTIC_RESTART_COUNT": "2"}).restarts == 2
    assert ranks.world({"RANK": "3"}) == ranks.World()  # of another program
    with pytest.raises(SettingError, match="must be numbers; start with torchrun"):
        ranks.world({**variables, "RANK": "x"})


def test_one_process_needs_no_others():
    with ranks.joined():
        assert (ranks.rank(), ranks.count(), ranks.is_first()) == (0, 1, True)
        assert ranks.share(5) == 5
        assert ranks.gathered(5) == [5]
        assert ranks.gathered_numbers([1.0, 2.0]) == [[1.0, 2.0]]
        assert list(ranks.divided(abs, [-1, 2])) == [1, 2]
        assert ranks.from_first(lambda: 7) == 7
    assert issubclass(FailedElsewhere, Exception)


def test_an_unknown_strategy_is_refused():
    with pytest.raises(UnknownName, match=r"unknown strategy 'zero'.*known: ddp, fsdp"):
        toy.settings(strategy="zero").distributed.check_names()


def _losses(**values) -> list[float]:
    losses: list[float] = []
    observers = [lambda event: losses.append(event.loss) if isinstance(event, StepDone) else None]
    run = toy.trainer(None, {"steps": 4, **values}, observers, layers=2)
    run.train()
    return [*losses, float(sum(parameter.detach().sum() for parameter in run.module.parameters()))]


def test_activation_checkpointing_changes_no_bit():
    assert _losses(activation_checkpointing=True) == _losses()


def test_activation_checkpointing_computes_blocks_again():
    calls = []
    run = toy.trainer(None, {"steps": 1, "activation_checkpointing": True})
    forward = type(run.module.model.encoder.blocks[0].feed_forward).forward

    def counted(self, x):
        calls.append(torch.is_grad_enabled())
        return forward(self, x)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(run.module.model.encoder.blocks[0].feed_forward), "forward", counted)
        run.validate = None
        run.train()
    assert len(calls) == 4  # of an encoder and a decoder block, forward and again


def test_bfloat16_rounds_matrix_products_and_keeps_weights_in_float32():
    exact, rounded = _losses(), _losses(precision="bfloat16")
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=0.02)


def test_replicas_exclude_activation_checkpointing():
    with pytest.raises(SettingError, match=r"replicas \(2\) must be 1 with activation_checkpointing"):
        toy.settings(replicas=2, activation_checkpointing=True)
