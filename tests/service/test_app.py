"""Who may ask, what every answer carries, and what a mistake looks like from outside."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi import Request
from fastapi.testclient import TestClient

from regard.errors import CheckpointError, SettingError
from regard.service.app import HEADERS, LARGEST_BODY, json_response, make_app, read_body
from regard.service.http_errors import Busy, Gone

LOCAL = "http://127.0.0.1:8765"


@pytest.fixture
def app():
    """An application with a route for each way to fail."""
    app = make_app()

    @app.get("/fine")
    def fine():
        return json_response({"fine": True})

    @app.get("/fails/{how}")
    def fails(how: str):
        raise {
            "setting": SettingError("heads (7) must divide width (512); try 8"),
            "file": CheckpointError("/home/someone/secret/model.safetensors is damaged"),
            "bug": RuntimeError("Traceback of /home/someone/secret"),
            "busy": Busy("it runs"),
            "gone": Gone("let go"),
        }[how]

    @app.get("/number/{number}")
    def number(number: int):
        return json_response({"number": number})

    @app.post("/count")
    async def count(request: Request):
        return json_response({"bytes": len(await read_body(request))})

    return app


@pytest.fixture
def client(app):
    return TestClient(app, base_url=LOCAL)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8765", "localhost:1", "LOCALHOST", "[::1]", "[::1]:8765"]
)
def test_this_machine_may_ask(client, host):
    assert client.get("/fine", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example:8765",
        "0.0.0.0", "127.0.0.2", "localhost:8765@evil.example", "localhost:", "localhost:123456", "", "::1",
    ],
)  # fmt: skip
def test_a_foreign_name_is_refused(client, host):
    found = client.get("/fine", headers={"Host": host})
    assert found.status_code == 400
    assert "127.0.0.1 or localhost" in found.json()["error"]


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8765", "http://localhost:8765", "http://[::1]:8765"])
def test_the_own_page_may_ask(client, origin):
    assert client.get("/fine", headers={"Origin": origin}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://evil.example", "null", "http://127.0.0.1.evil.example", ""]
)
def test_a_foreign_page_is_refused(client, origin):
    assert client.get("/fine", headers={"Origin": origin}).status_code == 400


@pytest.mark.parametrize(
    "path", ["/fine", "/nothing", "/fails/setting", "/fails/file", "/fails/bug", "/number/x", "/count"]
)
def test_every_answer_carries_the_headers(client, path, caplog):
    caplog.set_level(logging.CRITICAL)
    for headers in ({}, {"Host": "evil.example"}):
        found = client.get(path, headers=headers)
        assert {name: found.headers.get(name) for name in HEADERS} == HEADERS
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/fails/setting", 400, "heads (7) must divide width (512); try 8"),
        ("/fails/file", 503, "the model cannot process this request; see the terminal"),
        ("/fails/bug", 500, "an internal error occurred; see the terminal"),
        ("/fails/busy", 409, "it runs"),
        ("/nothing", 404, "not found; start at /studio"),
        ("/count", 405, "method not allowed"),
    ],
)
def test_a_mistake_is_one_sentence(client, path, status, said, caplog):
    found = client.get(path)
    assert (found.status_code, found.json()) == (status, {"error": said})


def test_what_broke_is_in_the_log(client, caplog):
    client.get("/fails/bug")
    client.get("/fails/file")
    assert "Traceback of /home" in caplog.text
    assert "model.safetensors is damaged" in caplog.text


def test_a_trace_that_is_gone_says_so(client):
    assert client.get("/fails/gone").json() == {"error": "let go", "gone": True}


def test_a_number_that_is_none(client):
    found = client.get("/number/NaN")
    assert found.status_code == 422
    assert found.json()["error"].startswith("number: input should be a valid integer")


def test_a_body_up_to_the_limit_is_read(client):
    assert client.post("/count", content=b"x" * LARGEST_BODY).json() == {"bytes": LARGEST_BODY}


def test_a_larger_body_is_refused_before_it_is_read(client):
    found = client.post("/count", content=b"x" * (LARGEST_BODY + 1))
    assert found.status_code == 413
    assert found.json() == {"error": "a request may have at most 1,000,000 bytes; send less"}


@pytest.mark.parametrize(
    ("path", "headers", "message"),
    [
        ("/fine", {f"X-{number}": "1" for number in range(100)}, "in 105 headers, and at most 16,384 in 100"),
        ("/fine", {"X-Long": "x" * 17_000}, "bytes in 6 headers, and at most 16,384 in 100"),
        ("/fine?" + "x" * 17_000, {}, "and at most 16,384 in 100"),
    ],
)
def test_headers_and_addresses_are_limited(client, path, headers, message):
    found = client.get(path, headers=headers)
    assert found.status_code == 431
    assert message in found.json()["error"]
    assert client.get("/fine", headers={f"X-{number}": "1" for number in range(90)}).status_code == 200


def test_a_body_that_does_not_say_how_long_it_is_is_counted(client):
    def parts():
        for _ in range(LARGEST_BODY // 1000 + 1):
            yield b"x" * 1000

    found = client.post("/count", content=parts())
    assert "content-length" not in found.request.headers
    assert found.status_code == 413
    assert client.get("/fine").status_code == 200


def test_what_is_no_number_is_null():
    told = json_response({"a": [float("nan"), 1.5, {"b": float("-inf")}], "c": (float("inf"),)})
    assert told.body == b'{"a":[null,1.5,{"b":null}],"c":[null]}'


def test_a_request_that_the_end_of_the_server_cancels_has_a_response(app):
    begun, sent = asyncio.Event(), []

    @app.get("/slow")
    async def slow():
        begun.set()
        await asyncio.sleep(60)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    async def end_early():
        scope = {
            "type": "http", "method": "GET", "path": "/slow", "raw_path": b"/slow", "query_string": b"",
            "root_path": "", "scheme": "http", "http_version": "1.1", "headers": [(b"host", b"127.0.0.1")],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8765),
        }  # fmt: skip
        request = asyncio.create_task(app(scope, receive, send))
        await begun.wait()
        request.cancel()
        await request

    with ThreadPoolExecutor(1) as pool:  # the tests of the page leave a running loop in this thread
        pool.submit(lambda: asyncio.run(end_early())).result(60)
    assert sent[0]["status"] == 503
    assert b"the server ends" in sent[1]["body"]


def test_what_begins_and_ends_is_told():
    told: list[str] = []
    with TestClient(make_app(lambda: told.append("start"), lambda: told.append("stop")), base_url=LOCAL):
        assert told == ["start"]
    assert told == ["start", "stop"]
