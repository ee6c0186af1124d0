"""Training the demo from the page: one process, seen through its metrics, ended with the server."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from fastapi.testclient import TestClient

from regard.demo.story.model_store import DemoFolder
from regard.service import background_job
from regard.service import demo_training as room
from regard.service.demo_training import DemoTraining
from regard.service.models import Entry, Models
from regard.service.studio import make_studio

API = "/studio/api/"
DEMO = f"{API}demo?model=demo"
SMALL = {
    "training": {"steps": 12, "batch_tokens": 512, "threads": 1},
    "checkpoints": {"snapshot_every": 6},
    "model": {"layers": 1, "width": 16, "heads": 2, "feed_forward_width": 16, "context": 32},
    "validation": {"validate_every": 12, "sentences": 2},
}
# Stands for the process that trains: it has done five of ten steps, and ends when its stdin does.
FAKE = """
import json, pathlib, sys
run = pathlib.Path(json.loads(sys.argv[1])["path"]).parent / "work" / "run"
run.mkdir(parents=True)
(run / "recipe.toml").write_text("[training]\\nsteps = 10\\n")
lines = [{"event": "step", "step": n, "loss": float(n), "seconds": 2.0} for n in range(1, 6)]
(run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
print("some other line", flush=True)
print(json.dumps(str(run.parent)), flush=True)
sys.stdin.read()
"""


def until(true, seconds=60.0):
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


@pytest.fixture
def place(tmp_path):
    return DemoFolder("demo", tmp_path / "demo", SMALL, pairs=4000)


@pytest.fixture
def learning(place, monkeypatch):
    """A training whose process only seems to train."""
    monkeypatch.setattr(room, "TRAINER", (sys.executable, "-c", FAKE))
    learning = DemoTraining(place)
    yield learning
    learning.stop()


def test_nothing_has_begun(learning):
    nothing = dict.fromkeys(("loss", "seconds", "left", "error"))
    assert learning.progress(False) == {"state": "untrained", "step": 0, "steps": 0, **nothing}
    assert learning.progress(True)["state"] == "ready"
    learning.stop()


def test_progress_is_that_of_the_metrics(learning):
    learning.begin()
    until(lambda: learning.run is not None)
    told = learning.progress(False)
    assert told.pop("seconds") > 0
    assert told == {
        "state": "learning", "step": 5, "steps": 10, "loss": 3.0, "left": 10.0, "error": None,
    }  # fmt: skip


def test_the_process_ends_by_itself_while_the_server_is_there(place):
    asked = {"name": "demo", "path": str(place.path), "settings": {"training": {"steps": 0}}, "pairs": 4000}
    command = [sys.executable, "-m", "regard.service.demo_trainer", json.dumps(asked)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(60) == 2
    assert said.startswith("error: ")
    assert said.count("\n") == 1


def test_the_end_of_the_server_ends_it(learning):
    learning.begin()
    process = learning._job._process
    learning.stop()
    assert process.poll() is not None
    assert not learning.is_running


def test_what_failed_is_told(learning, monkeypatch):
    monkeypatch.setattr(room, "TRAINER", (sys.executable, "-c", "raise SystemExit(1)"))
    learning.begin()
    until(lambda: not learning.is_running)
    told = learning.progress(False)
    assert (told["state"], told["error"]) == (
        "untrained",
        "the model could not be trained; see the terminal",
    )
    monkeypatch.setattr(room, "TRAINER", (sys.executable, "-c", FAKE))
    learning.begin()
    assert learning.progress(False)["state"] == "learning"


def test_it_is_begun_once(place, monkeypatch):
    monkeypatch.setattr(room, "TRAINER", (sys.executable, "-c", FAKE))
    models = Models([Entry("demo", None, place)])
    with TestClient(make_studio(models), base_url="http://localhost") as client:
        assert client.get(DEMO).json()["state"] == "untrained"
        assert client.post(DEMO).json()["state"] == "learning"
        again = client.post(DEMO)
        assert (again.status_code, again.json()["error"]) == (
            409,
            "demo is already being trained; wait for it",
        )
        assert client.get(API + "models").json()["models"][0]["state"] == "learning"
        until(lambda: models["demo"].training.run is not None)
        progress = client.get(API + "progress/demo").json()
        assert (progress["live"], progress["total"], len(progress["steps"])) == (True, 10, 5)
        asked = client.post(API + "trace", json={"model": "demo", "text": "a"})
        assert asked.status_code == 503
        process = models["demo"].training._job._process
    assert process.poll() is not None  # the end of the application has ended it


@pytest.mark.parametrize(("method", "path"), [("GET", "demo"), ("POST", "demo"), ("POST", "demo/cancel")])
def test_a_request_names_a_demo_model(client, method, path):
    found = client.request(method, API + path)
    assert (found.status_code, found.json()["error"]) == (422, "model is missing; add it to the address")
    found = client.request(method, f"{API}{path}?model=small")
    assert found.status_code == 404
    assert found.json()["error"].startswith("small is not a demo model and is not trained here")


def test_each_demo_model_has_its_own_training(place, tmp_path, monkeypatch):
    """With only the first one trained, requests for the second one are answered for the second one."""
    monkeypatch.setattr(room, "TRAINER", (sys.executable, "-c", FAKE))
    reverse = DemoFolder("demo-reverse", tmp_path / "other" / "demo-reverse", SMALL, pairs=4000)
    models = Models([Entry("demo", None, place), Entry("demo-reverse", None, reverse)])
    monkeypatch.setattr(Entry, "location", property(lambda entry: tmp_path if entry.name == "demo" else None))
    with TestClient(make_studio(models), base_url="http://localhost") as client:
        other = DEMO + "-reverse"
        assert [client.get(address).json()["state"] for address in (DEMO, other)] == ["ready", "untrained"]
        assert client.post(DEMO).json() == {"error": "demo is already trained; use it"}
        assert client.post(other).json()["state"] == "learning"
        assert [client.get(address).json()["state"] for address in (DEMO, other)] == ["ready", "learning"]


def cancel(client, models):
    process = models["demo"].training._job._process
    found = client.post(f"{API}demo/cancel?model=demo")
    assert (found.status_code, found.json()["state"], found.json()["error"]) == (200, "untrained", None)
    assert process.poll() is not None
    assert client.get(DEMO).json()["error"] is None


def test_a_training_is_cancelled_and_begun_again(place, tmp_path):
    """The process that really trains: it ends, its files are gone, and another training can begin."""
    models = Models([Entry("demo", None, place)])
    with TestClient(make_studio(models), base_url="http://localhost") as client:
        assert client.post(f"{API}demo/cancel?model=demo").json()["state"] == "untrained"
        assert client.post(DEMO).json()["state"] == "learning"
        until(lambda: models["demo"].training.run is not None)
        assert list(tmp_path.iterdir())
        cancel(client, models)
        assert list(tmp_path.iterdir()) == []
        assert client.post(DEMO).json()["state"] == "learning"


def test_a_process_that_does_not_end_is_ended(place, tmp_path, monkeypatch):
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + FAKE
    monkeypatch.setattr(room, "TRAINER", (sys.executable, "-c", stubborn))
    monkeypatch.setattr(background_job, "GRACE", 0.5)
    models = Models([Entry("demo", None, place)])
    with TestClient(make_studio(models), base_url="http://localhost") as client:
        client.post(DEMO)
        until(lambda: models["demo"].training.run is not None)
        cancel(client, models)
        assert list(tmp_path.iterdir()) == []


def test_the_process_ends_with_the_one_that_started_it(place, tmp_path):
    asked = {"name": "demo", "path": str(place.path), "settings": SMALL, "pairs": 4000}
    process = subprocess.Popen(
        [*room.TRAINER, json.dumps(asked)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    work = json.loads(process.stdout.readline())
    process.stdin.close()
    assert process.wait(120) == 143
    process.stdout.close()
    assert work.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_trained_and_used(place):
    models = Models([Entry("demo", None, place)])
    with TestClient(make_studio(models), base_url="http://localhost") as client:
        client.post(DEMO)
        until(lambda: client.get(DEMO).json()["state"] != "learning", 400)
        told = client.get(DEMO).json()
        assert (told["state"], told["error"]) == ("ready", None)
        (card,) = client.get(API + "models").json()["models"]
        assert (card["state"], card["snapshots"], card["known_words"]) == ("ready", [0, 6, 12], True)
        trace = client.post(API + "trace", json={"model": "demo", "text": "The cat.", "snapshot": 6})
        assert trace.status_code == 200
        assert client.post(DEMO).status_code == 409
        assert len(client.get(API + "progress/demo").json()["steps"]) == 12
