"""`regard studio` as a process of its own, on a free port, until the block ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 120  # seconds; torch alone takes several on a busy machine


@contextmanager
def serve(*models: Path | str, cache: Path | None = None, log: Path | None = None) -> Iterator[str]:
    """The address of a studio with these models; `cache` is where built-in ones are kept."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "regard",
        "studio",
        *map(str, models),
        "--port",
        str(port),
        "--no-browser",
    ]
    environment = dict(os.environ) if cache is None else {**os.environ, "REGARD_CACHE": str(cache)}
    log = log or Path(os.devnull)
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(f"{address}/studio", process)
            yield address
        finally:
            process.terminate()
            process.wait(30)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
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


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
