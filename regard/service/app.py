"""The application: checks of the caller, limits, response headers, and errors as one sentence."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import DataError, RegardError, UsageError
from regard.service.access import LocalAccess
from regard.service.http_errors import (
    HeadTooLarge,
    Internal,
    Malformed,
    NotReady,
    RequestError,
    TooLarge,
    TooSlow,
)
from regard.service.requests import first_error

log = logging.getLogger("regard.service")

Body = TypeVar("Body", bound=BaseModel)

LARGEST_BODY = 1_000_000
BODY_SECONDS = 20.0
MOST_ERRORS = 1000  # of a body
REST_SECONDS = 2.0  # for the rest of a body that is refused
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


class Access(Protocol):
    """Decides who may send a request."""

    def check(self, scope: Scope) -> Response | None:
        """None if the request may be answered, or the response that is sent instead; raise to refuse it."""
        ...


# The body of an error response, from the path of the request and the error.
ErrorForm = Callable[[str, RequestError], dict[str, Any]]


def plain_form(path: str, error: RequestError) -> dict[str, Any]:
    """The errors of the studio."""
    return error.as_dict()


def make_app(
    start: Callable[[], None] = lambda: None,
    stop: Callable[[], None] = lambda: None,
    access: Access | None = None,
    form: ErrorForm = plain_form,
    not_found: str = "not found; start at /studio",
) -> FastAPI:
    """An application without routes; `start` and `stop` are called at startup and shutdown.

    `access` decides who may send requests, by default every caller of this machine. `form` gives the bodies
    of error responses, and `not_found` is the message for an unknown path.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        start()
        yield
        stop()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.error_form, app.state.not_found = form, not_found
    app.add_middleware(Guard, access=access or LocalAccess(), form=form)
    app.add_exception_handler(RegardError, _request_error)
    app.add_exception_handler(HTTPException, _route_error)
    app.add_exception_handler(RequestValidationError, _address_error)
    return app


class Guard:
    """Middleware: checks the caller, adds the headers, and reports internal errors without details."""

    def __init__(self, app: ASGIApp, access: Access, form: ErrorForm = plain_form):
        self.app, self.access, self.form = app, access, form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        has_started, body = False, SentBody(scope, receive)

        async def send_guarded(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                headers = MutableHeaders(scope=message)
                if message["status"] != TooSlow.status and not await body.discard():
                    headers["Connection"] = "close"
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            check_size(scope)
            instead = self.access.check(scope)
            await (instead or self.app)(scope, body.receive, send_guarded)
        except ClientDisconnect:
            pass
        except (Exception, asyncio.CancelledError) as error:
            public = public_error(error)
            if not has_started:
                values = self.form(scope["path"], public)
                await json_response(values, public.status, public.headers)(scope, receive, send_guarded)
            elif not isinstance(error, asyncio.CancelledError):
                raise


class SentBody:
    """The body of a request, of which a response may leave a part unread."""

    def __init__(self, scope: Scope, receive: Receive):
        names = {name for name, _ in scope["headers"]}
        self._receive = receive
        self._is_left = bool(names & {b"content-length", b"transfer-encoding"})
        # A client that expects 100-continue sends its body only when it is asked for it.
        self._is_asked = b"expect" not in names

    async def receive(self) -> Message:
        """The next message of the request."""
        self._is_asked = True
        message = await self._receive()
        self._is_left = message.get("more_body", False)
        return message

    async def discard(self) -> bool:
        """Read what is left, for some seconds, and return whether nothing is.

        A connection that is closed before it loses the response on its way. One with an unread rest would
        stay open for as long as its client sends.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(REST_SECONDS):
                while self._is_left and self._is_asked:
                    await self.receive()
        return not self._is_left


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


async def body_of(kind: type[Body], request: Request) -> Body:
    """The body of a request, checked."""
    try:
        return kind.model_validate_json(await read_body(request))
    except ValidationError as error:
        if (count := error.error_count()) > MOST_ERRORS:  # to name one of them, all are listed
            raise Malformed(f"the body has {count:,} errors; send fewer keys and entries") from None
        place = error.errors(include_url=False, include_input=False)[0]["loc"]
        raise Malformed(first_error(error), str(place[0])[:80] if place else None) from None


def public_error(error: Exception | asyncio.CancelledError) -> RequestError:
    """An error as the client may see it; one whose message may have a path or is internal goes to the log."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, asyncio.CancelledError):  # the server ends before the response is ready
        return NotReady("the server ends; send the request again when it has started")
    if isinstance(error, UsageError | DataError):
        return RequestError(str(error))
    if isinstance(error, RegardError):
        log.warning("%s", error)
        return NotReady("the model cannot process this request; see the terminal")
    log.error("a request failed", exc_info=error)
    return Internal("an internal error occurred; see the terminal")


def _error_response(request: Request, error: RequestError) -> Response:
    body = request.app.state.error_form(request.url.path, error)
    return json_response(body, error.status, error.headers)


# Error handlers are coroutines: functions would wait for a worker thread.
async def _request_error(request: Request, error: Exception) -> Response:
    """The response to a RegardError."""
    return _error_response(request, public_error(error))


async def _route_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    messages = {404: request.app.state.not_found, 405: "method not allowed"}
    refused = RequestError(messages.get(error.status_code, "the request failed"))
    refused.status = error.status_code
    body = request.app.state.error_form(request.url.path, refused)
    return json_response(body, refused.status, error.headers)


async def _address_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name, message = first["loc"][-1], str(first["msg"])
    if first["type"] == "missing":
        message = f"{name} is missing; add it to the address"
    elif first["type"] == "greater_than_equal" and first["ctx"]["ge"] == 0:
        message = f"{name} ({str(first['input'])[:20]}) must be 0 or more; count from 0"
    else:
        message = f"{name}: {message[:1].lower()}{message[1:]}"
    return _error_response(request, Malformed(message))
