"""Experiments side by side: which run at a time, in which order, and what becomes of an error."""

from __future__ import annotations

import json
import sys

import pytest

from regard.errors import RegardError
from regard.lessons import side_by_side
from regard.lessons.registry import LESSONS
from regard.lessons.results import STORED, stored_result
from regard.lessons.side_by_side import run_lessons

TIMED = ("recurrence", "cost")
OTHERS = ("order", "six-steps", "masking")
# A process that reports a stored experiment, if no more others run than it may have beside it.
CHILD = """
import json, os, pathlib, sys, time
folder, stored, name = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
result, settings = json.loads((stored / f"{name}.json").read_text(encoding="utf-8")), json.loads(sys.argv[4])
part = next(part for part in ("experiment", "control") if result[part]["settings"] == settings)
own = folder / f"{name} {part}"
own.touch()
print(json.dumps({"progress": "begun"}), flush=True)
if name == "masking" and (folder / "fails").exists():
    print(json.dumps({"error": "no text"}))
    sys.exit(2)
time.sleep(0.2)
beside = sorted(one.name for one in folder.iterdir())
own.unlink()
with open(folder.with_suffix(".log"), "a") as log:
    log.write(json.dumps([own.name, beside]) + "\\n")
print(json.dumps({"experiment": result[part], "seconds": 1.2}))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder in which each running child has a file."""
    child, running = tmp_path / "child.py", tmp_path / "running"
    child.write_text(CHILD, encoding="utf-8")
    running.mkdir()
    command = (sys.executable, "-S", str(child), str(running), str(STORED))
    monkeypatch.setattr(side_by_side, "RUNNER", command)
    monkeypatch.setattr(side_by_side, "cores", lambda: 2)
    return running


def lessons(*names):
    return [LESSONS[name]() for name in names]


def test_two_at_a_time_the_longest_first_and_timed_ones_alone_at_the_end(folder):
    lines = []
    results = list(run_lessons(lessons(*TIMED, *OTHERS), lines.append))
    assert {result.name for result in results} == {*TIMED, *OTHERS}
    for result in results:
        stored = stored_result(result.name)
        assert (result.experiment, result.control) == (stored.experiment, stored.control)
        assert result.seconds == 2.4
    log = [json.loads(line) for line in folder.with_suffix(".log").read_text().splitlines()]
    alone = [f"{name} {part}" for name in TIMED for part in ("experiment", "control")]
    assert log[-4:] == [[name, [name]] for name in alone]
    assert max(len(beside) for _, beside in log[:-4]) == 2
    longest = max(OTHERS, key=lambda name: stored_result(name).seconds)
    assert set(lines[:2]) == {f"{longest}: begun", f"{longest}: control: begun"}


def test_an_error_of_one_ends_the_others(folder):
    (folder / "fails").touch()
    with pytest.raises(RegardError, match=r"^masking:( control:)? no text$"):
        list(run_lessons(lessons(*OTHERS, *TIMED), lambda line: None))
    assert not list(folder.glob("recurrence*"))


def test_lessons_with_times_are_marked():
    assert {name for name in LESSONS if LESSONS[name].is_timed} == {"heads", "recurrence", "context", "cost"}
