"""Work and tickets: what the routes hand to the scheduler of a model, and what comes back.

A ticket is one HTTP request. It has a Work for each sequence or text. The scheduler's thread computes works
and posts outcomes; the route awaits them in the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.requests import ClientDisconnect, Request

from regard.inference.search.requests import Request as SearchRequest
from regard.inference.search.requests import Result
from regard.service.api.errors import Expired


@dataclass(frozen=True, eq=False)
class SearchWork:
    """A sequence to generate.

    `on_step` is called after each step with a function that gives what was generated so far; what it returns
    is an outcome. `again` gives the request for another try after a failed step, if the request has state.
    """

    request: SearchRequest
    is_beam: bool = False
    on_step: Callable[[Callable[[], Result]], Any] | None = None
    again: Callable[[], SearchRequest] | None = None

    @property
    def rows(self) -> int:
        """How many rows of the batch it needs."""
        return getattr(self.request.settings, "beams", 1) if self.is_beam else 1

    @property
    def size(self) -> int:
        """How many tokens are read before its first step."""
        source = self.request.source
        return len(self.request.prefix) + (0 if source is None else len(source))

    def anew(self) -> SearchWork:
        """The work for another try."""
        return self if self.again is None else replace(self, request=self.again())


@dataclass(frozen=True, eq=False)
class TextWork:
    """A text that is read. Texts with equal keys, also of different requests, share a call of `answer`."""

    key: Hashable
    text: str
    answer: Callable[[list[str]], Sequence[Any]]


Work = SearchWork | TextWork


@dataclass(frozen=True)
class Outcome:
    """Something that happened to a work: progress, its result, or its error."""

    index: int  # of the work in its ticket
    value: Any = None
    error: BaseException | None = None
    is_final: bool = True


@dataclass(eq=False)
class Ticket:
    """Works of a client's request, until they are done, the client has left or the time is over.

    The request may take `seconds` from its arrival on.
    """

    works: Sequence[Work]
    seconds: float
    arrived: float = field(default_factory=time.monotonic)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    begun: float = field(default_factory=time.monotonic)
    admitted: int = 0  # works that have begun
    is_over: bool = False  # set by the event loop; the scheduler then drops the works
    wake: Callable[[], None] = lambda: None  # tells the scheduler that the ticket is over
    _outcomes: asyncio.Queue[Outcome] = field(default_factory=asyncio.Queue)

    @property
    def is_waiting(self) -> bool:
        """Whether a work has not begun."""
        return not self.is_over and self.admitted < len(self.works)

    def post(self, outcome: Outcome) -> None:
        """Add an outcome; called in the event loop."""
        self._outcomes.put_nowait(outcome)

    def end(self) -> None:
        """Drop what is left of the works."""
        if not self.is_over:
            self.is_over = True
            self.wake()

    @asynccontextmanager
    async def outcomes(self, request: Request) -> AsyncIterator[AsyncIterator[Outcome]]:
        """Outcomes until every work has its result; raise the first error.

        It is also an error if the client leaves or the time is over. What is left of the works is dropped at
        the end of the block.
        """
        watcher = asyncio.create_task(self._watch(request))
        until = self.arrived + self.seconds - time.monotonic()
        timer = self.loop.call_later(max(0.0, until), self.post, Outcome(0, error=Expired(self.seconds)))
        try:
            yield self._outcomes_until_done()
        finally:
            timer.cancel()
            watcher.cancel()
            self.end()

    async def results(self, request: Request) -> list[Any]:
        """The result of each work."""
        results: list[Any] = [None] * len(self.works)
        async with self.outcomes(request) as outcomes:
            async for outcome in outcomes:
                if outcome.is_final:
                    results[outcome.index] = outcome.value
        return results

    async def _outcomes_until_done(self) -> AsyncIterator[Outcome]:
        missing = len(self.works)
        while missing:
            outcome = await self._outcomes.get()
            if outcome.error is not None:
                raise outcome.error
            missing -= outcome.is_final
            yield outcome

    async def _watch(self, request: Request) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.post(Outcome(0, error=ClientDisconnect()))
