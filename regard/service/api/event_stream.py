"""Server-sent events: a response that is sent while it is computed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.service.api.errors import body_of_error
from regard.service.app import json_bytes, public_error

DONE = b"data: [DONE]\n\n"


class EventStream(Response):
    """The events of an iterator. An error before the first one is an ordinary error response.

    A later error is an event with the error, after which the stream ends without [DONE].
    """

    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, events: AsyncGenerator[dict[str, Any]], first: dict[str, Any] | None):
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events, self._first = events, first

    @classmethod
    async def begin(cls, events: AsyncGenerator[dict[str, Any]]) -> EventStream:
        """Wait for the first event, then make the response."""
        return cls(events, await anext(events, None))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            if self._first is not None:
                await _send(send, _event(self._first))
            async for event in self._events:
                await _send(send, _event(event))
            await _send(send, DONE)
        except ClientDisconnect:
            return
        except Exception as error:
            await _send(send, _event(body_of_error(public_error(error))))
        finally:
            await self._events.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json_bytes(data) + b"\n\n"
