"""TensorBoard's events: written by a run, read back by TensorBoard itself where it is installed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from regard.errors import MissingPackage
from regard.runs.metrics import read_metrics
from regard.runs.run import resume, train
from regard.runs.tensorboard import TensorBoardEvents
from regard.training.events import Resumed, StepDone, Validated, Validation


class Writer:
    """Stands for TensorBoard's and keeps what it is given."""

    made: ClassVar[list[Writer]] = []

    def __init__(self, folder, purge_step=None):
        self.folder, self.purge_step, self.written = folder, purge_step, []
        Writer.made.append(self)

    def add_scalar(self, *values):
        self.written.append(values)

    def add_text(self, *values):
        self.written.append(values)

    def close(self):
        self.written.append("closed")


@pytest.fixture
def made(monkeypatch):
    """Every stand-in that was made."""
    fake = type("tensorboard", (), {"SummaryWriter": Writer})
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    monkeypatch.setattr(Writer, "made", [])
    return Writer.made


STEP = StepDone(3, 0, 2.5, 0.01, 1.5, 100, 0.5, 0.1, 2.25)
VALIDATED = Validated(4, Validation({"loss": 1.25}, samples=["ein [Hund]\n→ a dog"]), True, 0.1)


def test_every_figure_is_written(made):
    events = TensorBoardEvents(Path("x"))
    assert made == []
    for event in (STEP, VALIDATED):
        events(event)
    events.close()
    (writer,) = made
    assert (writer.folder, writer.purge_step) == ("x", None)
    assert ("training/loss", 2.25, 3) in writer.written
    assert ("training/objective", 2.5, 3) in writer.written
    assert ("training/tokens per second", 200.0, 3) in writer.written
    assert ("validation/loss", 1.25, 4) in writer.written
    assert ("sample 0", "ein [Hund]\n→ a dog", 4) in writer.written
    assert writer.written[-1] == "closed"


def test_steps_that_are_done_anew_are_forgotten(made):
    events = TensorBoardEvents(Path("x"))
    events(Resumed(2, Path("y"), (), 2))
    events(STEP)
    assert made[0].purge_step == 3


def test_where_nothing_happened_nothing_is_written(made):
    TensorBoardEvents(Path("x")).close()
    assert made == []


def test_a_missing_package_names_its_install_command_before_anything_is_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingPackage, match=r'pip install "regard\[tensorboard\]"'):
        TensorBoardEvents(tmp_path)
    with pytest.raises(MissingPackage):
        train("translation", source="gone", target="gone", out=tmp_path / "run", tensorboard=True)
    with pytest.raises(MissingPackage):
        resume(tmp_path, tensorboard=True)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_read_back_by_tensorboard_itself(small_run, tmp_path):
    reason = 'pip install "regard[tensorboard]" to run this against the real package'
    pytest.importorskip("tensorboard", reason=reason)
    loader = importlib.import_module("tensorboard.backend.event_processing.event_file_loader")

    run = small_run("translation", tmp_path, steps=2)
    resume(run.folder, {"training": {"steps": 4}}, show=False, tensorboard=True)
    (file,) = (run.folder / "tensorboard").iterdir()
    read = [
        (value.tag, event.step, value.tensor)
        for event in loader.EventFileLoader(str(file)).Load()
        for value in event.summary.value
    ]
    told = [event for event in read_metrics(run.folder / "metrics.jsonl") if event["step"] > 2]
    losses = {step: tensor.float_val[0] for tag, step, tensor in read if tag == "training/loss"}
    assert losses == pytest.approx(
        {event["step"]: event["cross_entropy"] for event in told if event["event"] == "step"}
    )
    assert set(losses) == {3, 4}
    bleu = {step: tensor.float_val[0] for tag, step, tensor in read if tag == "validation/bleu"}
    scores = {event["step"]: event["scores"]["bleu"] for event in told if event["event"] == "validation"}
    assert bleu == pytest.approx(scores)
    samples = [tensor.string_val[0].decode() for tag, _, tensor in read if tag.startswith("sample 0")]
    assert samples == [event["samples"][0] for event in told if event["event"] == "validation"]
