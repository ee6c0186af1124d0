"""Requests that wait: cached answers pass them, clients that leave cost nothing, a tab waits once."""

from __future__ import annotations

import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from urllib.parse import urlsplit

import pytest

from regard.service import handlers
from regard.service.models import Models
from regard.service.studio import make_studio
from tests.studio.serving import serve_here

API = "/studio/api/"
READY, SLOW = "The animal.", "The street."
PATIENCE = 60  # seconds; a request that waits for the held one would take this long


class Server:
    """A studio on a port of its own, in which the forward pass of one sentence can be held."""

    def __init__(self, home: str, app):
        self.home, self.queue = home, app.state.studio.queue
        self.gate, self.entered = Event(), Event()
        self.inspected: list[str] = []

    def ask(self, method: str, path: str, body: dict | None = None, **headers: str):
        """The status, the headers and the JSON or bytes of one response."""
        connection = http.client.HTTPConnection(urlsplit(self.home).netloc, timeout=PATIENCE)
        connection.request(method, path, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        is_json = "json" in (response.getheader("Content-Type") or "")
        return response.status, response.headers, json.loads(content) if is_json else content

    def trace(self, text: str, **headers: str):
        """The response to a request for a trace."""
        return self.ask("POST", f"{API}trace", {"model": "small", "text": text}, **headers)

    def abandon(self, text: str) -> None:
        """Ask for a trace and close the connection at once."""
        place, body = urlsplit(self.home), json.dumps({"model": "small", "text": text})
        head = f"POST {API}trace HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall((head + body).encode())

    def until_waiting(self, number: int) -> None:
        """Wait until that many requests are in the queue."""
        end = time.monotonic() + PATIENCE
        while self.queue._waiting != number:
            assert time.monotonic() < end, f"{self.queue._waiting} requests wait, not {number}"
            time.sleep(0.01)


@pytest.fixture
def server(models, monkeypatch):
    """A server with a cached trace."""
    monkeypatch.setattr(Models, "warm_up", lambda *_: None)
    app, real = make_studio(models), handlers.inspect_request
    with serve_here(app) as home:
        server = Server(home, app)

        def inspect(subject, request, reading):
            server.inspected.append(request.text)
            if request.text == SLOW:
                server.entered.set()
                assert server.gate.wait(PATIENCE)
            return real(subject, request, reading)

        monkeypatch.setattr(handlers, "inspect_request", inspect)
        assert server.trace(READY)[0] == 200
        yield server
        server.gate.set()


@pytest.fixture
def held(server):
    """The same while the forward pass of another sentence is held."""
    with ThreadPoolExecutor(8) as pool:
        server.pool = pool
        slow = pool.submit(server.trace, SLOW)
        assert server.entered.wait(PATIENCE)
        yield server
        server.gate.set()
        assert slow.result(PATIENCE)[0] == 200


def test_cached_answers_do_not_wait_for_a_forward_pass(held):
    status, _, trace = held.trace(READY)
    assert status == 200
    cached = f"{API}trace/{trace['trace']}/"
    paths = ("overview", "attention/encoder/0", "vectors/source", "steps/encoder/0/0/0", "next/0", "save.csv")
    for path in (*(cached + path for path in paths), "/studio", "/studio/view.js", f"{API}models"):
        assert held.ask("GET", path)[0] == 200, path
    assert not held.gate.is_set()


def test_a_request_that_is_too_long_is_refused_before_it_waits(held):
    body = {"model": "small", "text": READY, "target_ids": [5] * 65_536}
    status, _, told = held.ask("POST", f"{API}trace", body)
    assert (status, told["error"]) == (
        400,
        "the output has 65,537 tokens, and the context of this model is 40; shorten it",
    )
    body = {"model": "complete", "text": "the", "ids": [5] * 65_536}
    status, _, told = held.ask("POST", f"{API}next", body)
    assert (status, told["error"].split(",")[0]) == (400, "the text has 65")


def test_nothing_is_computed_for_clients_that_have_left(held):
    for number in range(300):
        held.abandon(f"The animal was tired {number}.")
    held.until_waiting(0)
    assert held.ask("GET", "/studio")[0] == 200
    assert held.trace(READY)[0] == 200
    held.gate.set()
    assert held.trace("it was wide.")[0] == 200
    assert held.inspected == [READY, SLOW, "it was wide."]


def test_a_newer_request_of_a_panel_replaces_the_one_that_waits(held):
    tab = {"X-Regard-Tab": "1", "X-Regard-Panel": "inspect"}
    first = held.pool.submit(held.trace, "The", **tab)
    held.until_waiting(1)
    others = [
        held.pool.submit(held.trace, "it", **{**tab, "X-Regard-Tab": "2"}),
        held.pool.submit(held.trace, "was", **{**tab, "X-Regard-Panel": "compare"}),
        held.pool.submit(held.trace, "too"),
    ]
    held.until_waiting(4)
    second = held.pool.submit(held.trace, "The animal was", **tab)
    status, _, told = first.result(PATIENCE)
    assert (status, told["error"]) == (409, "a newer request of this tab replaced this one; use its answer")
    held.until_waiting(4)
    held.gate.set()
    assert [each.result(PATIENCE)[0] for each in (second, *others)] == [200] * 4
    assert "The" not in held.inspected


def test_a_cached_answer_replaces_a_waiting_request_too(held):
    tab = {"X-Regard-Tab": "1", "X-Regard-Panel": "inspect"}
    first = held.pool.submit(held.trace, "The", **tab)
    held.until_waiting(1)
    assert held.trace(READY, **tab)[0] == 200
    assert first.result(PATIENCE)[0] == 409


def test_a_full_queue_says_when_to_come_again(held):
    held.queue._most = 2
    waiting = [held.pool.submit(held.trace, text) for text in ("The", "it")]
    held.until_waiting(2)
    status, headers, told = held.trace("too")
    assert (status, headers["Retry-After"]) == (503, "1")
    assert told["error"] == "2 requests are waiting already; try again in a second"
    assert held.trace(READY)[0] == 200
    held.gate.set()
    assert [each.result(PATIENCE)[0] for each in waiting] == [200] * 2
    assert held.trace("too")[0] == 200


def test_other_models_do_not_wait(held):
    assert held.ask("POST", f"{API}fill", {"model": "fill", "text": "the [MASK] cat."})[0] == 200
    assert held.queue._waiting == 0
