"""metrics.jsonl: written as things happen, cut where a run goes back, read after a crash."""

from __future__ import annotations

import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path

from regard.runs.metrics import MetricsFile, read_metrics
from regard.training.events import Finished, Resumed, Saved, Saving, StepDone, Validated, Validation


def step(number: int) -> StepDone:
    return StepDone(number, 0, 1.0 / number, 1e-3, 0.5, 100, 0.1, None, 1.0 / number)


def test_every_kind_of_event_comes_back(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    found = Validation({"loss": 1.0, "perplexity": math.inf}, samples=["a\n→ b"])
    for event in (step(1), Validated(1, found, True, 0.1), Saved(1, Path("x"), 0.1), Finished(1, "steps")):
        metrics(event)
    metrics.close()
    events = read_metrics(tmp_path / "metrics.jsonl")
    assert [event["event"] for event in events] == ["step", "validation", "saved", "finished"]
    assert events[1]["scores"] == {"loss": 1.0, "perplexity": None}
    assert events[1]["samples"] == ["a\n→ b"]
    assert "Infinity" not in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8")


def test_steps_that_are_done_again_are_written_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path)
    for number in (1, 2, 3):
        first(step(number))
    first(Finished(3, "signal"))
    first.close()
    before = path.read_bytes()
    second = MetricsFile(path)
    second(Resumed(2, Path("x"), ["steps 3, now 4"], 0))
    assert path.read_bytes() == before  # another process may be writing until training itself begins
    for number in (3, 4):
        second(step(number))
    second.close()
    events = read_metrics(path)
    assert [(event["event"], event["step"]) for event in events] == [
        ("step", 1), ("step", 2), ("resumed", 2), ("step", 3), ("step", 4),
    ]  # fmt: skip


def test_what_is_validated_or_saved_is_on_the_disk(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics(step(1))
    metrics(Saved(1, Path("x"), 0.1))
    found = read_metrics(tmp_path / "metrics.jsonl")
    metrics.close()
    assert len(found) == 2


def test_a_line_cut_short_is_passed_over(tmp_path):
    path = tmp_path / "metrics.jsonl"
    whole = json.dumps({"event": "step", "step": 1})
    path.write_bytes(f"{whole}\n{whole[:9]}\n[1]\n".encode() + b"\xff\n")
    assert [event["step"] for event in read_metrics(path)] == [1]
    assert read_metrics(tmp_path / "none") == []


def test_every_line_has_its_time(tmp_path):
    before = datetime.now(UTC)
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics(Resumed(0, Path("x"), (), 0))
    for event in (step(1), Saving(1), Saved(1, Path("x"), 0.1), Finished(1, "steps")):
        metrics(event)
    metrics.close()
    times = [datetime.fromisoformat(event["time"]) for event in read_metrics(tmp_path / "metrics.jsonl")]
    assert len(times) == 4
    assert times == sorted(times)
    assert all(one.utcoffset().total_seconds() == 0 for one in times)
    assert abs((times[0] - before).total_seconds()) < 3600


def test_steps_are_on_the_disk_before_their_checkpoint_is_written(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor):
        synced.append(len(read_metrics(path)))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    metrics = MetricsFile(path)
    for number in (1, 2, 3):
        metrics(step(number))
    metrics(Saving(3))
    assert synced == [3]
    metrics.close()


def test_a_validation_that_its_checkpoint_does_not_know_of_is_done_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    found = Validated(2, Validation({"loss": 1.0}), True, 0.1)
    first = MetricsFile(path)
    for event in (step(1), step(2), Saved(2, Path("x"), 0.1), found):
        first(event)
    first.close()  # killed before the checkpoint of step 2 was replaced by one that knows the validation
    second = MetricsFile(path)
    second(Resumed(2, Path("x"), (), 0))
    second(found)
    second.close()
    assert [event["event"] for event in read_metrics(path)] == [
        "step", "step", "saved", "resumed", "validation",
    ]  # fmt: skip
