"""Serve the API in one process or several, until a signal arrives.

SIGTERM finishes what runs and waits, refuses what comes, and ends the process with exit code 0.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.process import BaseProcess
from threading import Thread
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from regard.demo.story.model_store import COMMANDS
from regard.engine.choice import chosen_engine, cores, threads
from regard.errors import UsageError
from regard.service.api.access import ServiceAccess, is_loopback
from regard.service.api.application import ServiceSettings, make_service
from regard.service.api.metrics import MULTIPROCESS
from regard.service.api.request_log import log_as_json
from regard.service.models import LoadOptions, Models, open_models
from regard.service.serving import server_settings

log = logging.getLogger("regard.service")

RESTART_SECONDS = 1.0  # between the end of a worker and its replacement


@dataclass(frozen=True)
class ServePlan:
    """What a process serves, and how."""

    models: Sequence[str]
    settings: ServiceSettings
    options: LoadOptions = field(default_factory=LoadOptions)
    workers: int = 1  # processes

    def check(self) -> None:
        """Raise if the models or the engine cannot be used."""
        if self.settings.has_studio and self.workers > 1:
            raise UsageError("the studio runs in one process; leave out --studio or --workers")
        chosen_engine(self.options.engine)
        for name, entry in self.open().entries.items():
            if entry.location is None:
                raise UsageError(f"{name} is not trained yet; run {COMMANDS[name]}")

    def open(self) -> Models:
        """The models; none of them is loaded yet."""
        options = self.options
        if options.threads is None and self.workers > 1:
            options = replace(options, threads=max(1, min(threads(), cores() // self.workers)))
        return open_models(self.models, options)


class DrainingServer(uvicorn.Server):
    """A server that finishes its requests at SIGTERM and then ends without an error."""

    def __init__(self, app: FastAPI, seconds: float):
        super().__init__(server_settings(app, int(seconds) + 5))
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to shut down; a second signal ends at once."""
        self._app.state.service.is_draining = True
        if sig == signal.SIGTERM and not self.should_exit:
            self.should_exit = True
        else:
            self.force_exit = self.should_exit
            super().handle_exit(sig, frame)


def begin_log(access: ServiceAccess, host: str) -> None:
    """Log as JSON lines; warn of a server that everybody may use."""
    log_as_json()
    if not access.keys and not is_loopback(host):
        log.warning("no key is set, so everyone who reaches %s can use the models; set --api-key", host)


def serve_here(
    plan: ServePlan, listening_socket: socket.socket, make: Callable[[ServePlan], FastAPI]
) -> None:
    """Serve in this process."""
    log_as_json()
    app = make(plan)
    DrainingServer(app, plan.settings.limits.seconds).run(sockets=[listening_socket])


def make_planned(plan: ServePlan) -> FastAPI:
    """The application of a plan, without the studio's lessons."""
    return make_service(plan.open(), plan.settings)


def serve_in_workers(plan: ServePlan, listening_socket: socket.socket) -> None:
    """Serve in several processes that share a socket; a process that ends is replaced."""
    with tempfile.TemporaryDirectory(prefix="regard-metrics-") as folder:
        os.environ[MULTIPROCESS] = folder
        Workers(plan, listening_socket).run()


class Workers:
    """The worker processes, and the process that watches over them."""

    def __init__(self, plan: ServePlan, listening_socket: socket.socket):
        self._plan, self._socket = plan, listening_socket
        self._context = multiprocessing.get_context("spawn")
        self._signals = 0  # that have arrived
        self._processes = [self._begin() for _ in range(plan.workers)]

    def run(self) -> None:
        """Watch over the workers until a signal arrives."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._count_signal)
        while not self._signals:
            time.sleep(0.2)
            for index, process in enumerate(self._processes):
                if not process.is_alive():
                    self._replace(index)
        self._end()

    def _replace(self, index: int) -> None:
        ended = self._processes[index]
        log.error("worker %s ended with %s; it is replaced", ended.pid, ended.exitcode)
        if ended.pid is not None:
            from prometheus_client.multiprocess import mark_process_dead

            mark_process_dead(ended.pid)  # type: ignore[no-untyped-call]
        time.sleep(RESTART_SECONDS)
        if not self._signals:
            self._processes[index] = self._begin()

    def _begin(self) -> BaseProcess:
        process = self._context.Process(target=_be_worker, args=(self._plan, self._socket))
        process.start()
        return process

    def _count_signal(self, *_: Any) -> None:
        self._signals += 1

    def _end(self) -> None:
        """Send every worker as many signals as have arrived, until all have ended."""
        self._socket.close()
        sent = 0
        while running := [process for process in self._processes if process.is_alive()]:
            if sent < self._signals:
                sent += 1
                for process in running:
                    process.terminate()
            running[0].join(0.1)


def _be_worker(plan: ServePlan, listening_socket: socket.socket) -> None:
    """A worker process; it ends if the process that started it has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which sends SIGTERM
    Thread(target=_follow_parent, daemon=True).start()
    serve_here(plan, listening_socket, make_planned)


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
