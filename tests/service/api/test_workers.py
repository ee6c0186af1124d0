"""Two worker processes: keys, metrics, a worker that ends, and signals; and the log of a process."""

from __future__ import annotations

import json
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from tests.service.api.conftest import KEY, serving, wait_until

pytestmark = pytest.mark.xdist_group("serve")

LONG = {"model": "lm", "prompt": ["the cat"] * 128, "n": 8, "max_tokens": 50, "min_tokens": 50}
SECONDS = 30  # for what happens at once, on a busy machine


def children(number: int) -> list[int]:
    """The worker processes of a process; multiprocessing has others too."""
    listed = Path(f"/proc/{number}/task/{number}/children").read_text(encoding="utf-8").split()
    return [
        int(child)
        for child in listed
        if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8")
    ]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_two_workers(tmp_path):
    log = tmp_path / "log"
    with serving("lm=demo-language-model", "--workers", "2", "--api-key", KEY, log=log) as server:
        first = children(server.process.pid)
        assert len(first) == 2

        def ask(key: str | None) -> int:
            with server.client(key) as client:  # a connection each, so that both workers get some
                return client.get("/v1/models").status_code

        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(ask, [KEY] * 20)) == {200}
            assert set(pool.map(ask, [None, "x"] * 4)) == {401}
        with server.client() as client:
            page = client.get("/metrics").text
        counted = re.search(r'regard_requests_total\{route="/v1/models",status="200"\} (\d+)', page)
        assert counted is not None
        assert int(counted[1]) == 20

        os.kill(first[0], signal.SIGKILL)
        wait_until(lambda: len(set(children(server.process.pid)) - {first[0]}) == 2)
        server.process.send_signal(signal.SIGTERM)  # the new worker is still starting
        assert server.process.wait(SECONDS) == 0
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert any("is replaced" in line["message"] for line in lines)


def test_the_log_is_json_and_the_second_signal_ends_at_once(tmp_path):
    """A request runs for long; the first signal would wait for it."""
    log = tmp_path / "log"
    with serving("lm=demo-language-model", "--max-rows", "1", "--threads", "1", log=log) as server:
        with server.client(None) as client:
            client.post("/v1/completions", json={"model": "lm", "prompt": "the", "n": 9})
        with ThreadPoolExecutor(1) as pool:

            def ask() -> None:
                with server.client(None) as client, suppress(httpx2.HTTPError):
                    client.post("/v1/completions", json=LONG)

            running = pool.submit(ask)
            with server.client(None) as client:
                wait_until(lambda: 'regard_running_rows{model="lm"} 1.0' in client.get("/metrics").text)
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not is_open(server.address))
            assert server.process.poll() is None
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(SECONDS) == 128 + signal.SIGTERM
            running.result()
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert {"time", "level", "message"} <= set.intersection(*map(set, lines))
    assert {line["level"] for line in lines} == {"info"}


def is_open(address: str) -> bool:
    """Whether a server accepts connections."""
    try:
        httpx2.get(f"{address}/health", timeout=SECONDS)
    except httpx2.ConnectError:
        return False
    return True
