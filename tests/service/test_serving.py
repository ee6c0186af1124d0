"""The listening socket and the connections that are accepted from it."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from fastapi import Request

from regard.service import app as application
from regard.service import serving
from regard.service.app import json_response, make_app, read_body
from regard.service.serving import open_port
from tests.studio.serving import serve_here

POST = b"POST /count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
GET = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n"


def test_an_accepted_connection_sends_at_once():
    """Without TCP_NODELAY a response of two packets waits for an acknowledgement, 40 ms later."""
    options = []

    async def accept(reader, writer):
        accepted = writer.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def connect(opened):
        async with await asyncio.start_server(accept, sock=opened):
            reader, writer = await asyncio.open_connection(*opened.getsockname())
            await reader.read()
            writer.close()
            await writer.wait_closed()

    with ThreadPoolExecutor(1) as pool:  # the tests of the page leave a running loop in this thread
        pool.submit(lambda: asyncio.run(connect(open_port(0)))).result()
    assert options == [1]


@pytest.fixture(scope="module")
def place():
    """The place of a server that counts the bytes of bodies."""
    app = make_app()

    @app.post("/count")
    async def count(request: Request):
        return json_response({"bytes": len(await read_body(request))})

    with serve_here(app) as home:
        address = urlsplit(home)
        yield address.hostname, address.port


def answer(place, *parts: bytes) -> bytes:
    """What comes back until the server closes the connection."""
    with socket.create_connection(place, timeout=20) as connection:
        for part in parts:
            connection.sendall(part)
        found = b""
        while more := connection.recv(1 << 16):
            found += more
    return found


def test_a_body_that_does_not_come_is_not_waited_for(place, monkeypatch):
    monkeypatch.setattr(application, "BODY_SECONDS", 0.2)
    found = answer(place, POST, b"12345")
    assert found.startswith(b"HTTP/1.1 408 ")
    assert found.endswith(b'{"error":"the body took longer than 0.2 seconds; send it again"}')


@pytest.mark.parametrize("expects", [b"", b"Expect: 100-continue\r\n"])
def test_a_body_that_nobody_reads_does_not_keep_the_connection(place, monkeypatch, expects):
    monkeypatch.setattr(application, "REST_SECONDS", 0.2)
    found = answer(place, GET + expects + b"Content-Length: 10\r\n\r\n", b"12345")
    assert found.startswith(b"HTTP/1.1 404 ")
    assert b"connection: close" in found


@pytest.mark.parametrize("begun", [b"", b"GET /", GET])
def test_a_head_that_does_not_end_is_not_waited_for(place, monkeypatch, begun):
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.2)
    assert answer(place, begun) == b""


def test_nor_is_a_second_one(place, monkeypatch):
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.2)
    with socket.create_connection(place, timeout=20) as connection:
        connection.sendall(POST + b"1234567890")
        found = b""
        while not found.endswith(b'{"bytes":10}'):
            found += connection.recv(1 << 16)
        connection.sendall(GET)
        assert connection.recv(1 << 16) == b""


def test_connections_are_limited(place, monkeypatch):
    """One too many is closed, and the next one after some have ended is answered."""
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 2)
    with socket.create_connection(place), socket.create_connection(place):
        assert answer_or_nothing(place) == b""
    until = time.monotonic() + 20
    while not (found := answer_or_nothing(place)):
        assert time.monotonic() < until
    assert found.startswith(b"HTTP/1.1 404 ")


def answer_or_nothing(place) -> bytes:
    try:
        return answer(place, GET + b"Connection: close\r\n\r\n")
    except ConnectionError:  # closed with the request unread
        return b""


def test_a_slow_answer_is_not_cut_off(place, monkeypatch):
    """The time of a head ends with the head."""
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.2)
    with socket.create_connection(place, timeout=20) as connection:
        connection.sendall(POST + b"12345")
        time.sleep(0.5)
        connection.sendall(b"67890")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "lines",
    [
        b"".join(b"X-%d: 1\r\n" % number for number in range(100)),
        b"X-Long: " + b"x" * 17_000 + b"\r\n",
    ],
)
def test_headers_are_limited(place, lines):
    found = answer(place, GET + lines + b"\r\n")
    assert found.startswith(b"HTTP/1.1 431 ")
    assert b'{"error":"the address and the headers have ' in found


def test_an_endless_head_is_refused(place):
    try:
        found = answer(place, GET, *[b"X-Long: " + b"x" * 1000 + b"\r\n"] * 1000)
    except ConnectionError:  # closed while it was sent
        return
    assert found.startswith(b"HTTP/1.1 400 ")
