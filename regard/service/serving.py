"""Serve an application on this machine until it is interrupted."""

from __future__ import annotations

import asyncio
import errno
import socket
import webbrowser
from threading import Thread

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import UsageError
from regard.service.app import LARGEST_HEAD

HOST = "127.0.0.1"
EVERY_ADDRESS = "0.0.0.0"
PORT = 8765
MOST_PORTS = 50  # ports after the usual one
HEAD_SECONDS = 10.0  # from the connection to the end of the headers
SEND_SECONDS = 30.0  # that a client may leave a response unread
SHUTDOWN_SECONDS = 2  # for running requests


def _most_connections() -> int:
    """Half of the files that this process may open. When none is left, asyncio logs thousands of errors."""
    try:
        import resource
    except ImportError:  # Windows
        return 256
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if files == resource.RLIM_INFINITY else min(4096, max(8, files // 2))


MOST_CONNECTIONS = _most_connections()  # at a time; further ones are closed


def open_port(port: int | None, host: str = HOST) -> socket.socket:
    """Listen on this port, or without one on the first free port from the default on."""
    for number in range(PORT, PORT + MOST_PORTS) if port is None else [port]:
        try:
            return _listening(number, host)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                why = error.strerror or error
                raise UsageError(f"port ({number}): {why}; choose another with --port") from None
    taken = (
        f"ports {PORT} to {PORT + MOST_PORTS - 1} are taken" if port is None else f"port ({port}) is taken"
    )
    raise UsageError(f"{taken}; choose another with --port, or end what uses it")


def _listening(port: int, host: str) -> socket.socket:
    # asyncio sets TCP_NODELAY only on sockets whose protocol is named; without it a response waits 40 ms for
    # the client's acknowledgement.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening_socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening_socket.bind((host, port))
        listening_socket.listen(128)
    except (OSError, OverflowError):
        listening_socket.close()
        raise
    return listening_socket


def address_of(listening_socket: socket.socket, token: str | None = None) -> str:
    """The address of the studio, with the token that opens it."""
    home = f"http://{HOST}:{listening_socket.getsockname()[1]}"
    return f"{home}/studio" if token is None else f"{home}/?token={token}"


def address_at(listening_socket: socket.socket) -> str:
    """The address of the service, as a caller of this machine opens it."""
    host, port = listening_socket.getsockname()[:2]
    return f"http://{HOST if host == EVERY_ADDRESS else in_address(host)}:{port}"


def in_address(host: str) -> str:
    """A host as addresses write it: one of IPv6 has brackets."""
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host


class PatientProtocol(H11Protocol):
    """HTTP over one connection.

    It is closed if there are too many, or if its client sends a head or reads a response too slowly.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _send_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.close()
        else:
            self._time_head()

    def data_received(self, data: bytes) -> None:
        """Read data; a head that has begun must end in time."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._time_head()
        else:
            self._stop_timing()

    def pause_writing(self) -> None:
        """The client does not read; it must go on in time."""
        super().pause_writing()
        if self._send_timer is None:
            self._send_timer = self.loop.call_later(SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._stop_timing_sends()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timing()
        self._stop_timing_sends()
        super().connection_lost(exc)

    def _time_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_timing_sends(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def _stop_timing(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def server_settings(app: FastAPI, shutdown_seconds: int = SHUTDOWN_SECONDS) -> uvicorn.Config:
    """How this application is served."""
    return uvicorn.Config(
        app,
        log_config=None,  # the handlers are those of the command
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=shutdown_seconds,
        timeout_keep_alive=30,
        backlog=MOST_CONNECTIONS // 4,  # asyncio accepts so many before the first of them is counted
        http=PatientProtocol,
        h11_max_incomplete_event_size=4 * LARGEST_HEAD,  # check_size refuses smaller ones in JSON
        ws="none",
    )


def make_server(app: FastAPI) -> uvicorn.Server:
    """A server of this application."""
    return uvicorn.Server(server_settings(app))


def serve(app: FastAPI, listening_socket: socket.socket, page: str | None) -> None:
    """Serve until a signal arrives; open a page in a browser if its address is given."""
    if page is not None:
        Thread(target=webbrowser.open, args=(page,), daemon=True).start()
    make_server(app).run(sockets=[listening_socket])
