"""One JSON line for each request, with its id; the text of requests only if the server was told so."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from collections.abc import MutableMapping
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.service.api.metrics import Metrics

log = logging.getLogger("regard.service.requests")

REQUEST_ID = re.compile(r"[\w.:-]{1,64}")
LOGGED = "regard.log"  # the key of a scope with further fields of its line
UNMATCHED = "unmatched"
# The end of a traceback that uvicorn logs when a second signal ends the process at once.
CANCELLED = "asyncio.exceptions.CancelledError"
# The loggers of the service by level. asyncio warns of each write to a client that has left.
LEVELS = {"regard": logging.INFO, "uvicorn": logging.WARNING, "asyncio": logging.ERROR}


class JsonLines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        values: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            values["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(values, ensure_ascii=False)


def log_as_json() -> None:
    """Write the service's log to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(lambda record: not record.getMessage().rstrip().endswith(CANCELLED))
    for name, level in LEVELS.items():
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


class RequestLog:
    """Middleware: gives each request an id, measures it, and logs it."""

    def __init__(self, app: ASGIApp, metrics: Metrics, with_text: bool = False):
        self.app, self.metrics, self.with_text = app, metrics, with_text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status, body = time.perf_counter(), 0, bytearray()
        request_id = request_id_of(scope)
        scope[LOGGED] = {}

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        async def receive_with_copy() -> Message:
            message = await receive()
            if self.with_text:
                body.extend(message.get("body", b""))
            return message

        try:
            await self.app(scope, receive_with_copy, send_with_id)
        finally:
            seconds = time.perf_counter() - begun
            text = body.decode("utf-8", "replace") if self.with_text else None
            self._record(scope, request_id, status, seconds, text)

    def _record(
        self, scope: MutableMapping[str, Any], request_id: str, status: int, seconds: float, text: str | None
    ) -> None:
        route = route_of(scope)
        self.metrics.requests.labels(route, str(status or "left")).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        if not log.isEnabledFor(logging.INFO):
            return
        fields = {
            "id": request_id, "method": scope["method"], "route": route, "status": status or None,
            "seconds": round(seconds, 6), **scope[LOGGED],
        }  # fmt: skip
        if text is not None:
            fields["body"] = text
        log.info("request", extra={"fields": fields})


def request_id_of(scope: Scope) -> str:
    """The id that the client sent, if it is one, or a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) else f"req-{uuid4().hex}"


def route_of(scope: MutableMapping[str, Any]) -> str:
    """The pattern of the route, never the path itself, which a client chooses."""
    route = scope.get("route")
    path = getattr(route, "path", None) or getattr(scope.get("endpoint"), "path", None)
    return path if isinstance(path, str) else UNMATCHED
