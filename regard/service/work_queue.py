"""The queue of jobs: one at a time for each model, and none for a client that has left.

A waiting request holds no thread. A request that its own tab has replaced by a newer one is dropped.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from anyio import to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from regard.service.http_errors import Overloaded, Superseded

MOST_WAITING = 128
READERS = 2  # jobs at a time that read stored results
TAB, PANEL = "x-regard-tab", "x-regard-panel"  # headers that say which request replaces which

Result = TypeVar("Result")
Slot = tuple[str, str, str]  # tab, panel and path


@dataclass(eq=False)
class Lane:
    """Jobs that exclude each other: at most `width` run at a time, in the order in which they came."""

    width: int = 1
    running: int = 0
    waiting: dict[asyncio.Future[None], None] = field(default_factory=dict)

    def enter(self) -> bool:
        """Take a free place; False if there is none."""
        if self.running >= self.width:
            return False
        self.running += 1
        return True

    def leave(self) -> None:
        """Give the place to the first that waits."""
        if self.waiting:
            turn = next(iter(self.waiting))
            del self.waiting[turn]
            turn.set_result(None)
        else:
            self.running -= 1


class WorkQueue:
    """The jobs of one studio. All methods belong to the thread of its event loop."""

    def __init__(self, most: int = MOST_WAITING):
        self._most = most
        self._slots: dict[Slot, tuple[Lane, asyncio.Future[None]]] = {}
        self._waiting = 0
        self._models: defaultdict[str, Lane] = defaultdict(Lane)
        self.reading, self.saving, self.training = Lane(READERS), Lane(), Lane()

    def of_model(self, name: str) -> Lane:
        """The lane of the jobs that run a model or one of its snapshots."""
        return self._models[name]

    async def run(self, request: Request, lane: Lane, job: Callable[[], Result]) -> Result:
        """Run a job in a thread when its turn has come; raise if it is superseded or its client leaves."""
        if not lane.enter():
            await self._turn(request, lane)
        try:
            return await to_thread.run_sync(job)
        finally:
            lane.leave()

    def replace_waiting(self, request: Request) -> None:
        """Drop the waiting request of the same tab and panel for the same path, if there is one."""
        slot = slot_of(request)
        if slot is None or slot not in self._slots:
            return
        lane, turn = self._slots.pop(slot)
        if turn in lane.waiting:
            del lane.waiting[turn]
            turn.set_exception(Superseded("a newer request of this tab replaced this one; use its answer"))

    async def _turn(self, request: Request, lane: Lane) -> None:
        """Wait for a place in the lane, as long as the client does."""
        if self._waiting >= self._most:
            raise Overloaded(f"{self._most} requests are waiting already; try again in a second")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = asyncio.create_task(_client_left(request))
        lane.waiting[turn] = None
        slot = slot_of(request)
        if slot is not None:
            self._slots[slot] = lane, turn
        self._waiting += 1
        try:
            await asyncio.wait((turn, left), return_when=asyncio.FIRST_COMPLETED)
            if left.done():
                raise ClientDisconnect
            turn.result()
        except BaseException:
            _give_back(lane, turn)
            raise
        finally:
            left.cancel()
            self._waiting -= 1
            if slot is not None and self._slots.get(slot) == (lane, turn):
                del self._slots[slot]


def slot_of(request: Request) -> Slot | None:
    """Which request this one replaces; None without the headers of a tab and a panel."""
    tab, panel = request.headers.get(TAB), request.headers.get(PANEL)
    return (tab, panel, request.url.path) if tab and panel else None


def _give_back(lane: Lane, turn: asyncio.Future[None]) -> None:
    """Leave the lane's waiting list, or the place that was given meanwhile."""
    lane.waiting.pop(turn, None)
    if not turn.cancel() and turn.exception() is None:
        lane.leave()


async def _client_left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
