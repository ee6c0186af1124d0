"""The tab Lessons: the list, a page, and one run at a time in a process of its own."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest
from fastapi.testclient import TestClient

from regard.errors import UsageError
from regard.lessons.results import NAMES
from regard.lessons.studio import StudioLessons
from regard.service.lesson_runs import LessonRuns
from regard.service.models import Models
from regard.service.studio import make_studio

API = "/studio/api/"
RUN = f"{API}lesson-run"
# Stand for the process that runs a lesson.
WAITS = """
import json, sys
print("something else", flush=True)
print(json.dumps({"progress": "training, seed 1"}), flush=True)
sys.stdin.read()
"""
FAILS = """
import json
print(json.dumps({"error": "scikit-learn is missing; pip install regard[lessons]"}), flush=True)
raise SystemExit(1)
"""
BREAKS = "raise SystemExit(1)"
FINISHES = """
import json, sys
print(json.dumps({"run": {"verdict": "holds"}}), flush=True)
"""


class Fake:
    """Two lessons; `script` is what runs them."""

    script = WAITS

    def summaries(self):
        return [{"name": "order", "claim": "Without positions ...", "words": "holds", "holds": True}]

    def stored(self, name):
        if name not in ("order", "new"):
            raise UsageError(f"unknown lesson {name!r}; did you mean order")
        return {"verdict": "stored"} if name == "order" else None

    def page(self, run):
        return {"shown": run["verdict"]}

    def html(self, run):
        return f"<p>{run['verdict']}</p>"

    def command(self, name):
        return (sys.executable, "-c", self.script)


@pytest.fixture
def lessons():
    return Fake()


@pytest.fixture
def client(lessons):
    app = make_studio(Models([]), lessons=lessons)
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def begin(client, name="order"):
    return client.post(f"{RUN}?lesson={name}")


def until_it_is(client, state, seconds=60.0):
    """Wait for a state of the run, and give the progress."""
    end = time.monotonic() + seconds
    while (run := client.get(RUN).json())["state"] != state:
        assert time.monotonic() < end, run
        time.sleep(0.02)
    return run


def test_the_list_and_the_pages(client, lessons):
    assert client.get(f"{API}lessons").json() == {"lessons": lessons.summaries()}
    assert client.get(f"{API}lessons/order").json() == {"stored": {"shown": "stored"}, "latest": None}
    assert client.get(f"{API}lessons/new").json() == {"stored": None, "latest": None}
    saved = client.get(f"{API}lessons/order/save.html")
    assert saved.text == "<p>stored</p>"
    assert saved.headers["Content-Disposition"] == 'attachment; filename="order.html"'


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "lessons/oder"), ("GET", "lessons/oder/save.html"), ("POST", "lesson-run?lesson=oder")],
)
def test_a_bad_name_is_one_line_with_a_near_name(client, method, path):
    found = client.request(method, API + path)
    assert (found.status_code, found.json()) == (404, {"error": "unknown lesson 'oder'; did you mean order"})
    assert client.get(RUN).json()["state"] == "idle"


def test_other_wrong_requests(client):
    assert client.get(f"{API}lessons/{'x' * 81}").status_code == 422
    assert client.post(RUN).json() == {"error": "lesson is missing; add it to the address"}
    assert client.get(f"{API}lessons/new/save.html").json() == {
        "error": "new has no stored result; run it first"
    }


def test_a_run_shows_its_progress_and_a_second_one_is_refused(client):
    assert client.get(RUN).json() == {
        "state": "idle", "lesson": None, "line": None, "seconds": 0.0, "error": None,
    }  # fmt: skip
    begun = begin(client).json()
    assert (begun["state"], begun["lesson"]) == ("running", "order")
    while client.get(RUN).json()["line"] != "training, seed 1":
        time.sleep(0.02)
    again = begin(client, "new")
    message = "order is running, and lessons run one at a time; wait for it or cancel it"
    assert (again.status_code, again.json()) == (409, {"error": message})
    run = client.get(RUN).json()
    assert (run["lesson"], run["state"]) == ("order", "running")
    assert run["seconds"] > 0


def test_a_run_is_cancelled_and_another_one_begins(client, lessons):
    assert client.post(f"{RUN}/cancel").json()["state"] == "idle"
    begin(client)
    cancelled = client.post(f"{RUN}/cancel").json()
    assert (cancelled["state"], cancelled["error"]) == ("cancelled", None)
    lessons.script = FINISHES
    begin(client, "new")
    assert until_it_is(client, "finished")["lesson"] == "new"


def test_a_finished_run_is_shown_beside_the_stored_one(client, lessons):
    lessons.script = FINISHES
    begin(client)
    run = until_it_is(client, "finished")
    assert run["error"] is None
    assert run["seconds"] == client.get(RUN).json()["seconds"]  # the clock stands still
    assert client.get(f"{API}lessons/order").json() == {
        "stored": {"shown": "stored"},
        "latest": {"shown": "holds"},
    }
    assert client.get(f"{API}lessons/order/save.html").text == "<p>holds</p>"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (FAILS, "scikit-learn is missing; pip install regard[lessons]"),
        (BREAKS, "order could not be run; see the terminal"),
    ],
)
def test_a_failed_run_says_why_in_one_line(client, lessons, script, message):
    lessons.script = script
    begin(client)
    assert until_it_is(client, "failed")["error"] == message
    assert client.get(f"{API}lessons/order").json()["latest"] is None
    lessons.script = FINISHES
    begin(client)
    assert until_it_is(client, "finished")["error"] is None


def test_the_end_of_the_server_ends_the_run(lessons):
    app = make_studio(Models([]), lessons=lessons)
    with TestClient(app, base_url="http://localhost") as client:
        begin(client)
        process = app.state.lesson_runs._job._process
        assert process.poll() is None
    assert process.poll() is not None


@pytest.fixture(scope="module")
def real():
    """The lessons of the package, as `regard studio` passes them."""
    app = make_studio(Models([]), lessons=StudioLessons())
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def test_the_lessons_of_the_package(real):
    listed = real.get(f"{API}lessons").json()["lessons"]
    assert [lesson["name"] for lesson in listed] == list(NAMES)
    page = real.get(f"{API}lessons/six-steps").json()["stored"]
    assert page["verdict"]["words"] == listed[0]["words"]
    assert page["figure"].startswith("<svg")
    assert {"question", "variable", "measurement", "rule", "control_words"} == set(page["text"])
    table = page["tables"][0]
    assert len(table["rows"]) == len(table["written"])
    assert "regard lesson six-steps --run" in real.get(f"{API}lessons/six-steps/save.html").text
    assert (
        real.get(f"{API}lessons/six-step")
        .json()["error"]
        .startswith("unknown lesson 'six-step'; did you mean six-steps")
    )


def test_a_lesson_of_the_package_is_run_with_a_low_priority(real):
    begin(real, "six-steps")
    run = until_it_is(real, "finished", 300)
    assert run["error"] is None
    pages = real.get(f"{API}lessons/six-steps").json()
    assert pages["latest"]["verdict"] == pages["stored"]["verdict"]
    assert pages["latest"]["is_controlled"]


def test_a_background_process_is_nice(lessons):
    script = (
        "import json, os; from regard.background import follow_parent; follow_parent(); "
        "print(json.dumps({'run': {'verdict': os.nice(0)}}))"
    )
    lessons.script = script
    runs = LessonRuns(lessons)
    runs.begin("order")
    while runs.progress()["state"] == "running":
        time.sleep(0.02)
    assert json.loads(json.dumps(runs.pages("order")))["latest"]["shown"] == min(19, os.nice(0) + 10)
