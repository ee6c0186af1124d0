"""A metrics file that grows is read on; one that was replaced is read anew; a malformed one is a message."""

from __future__ import annotations

import json

import pytest

from regard.service.http_errors import RequestError
from regard.service.metrics_reader import MetricsReader, metrics_of
from regard.service.training_progress import training_curves

API = "/studio/api/"


def lines(*steps, **more) -> str:
    return "".join(
        json.dumps({"event": "step", "step": step, "loss": 1.0, "seconds": 0.5, **more}) + "\n"
        for step in steps
    )


class Counting(MetricsReader):
    """A reader that counts the lines that it parses."""

    parsed = 0

    def _take(self, line):
        self.parsed += 1
        super()._take(line)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


@pytest.fixture
def reader(path):
    return Counting(path)


def steps(reader) -> list[int]:
    return [event["step"] for event in reader.read()]


def test_only_what_was_added_is_read(path, reader):
    assert steps(reader) == []
    path.write_text(lines(*range(1000)), encoding="utf-8")
    assert len(steps(reader)) == reader.parsed == 1000
    with path.open("a", encoding="utf-8") as file:
        file.write(lines(1000, 1001) + '{"event": "step", "st')
        file.flush()
        assert steps(reader)[-2:] == [1000, 1001]
        file.write('ep": 1002}\n')
    assert steps(reader)[-2:] == [1001, 1002]
    assert reader.parsed == 1003
    assert steps(reader) == list(range(1003))
    assert reader.parsed == 1003


def test_a_whole_last_line_without_its_end_is_read_once(path, reader):
    path.write_text(lines(1, 2).rstrip("\n"), encoding="utf-8")
    assert steps(reader) == [1, 2]
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" + lines(3))
    assert steps(reader) == [1, 2, 3]


@pytest.mark.parametrize("number", [1, 3, 50], ids=["shorter", "as long", "longer"])
@pytest.mark.parametrize("way", ["truncated", "replaced"])
def test_a_file_that_begins_anew_is_read_anew(path, reader, number, way):
    """A run that begins anew empties the file; one that resumes replaces it."""
    path.write_text(lines(7, 8, 9), encoding="utf-8")
    assert steps(reader) == [7, 8, 9]
    if way == "replaced":
        path.rename(path.with_name("old"))
    path.write_text(lines(*range(number)), encoding="utf-8")
    assert steps(reader) == list(range(number))
    path.unlink()
    assert steps(reader) == []


def test_what_is_not_shown_is_not_kept(path, reader):
    path.write_text(lines(1, samples=["a text"] * 100, learning_rate=0.1), encoding="utf-8")
    assert reader.read() == [{"event": "step", "step": 1, "loss": 1.0, "seconds": 0.5}]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"step": 2, "loss": "high"}, "loss ('high') must be a number or null"),
        ({"step": 2, "loss": [1]}, "loss ([1]) must be a number or null"),
        ({"step": 2, "loss": 10**400}, f"loss ({'1' + '0' * 39}...) must be a number or null"),
        ({"step": 2, "seconds": True}, "seconds (True) must be a number or null"),
        ({"step": "two"}, "step ('two') must be a number of steps"),
        ({"step": -1}, "step (-1) must be a number of steps"),
        ({"step": 10**30}, "step (1000000000000000000000000000000) must be a number of steps"),
        ({"event": "validation", "step": 2, "scores": 3}, "scores (3) must be an object"),
        ({"event": "validation", "step": 2, "scores": {"bleu": "x"}}, "bleu ('x') must be a number or null"),
    ],
)
def test_a_malformed_file_is_a_message(path, reader, event, message):
    path.write_text(lines(1) + json.dumps({"event": "step", **event}) + "\n" + lines(3), encoding="utf-8")
    expected = f"metrics.jsonl, line 2: {message}; correct the line"
    for _ in range(2):
        with pytest.raises(RequestError) as error:
            reader.read()
        assert str(error.value) == expected
    path.write_text(lines(1, 2, 3), encoding="utf-8")
    assert steps(reader) == [1, 2, 3]


@pytest.mark.parametrize("content", [b"\0\xff\n[1]\n" + b"[" * 100_000 + b"\n3\n{}\n", b"", b"\n\n"])
def test_torn_lines_are_left_out(path, reader, content):
    path.write_bytes(content + lines(5).encode())
    assert steps(reader) == [5]


def test_the_page_gets_the_message(client, models, tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    (run / "metrics.jsonl").write_text(lines(1, loss="high"), encoding="utf-8")
    location = type(models["small"].location)(run, run)
    monkeypatch.setattr(type(models["small"]), "training_curves", lambda _: training_curves(location))
    found = client.get(API + "progress/small")
    assert found.status_code == 400
    assert found.json() == {
        "error": "metrics.jsonl, line 1: loss ('high') must be a number or null; correct the line"
    }
    assert metrics_of(run) is metrics_of(run)
