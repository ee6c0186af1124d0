"""Errors of the service: a status and one sentence.

RequestError     400    a request that cannot be served
├── Forbidden    403    a request without the token
├── NotFound     404    an unknown model, trace or file
├── Gone         404    an evicted trace; the same request creates it again
├── TooSlow      408    a body that takes too long
├── Busy         409    a training or a lesson is already running
├── Superseded   409    a request that a newer one of the same tab has replaced
├── TooLarge     413    a body that is too large
├── Malformed    422    a body that does not follow the schema
├── HeadTooLarge 431    headers that are too large or too many
├── Internal     500    an error that Regard did not expect
├── NotReady     503    a model that is not trained or cannot be loaded
└── Overloaded   503    too many requests are waiting
"""

from __future__ import annotations

from typing import ClassVar

from regard.errors import UsageError


class RequestError(UsageError):
    """A request that cannot be served."""

    status = 400
    headers: ClassVar[dict[str, str]] = {}  # of the response

    def as_dict(self) -> dict[str, object]:
        """The body of the response."""
        return {"error": str(self)}


class Forbidden(RequestError):
    """A request without the token."""

    status = 403


class NotFound(RequestError):
    """An unknown model, trace or file."""

    status = 404


class Gone(RequestError):
    """An evicted trace."""

    status = 404

    def as_dict(self) -> dict[str, object]:
        """The body of the response, with a mark that the page may repeat the request for the trace."""
        return {**super().as_dict(), "gone": True}


class TooSlow(RequestError):
    """A body that takes too long."""

    status = 408
    headers: ClassVar[dict[str, str]] = {"Connection": "close"}


class Busy(RequestError):
    """A training or a lesson is already running."""

    status = 409


class Superseded(RequestError):
    """A request that a newer one of the same tab has replaced."""

    status = 409

    def as_dict(self) -> dict[str, object]:
        """The body of the response, with a mark that the page has no use for the error."""
        return {**super().as_dict(), "superseded": True}


class TooLarge(RequestError):
    """A body that is too large."""

    status = 413
    headers: ClassVar[dict[str, str]] = {"Connection": "close"}


class Malformed(RequestError):
    """A body that does not follow the schema; `param` is the key that does not."""

    status = 422

    def __init__(self, message: str, param: str | None = None):
        super().__init__(message)
        self.param = param


class HeadTooLarge(RequestError):
    """Headers that are too large or too many."""

    status = 431
    headers: ClassVar[dict[str, str]] = {"Connection": "close"}


class Internal(RequestError):
    """An error that Regard did not expect."""

    status = 500


class NotReady(RequestError):
    """A model that is not trained or cannot be loaded."""

    status = 503


class Overloaded(RequestError):
    """Too many requests are waiting."""

    status = 503
    headers: ClassVar[dict[str, str]] = {"Retry-After": "1"}


def too_long(name: str, tokens: int, limit: int) -> RequestError:
    """The error for more tokens than the context of the model."""
    return RequestError(
        f"{name} has {tokens:,} tokens, and the context of this model is {limit:,}; shorten it"
    )
