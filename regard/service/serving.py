"""An application served on this machine until somebody ends it."""

from __future__ import annotations

import errno
import socket
import webbrowser
from threading import Thread

import uvicorn
from fastapi import FastAPI

from regard.errors import UsageError

HOST = "127.0.0.1"
PORT = 8765
TRIED = 50  # ports after the usual one
LAST_WORDS = 2  # seconds for answers that are under way at the end


def open_port(port: int | None) -> socket.socket:
    """Listen on a port: the named one and no other, or the usual one and else the next that is free."""
    for number in range(PORT, PORT + TRIED) if port is None else [port]:
        try:
            return _listening(number)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                why = error.strerror or error
                raise UsageError(f"port ({number}): {why}; choose another with --port") from None
    taken = f"ports {PORT} to {PORT + TRIED - 1} are taken" if port is None else f"port ({port}) is taken"
    raise UsageError(f"{taken}; choose another with --port, or end what uses it")


def _listening(port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((HOST, port))
        opened.listen(128)
    except (OSError, OverflowError):
        opened.close()
        raise
    return opened


def address_of(opened: socket.socket) -> str:
    """What a person types to get there."""
    return f"http://{HOST}:{opened.getsockname()[1]}/studio"


def serve(app: FastAPI, opened: socket.socket, browser: bool) -> None:
    """Serve until a signal ends it, and show the page in a browser."""
    settings = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=LAST_WORDS,
        timeout_keep_alive=30,
        ws="none",
    )
    if browser:
        Thread(target=webbrowser.open, args=(address_of(opened),), daemon=True).start()
    uvicorn.Server(settings).run(sockets=[opened])
