"""`regard studio` as a process of its own, on a port that is free, until the block ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from fastapi import FastAPI

from regard.service.serving import address_of, make_server, open_port

PATIENCE = 120  # seconds; torch alone takes several on a busy machine


@contextmanager
def serve(*models: Path | str, cache: Path | None = None) -> Iterator[str]:
    """The address of a studio with these models; `cache` is where built-in ones are kept."""
    options = ["--port", "0", "--no-browser", "--no-token"]
    command = [sys.executable, "-m", "regard", "studio", *map(str, models), *options]
    environment = dict(os.environ) if cache is None else {**os.environ, "REGARD_CACHE": str(cache)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        wait_for(address, process)
        yield address.removesuffix("/studio")
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def wait_for(address: str, process: subprocess.Popen[str]) -> None:
    """Return when the page answers; a process that ends before is an error."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"regard studio ended with {process.returncode} before it answered")
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise RuntimeError(f"regard studio did not answer within {PATIENCE} seconds")


@contextmanager
def serve_here(app: FastAPI) -> Iterator[str]:
    """The address of an application that a thread of this process serves."""
    opened = open_port(0)
    server = make_server(app)
    thread = Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        yield address_of(opened).removesuffix("/studio")
    finally:
        server.should_exit = True
        thread.join(30)
        opened.close()
