"""The application: checks of the caller, limits, response headers, and errors as one sentence."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import RegardError, UsageError
from regard.service.access import Token, check_caller, check_token
from regard.service.http_errors import HeadTooLarge, RequestError, TooLarge, TooSlow

log = logging.getLogger("regard.service")

LARGEST_BODY = 1_000_000
BODY_SECONDS = 20.0
MOST_HEADERS, LARGEST_HEAD = 100, 1 << 14  # bytes of the address and all headers
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


def make_app(
    start: Callable[[], None] = lambda: None,
    stop: Callable[[], None] = lambda: None,
    token: Token | None = None,
) -> FastAPI:
    """An application without routes; `start` and `stop` are called at startup and shutdown.

    With a token, only requests that have it are answered.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        start()
        yield
        stop()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_middleware(Guard, token=token)
    app.add_exception_handler(RegardError, _request_error)
    app.add_exception_handler(HTTPException, _route_error)
    app.add_exception_handler(RequestValidationError, _address_error)
    return app


class Guard:
    """Middleware: checks the caller, adds the headers, and reports internal errors without details."""

    def __init__(self, app: ASGIApp, token: Token | None = None):
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        has_started = False

        async def send_guarded(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            check_caller(Headers(scope=scope))
            check_size(scope)
            instead = check_token(self.token, scope) if self.token is not None else None
            await (instead or self.app)(scope, receive, send_guarded)
        except ClientDisconnect:
            pass
        except RequestError as error:
            await json_response(error.as_dict(), error.status, error.headers)(scope, receive, send_guarded)
        except Exception:
            log.exception("a request failed")
            if has_started:
                raise
            body = {"error": "an internal error occurred; see the terminal"}
            await json_response(body, 500)(scope, receive, send_guarded)


def check_size(scope: Scope) -> None:
    """Raise for headers or a body that are too large."""
    headers = scope["headers"]
    size = len(scope["path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) for name, value in headers)
    if len(headers) > MOST_HEADERS or size > LARGEST_HEAD:
        raise HeadTooLarge(
            f"the address and the headers have {size:,} bytes in {len(headers)} headers, and at most "
            f"{LARGEST_HEAD:,} in {MOST_HEADERS} are allowed; send less"
        )
    length = Headers(scope=scope).get("content-length", "0")
    if not length.isdecimal() or int(length) > LARGEST_BODY:
        raise _too_large()


async def read_body(request: Request) -> bytes:
    """The body of a request; raise as soon as it is too large or too slow."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > LARGEST_BODY:
                    raise _too_large()
    except TimeoutError:
        raise TooSlow(f"the body took longer than {BODY_SECONDS:g} seconds; send it again") from None
    return bytes(body)


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Data as JSON; NaN and infinity become null."""
    return Response(json_bytes(data), status, headers, "application/json")


def json_bytes(data: Any) -> bytes:
    """Data as JSON; NaN and infinity become null."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def binary_response(message: bytes) -> Response:
    """Binary arrays."""
    return Response(message, media_type="application/octet-stream")


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _too_large() -> TooLarge:
    return TooLarge(f"a request may have at most {LARGEST_BODY:,} bytes; send less")


# Error handlers are coroutines: functions would wait for a worker thread.
async def _request_error(request: Request, error: Exception) -> Response:
    """The response to a RegardError; messages that may contain paths go to the log instead."""
    if isinstance(error, RequestError):
        return json_response(error.as_dict(), error.status, error.headers)
    if isinstance(error, UsageError):
        return json_response({"error": str(error)}, 400)
    log.warning("%s", error)
    return json_response({"error": "the model cannot process this request; see the terminal"}, 503)


async def _route_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    messages = {404: "not found; start at /studio", 405: "method not allowed"}
    message = messages.get(error.status_code, "the request failed")
    return json_response({"error": message}, error.status_code)


async def _address_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name, message = first["loc"][-1], str(first["msg"])
    if first["type"] == "missing":
        return json_response({"error": f"{name} is missing; add it to the address"}, 422)
    if first["type"] == "greater_than_equal" and first["ctx"]["ge"] == 0:
        message = f"{name} ({str(first['input'])[:20]}) must be 0 or more; count from 0"
        return json_response({"error": message}, 422)
    return json_response({"error": f"{name}: {message[:1].lower()}{message[1:]}"}, 422)
