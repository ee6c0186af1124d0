"""The service behind the routes: the models, the metrics, and how a request is run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from anyio import to_thread
from fastapi import Request
from pydantic import BaseModel

from regard.service.api.limits import Limits
from regard.service.api.metrics import Metrics
from regard.service.api.served_models import ServedModel, ServedModels
from regard.service.api.works import Outcome, Ticket, Work

LONG = 20_000  # characters that are encoded in a thread of their own
MANY = 500  # tokens whose texts are made in a thread of their own; those of alternatives count too

Result = TypeVar("Result")


@dataclass(eq=False)
class Service:
    """What the routes share."""

    models: ServedModels
    metrics: Metrics
    limits: Limits
    is_draining: bool = False

    def outcomes(
        self, served: ServedModel, request: Request, works: Sequence[Work]
    ) -> AbstractAsyncContextManager[AsyncIterator[Outcome]]:
        """Submit works at once and give what happens to them."""
        ticket = Ticket(works, self.limits.seconds, request.state.arrived)
        if works:
            served.scheduler.submit(ticket)
        return ticket.outcomes(request)

    async def results(self, served: ServedModel, request: Request, works: Sequence[Work]) -> list[Any]:
        """Run works and give the result of each."""
        if not works:
            return []
        ticket = Ticket(works, self.limits.seconds, request.state.arrived)
        return await served.scheduler.submit(ticket).results(request)

    async def in_thread_if_long(self, body: BaseModel, prepare: Callable[[], Result]) -> Result:
        """Call a function that encodes the texts of a request, in a thread if they are long."""
        if sum(map(_length, body.__dict__.values())) <= LONG:
            return prepare()
        return await to_thread.run_sync(prepare)

    async def in_thread_if_many(self, tokens: int, finish: Callable[[], Result]) -> Result:
        """Call a function that makes the texts of so many tokens, in a thread if they are many."""
        return finish() if tokens <= MANY else await to_thread.run_sync(finish)


def _length(value: Any) -> int:
    """The characters of a text or of several."""
    if isinstance(value, str):
        return len(value)
    return sum(map(_length, value)) if isinstance(value, list) else 0
