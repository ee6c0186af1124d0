"""Runs that earlier versions wrote and left unfinished: today's code goes on with them as theirs did.

Each archive in format-1 holds the folder of an interrupted run, its text files, and in expected.json what the
version that wrote it gave for the following steps. The versions: adamw-two-vocabularies is of commit db514db,
muon-word-dropout of e19e22c, the others of 02e1e61.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.checkpoints.format1 import read_training
from regard.checkpoints.untrusted_files import MappedWeights, read_json
from regard.runs.metrics import read_metrics
from regard.runs.run import prepare_again, resume
from regard.training.state import RandomState, random_state

ARCHIVES = Path(__file__).parent / "format-1"
RUNS = sorted(path.name.removesuffix(".tar.gz") for path in ARCHIVES.iterdir())
# The text files of each run, by their names in the [data] table.
FILES = {
    "adamw-two-vocabularies": {"tsv": "pairs.tsv"},
    "muon-word-dropout": {
        "source": "train.en",
        "target": "train.de",
        "valid_source": "valid.en",
        "valid_target": "valid.de",
    },
    "adamw-both-ways": {"source": "train.en", "target": "train.de"},
    "tuned-classifier": {"labelled": "parity.csv"},
    "writing-characters": {"text": "numbers.txt"},
}


@dataclass(frozen=True)
class Stored:
    """A stored run in a folder of its own."""

    folder: Path
    data: dict[str, str]  # where its text files are now
    expected: dict[str, Any]

    @property
    def checkpoint(self) -> Path:
        """What it goes on from."""
        return self.folder / "checkpoints" / f"step-{self.expected['step']:08}"


def unpacked(name: str, folder: Path) -> Stored:
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    top = folder / name
    data = {key: str(top / "data" / file) for key, file in FILES[name].items()}
    return Stored(top / "run", data, json.loads((top / "expected.json").read_bytes()))


@pytest.fixture(params=RUNS)
def stored(request, tmp_path) -> Stored:
    return unpacked(request.param, tmp_path)


def steps_after(stored: Stored) -> list[dict[str, Any]]:
    events = read_metrics(stored.folder / "metrics.jsonl")
    return [one for one in events if one["event"] == "step" and one["step"] > stored.expected["step"]]


def test_an_older_run_goes_on_as_the_version_that_wrote_it_did(stored, tmp_path):
    """The numbers were stored on another processor, whose kernels round otherwise; Muon makes this larger."""
    run = resume(stored.folder, {"data": stored.data}, show=False)
    after = steps_after(stored)
    for name, key in (("losses", "loss"), ("norms", "gradient_norm")):
        assert [step[key] for step in after] == pytest.approx(stored.expected[name], rel=2e-5)
    assert [step["epoch"] for step in after] == stored.expected["epochs"]
    found = [one for one in read_metrics(run.folder / "metrics.jsonl") if one["event"] == "validation"]
    found = [one for one in found if one["step"] > stored.expected["step"]]
    for one, expected in zip(found, stored.expected["validations"], strict=True):
        assert (one["step"], one["is_best"]) == (expected["step"], expected["is_best"])
        scores = {name: one["scores"][name] for name in expected["scores"]}  # new ones were added since
        assert scores == pytest.approx(expected["scores"], rel=2e-5)


def test_an_older_run_goes_on_the_same_every_time(tmp_path):
    twice = [unpacked("adamw-both-ways", tmp_path / name) for name in "ab"]
    for one in twice:
        resume(one.folder, {"data": one.data}, show=False)
    first, second = ([(step["loss"], step["gradient_norm"]) for step in steps_after(one)] for one in twice)
    assert first == second
    last = f"checkpoints/step-{18:08}"
    for file in ("model.safetensors", "training.safetensors"):
        assert (twice[0].folder / last / file).read_bytes() == (twice[1].folder / last / file).read_bytes()


def test_everything_that_was_saved_is_taken_up_bit_equal(stored):
    run = prepare_again(stored.folder, {"data": stored.data})
    assert run.trainer.resume(stored.checkpoint, run.changes)
    state = run.trainer.state
    tensors = MappedWeights(stored.checkpoint / "training.safetensors")
    values = read_json(stored.checkpoint / "training.json")
    weights = {f"model.{n}": a for n, a in MappedWeights(stored.checkpoint / "model.safetensors").items()}
    weights |= {n.removeprefix("weights/"): a for n, a in tensors.items() if n.startswith("weights/")}
    now: dict[str, torch.Tensor] = dict(run.trainer.module.state_dict())
    assert all(np.array_equal(now[name].numpy(), array) for name, array in weights.items())
    slots, numbers = state._optimizer_state()
    made = {**slots, **{f"average/{n}": t for n, t in state.average.state().items()}}
    for prefix in ("optimizer/", "average/"):
        saved = {name: array for name, array in tensors.items() if name.startswith(prefix)}
        assert saved.keys() == {name for name in made if name.startswith(prefix)}
        assert all(np.array_equal(made[name].numpy(), array) for name, array in saved.items())
    assert numbers == values["optimizer"]
    random = random_state()
    assert np.array_equal(random.tensors["cpu"].numpy(), tensors["random/cpu"])
    assert str(random.values) == str(RandomState.from_dict({}, values["random"]).values)
    assert state.source.state() == read_training("training.json", values)["source"]
    assert run.trainer.progress.step == stored.expected["step"]
