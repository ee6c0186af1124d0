"""The proof of exact resume, and that it would find a difference."""

from __future__ import annotations

import json
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from regard.checkpoints.atomic_folders import write_tensors
from regard.checkpoints.untrusted_files import MappedWeights
from regard.errors import SettingError, TrainingError
from regard.runs import resume_check
from regard.runs.resume_check import compare, verify_resume

STEPS = 6
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL to end a run with")


@pytest.fixture(scope="module")
def proved(tmp_path_factory) -> Path:
    """Both runs of a proof."""
    folder = tmp_path_factory.mktemp("proof")
    settings = {"training": {"threads": 1}}
    verdict = verify_resume("translation", folder, settings, STEPS)
    assert verdict.is_exact, str(verdict)
    assert set(verdict.compared) == {
        "weights", "optimizer", "averages", "trained weights", "random generators",
        "place in the data", "progress", "order of examples", "losses",
    }  # fmt: skip
    return folder


@pytest.fixture
def tampered(proved, tmp_path) -> Path:
    """A copy of them to be changed."""
    shutil.copytree(proved, tmp_path / "proof")
    return tmp_path / "proof"


def end_of(folder: Path) -> Path:
    return folder / "interrupted" / "checkpoints" / f"step-{STEPS:08}"


def test_a_run_interrupted_twice_is_the_same_run(proved):
    verdict = compare(proved, STEPS)
    assert verdict.is_exact
    assert str(verdict).endswith("exact: the interrupted run is the same run, 6 steps")
    seen = (proved / "interrupted.trace").read_text(encoding="utf-8").splitlines()
    assert len(seen) > STEPS or [json.loads(line)[0] for line in seen] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("file", "prefix", "part"),
    [
        ("model.safetensors", "", "weights"),
        ("training.safetensors", "optimizer/", "optimizer"),
        ("training.safetensors", "average/", "averages"),
        ("training.safetensors", "random/", "random generators"),
    ],
)
def test_one_bit_is_noticed(tampered, file, prefix, part):
    path = end_of(tampered) / file
    arrays = {name: np.array(array) for name, array in MappedWeights(path).items()}
    name = next(name for name in arrays if name.startswith(prefix) and arrays[name].size)
    arrays[name].reshape(-1).view(np.uint8)[0] ^= 1
    path.unlink()
    write_tensors(path, arrays)
    verdict = compare(tampered, STEPS)
    assert [what for what, found in verdict.compared.items() if not found.startswith("equal")] == [part]
    assert not verdict.is_exact
    assert "NOT exact" in str(verdict)


def test_another_loss_or_order_is_noticed(tampered):
    trace = tampered / "interrupted.trace"
    lines = trace.read_text(encoding="utf-8").splitlines()
    step, batch, loss, *rest = json.loads(lines[0])
    lines[0] = json.dumps([step, batch[::-1], (float.fromhex(loss) + 1e-9).hex(), *rest])
    trace.write_text("\n".join(lines), encoding="utf-8")
    compared = compare(tampered, STEPS).compared
    assert compared["order of examples"].startswith("another batch at step 1")
    assert compared["losses"].startswith("another loss at step 1")


def test_a_step_done_again_otherwise_is_noticed(tampered):
    trace = tampered / "interrupted.trace"
    first = json.loads(trace.read_text(encoding="utf-8").splitlines()[0])
    with trace.open("a", encoding="utf-8") as file:
        file.write(json.dumps([first[0], first[1], (0.5).hex(), *first[3:]]) + "\n")
    assert "then" in compare(tampered, STEPS).compared["losses"]


def test_too_few_steps_and_a_run_that_fails_are_told(tmp_path):
    with pytest.raises(SettingError, match=r"steps \(3\) must be 6 or more"):
        verify_resume("translation", tmp_path, steps=3)
    with pytest.raises(TrainingError, match=r"the run straight ended with 1, not 0: .*no such file"):
        verify_resume("language-model", tmp_path, {"data": {"text": "gone"}}, STEPS)


def test_a_run_killed_while_it_saves_goes_on_by_itself_every_time(tmp_path):
    said: list[str] = []
    verdict = verify_resume(
        "translation", tmp_path, {"training": {"threads": 1}}, STEPS, said.append, kills=5
    )
    assert verdict.is_exact, str(verdict)
    assert verdict.compared["killed while saving"] == "equal (5 of 5 went on by themselves)"
    assert (verdict.steps, verdict.compared["losses"]) == (16, "equal (16 steps)")
    begun = [int(line.split("from step ")[1].split(",")[0]) for line in said if line.startswith("life ")]
    assert begun[0] == 0
    assert all(1 <= later - earlier <= 2 for earlier, later in pairwise(begun))


def test_a_run_that_begins_anew_is_noticed(tmp_path, monkeypatch):
    def life(file, folder, name, ending, expected):
        (folder / "interrupted" / "checkpoints" / "step-00000002").mkdir(parents=True, exist_ok=True)
        with (folder / f"{name}.trace").open("a", encoding="utf-8") as trace:
            trace.write('[1, "batch", "loss"]\n')

    monkeypatch.setattr(resume_check, "_run", life)
    monkeypatch.setattr(resume_check.CheckpointManager, "newest_good", lambda self: self.path(2))
    found = resume_check._kill_often(tmp_path, tmp_path, 3, lambda line: None)
    assert found == "life 2 went on with step 1, and step 2 was saved"
