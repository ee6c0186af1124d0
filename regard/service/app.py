"""The application: who may ask, what every answer carries, and mistakes as one sentence.

It answers on this machine alone. A name that leads here from elsewhere (Host) and a page of another host
(Origin) are refused, so that no page on the web can reach a model through the reader's own browser.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import RegardError, UsageError
from regard.service.http_errors import NotThere, Refused, TooLarge

log = logging.getLogger("regard.service")

LARGEST_BODY = 1_000_000
LOCAL = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app(start: Callable[[], None] = lambda: None, stop: Callable[[], None] = lambda: None) -> FastAPI:
    """An application without routes; `start` and `stop` are called when it begins and ends to serve."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        start()
        yield
        stop()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_middleware(Guard)
    app.add_exception_handler(RegardError, _refuse)
    app.add_exception_handler(HTTPException, _refuse_route)
    app.add_exception_handler(RequestValidationError, _refuse_address)
    return app


class Guard:
    """Lets in who may ask, sees to it that every answer carries the headers, and hides what broke."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            check_caller(Headers(scope=scope))
            await self.app(scope, receive, send_guarded)
        except ClientDisconnect:
            pass  # nobody is left to be answered
        except Refused as refusal:
            await answer(refusal.as_dict(), refusal.status)(scope, receive, send_guarded)
        except Exception:
            log.exception("an answer failed")
            if begun:
                raise
            said = {"error": "something broke while this was worked out; the terminal says more"}
            await answer(said, 500)(scope, receive, send_guarded)


def check_caller(headers: Headers) -> None:
    """Refuse a foreign name, a foreign page, and more bytes than are read."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if not LOCAL.fullmatch(host):
        raise Refused("this page is served on this machine alone; open it as 127.0.0.1 or localhost")
    if origin is not None and not LOCAL.fullmatch(origin.removeprefix("http://")):
        raise Refused("a page of another host may not ask here; open the studio's own page")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > LARGEST_BODY:
        raise _too_large()


async def read_body(request: Request) -> bytes:
    """All bytes of a request, counted as they come."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            raise _too_large()
    return bytes(body)


def answer(data: Any, status: int = 200) -> Response:
    """Data as JSON; what is no number is null."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def sheet(message: bytes) -> Response:
    """A sheet of numbers."""
    return Response(message, media_type="application/octet-stream")


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _too_large() -> TooLarge:
    return TooLarge(f"a request may have {LARGEST_BODY:,} bytes; send less")


def _refuse(request: Request, error: Exception) -> Response:
    """A mistake in its own words where it is the caller's; others may speak of files, and go to the log."""
    if isinstance(error, Refused):
        return answer(error.as_dict(), error.status)
    if isinstance(error, UsageError):
        return answer({"error": str(error)}, 400)
    log.warning("%s", error)
    return answer({"error": "the model cannot answer this; the terminal says why"}, 503)


def _refuse_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "there is nothing here; begin at /studio", 405: "this is asked in another way"}
    return answer({"error": said.get(error.status_code, "this cannot be answered")}, error.status_code)


def _refuse_address(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name, said = first["loc"][-1], str(first["msg"])
    return answer({"error": f"{name}: {said[:1].lower()}{said[1:]}"}, 422)


def not_there() -> NotThere:
    """The refusal of a file that is not here."""
    return NotThere("there is nothing here; begin at /studio")
