"""Errors of the API in the form of OpenAI's: {"error": {"message", "type", "param", "code"}}.

RequestError          400    see regard.service.http_errors
├── Unauthorized      401    a request without the key
├── UnknownModel      404    a model that is not served
├── WrongModel        400    a model that cannot do what is asked
├── TooManyRequests   429    the queue is full
├── Draining          503    the server is shutting down
├── Loading           503    the model is still being loaded
└── Expired           504    the deadline of a request has passed
"""

from __future__ import annotations

from typing import Any, ClassVar

from regard.service.http_errors import RequestError

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
    504: "timeout_error",
}


class Unauthorized(RequestError):
    """A request without the key."""

    status = 401
    code = "invalid_api_key"
    headers: ClassVar[dict[str, str]] = {"WWW-Authenticate": "Bearer"}


class UnknownModel(RequestError):
    """A model that is not served."""

    status = 404
    code = "model_not_found"
    param = "model"


class WrongModel(RequestError):
    """A model that cannot do what is asked."""

    code = "model_not_supported"
    param = "model"


class ContextLength(RequestError):
    """More tokens than the context of the model has."""

    code = "context_length_exceeded"


class TooManyRequests(RequestError):
    """The queue is full."""

    status = 429
    code = "rate_limit_exceeded"
    headers: ClassVar[dict[str, str]] = {"Retry-After": "1"}


class Draining(RequestError):
    """The server is shutting down."""

    status = 503
    headers: ClassVar[dict[str, str]] = {"Retry-After": "1", "Connection": "close"}


class Loading(RequestError):
    """The model is still being loaded."""

    status = 503
    headers: ClassVar[dict[str, str]] = {"Retry-After": "1"}


class Expired(RequestError):
    """The deadline of a request has passed."""

    status = 504

    def __init__(self, seconds: float):
        super().__init__(
            f"the request took longer than {seconds:g} seconds; ask for less, or try again later"
        )


def error_body(
    status: int, message: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """The body of an error response."""
    kind = TYPES.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def body_of_error(error: RequestError) -> dict[str, Any]:
    """The body of the response to a request error."""
    return error_body(error.status, str(error), getattr(error, "param", None), getattr(error, "code", None))
