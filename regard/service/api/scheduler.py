"""Continuous batching: one thread per model, in which sequences of all requests share every step.

A finished sequence leaves and a waiting one enters between two steps. An answer does not depend on the other
sequences. If a step fails, its sequences are run again one at a time, so that only the one that causes the
failure fails.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from threading import Condition, Thread
from typing import Any, Protocol

from regard.errors import RegardError
from regard.inference.search.requests import Search
from regard.inference.search.sampling import Sampling
from regard.inference.windows import batches
from regard.service.api.errors import Draining, TooManyRequests
from regard.service.api.limits import Limits
from regard.service.api.works import Outcome, SearchWork, TextWork, Ticket

log = logging.getLogger("regard.service")

MOST_TEXTS_AT_ONCE = 64  # texts that one call reads

NewSearch = Callable[[bool], Search]  # True for a beam search


@dataclass(frozen=True, eq=False)
class Sequence:
    """A search work of a ticket, in the scheduler's thread."""

    ticket: Ticket
    index: int
    work: SearchWork
    is_again: bool = False  # it has begun before


@dataclass(frozen=True, eq=False)
class Text:
    """A text work of a ticket, in the scheduler's thread."""

    ticket: Ticket
    index: int
    work: TextWork


Events = list[tuple[Ticket, Outcome]]


class Observer(Protocol):
    """Is told what the scheduler does, for metrics."""

    def stepped(self, rows: int) -> None:
        """A step of so many sequences was computed."""
        ...

    def began(self, ticket: Ticket) -> None:
        """The first work of a ticket begins."""
        ...

    def holds(self, waiting: int, rows: int) -> None:
        """So many requests wait now, and so many sequences run."""
        ...


class SearchLane:
    """The sequences of one kind of search: those that wait and those that run."""

    def __init__(self, new_search: Callable[[], Search], limits: Limits, observer: Observer):
        self._new_search, self._limits, self._observer = new_search, limits, observer
        self._search: Search | None = None
        self._waiting: dict[Ticket, deque[Sequence]] = {}  # in the order of their turns
        self._suspects: deque[Sequence] = deque()  # of a failed step; they run one at a time
        self._running: dict[int, Sequence] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or runs."""
        return not (self._waiting or self._suspects or self._running)

    @property
    def rows(self) -> int:
        """The rows of the running sequences."""
        return sum(
            sequence.work.rows for sequence in list(self._running.values())
        )  # read by other threads too

    def add(self, sequence: Sequence) -> None:
        """Let a sequence wait."""
        self._waiting.setdefault(sequence.ticket, deque()).append(sequence)

    def turn(self) -> Events:
        """Drop what nobody waits for, admit what fits, and compute one step."""
        self._drop_left()
        events = self._admit(self._next_sequences())
        if self._running:
            events += self._step()
        return events

    def fail(self, error: BaseException) -> Events:
        """Fail all sequences, and begin the next ones with a new search."""
        waiting = [each for queue in self._waiting.values() for each in queue]
        failed = [*self._running.values(), *self._suspects, *waiting]
        self._waiting, self._suspects, self._running, self._search = {}, deque(), {}, None
        return _failures(failed, error)

    def _drop_left(self) -> None:
        self._waiting = {ticket: queue for ticket, queue in self._waiting.items() if not ticket.is_over}
        self._suspects = deque(each for each in self._suspects if not each.ticket.is_over)
        for request_id in [i for i, each in self._running.items() if each.ticket.is_over]:
            self._remove(request_id)

    def _remove(self, request_id: int) -> None:
        assert self._search is not None
        self._search.cancel(request_id)
        del self._running[request_id]

    def _next_sequences(self) -> list[Sequence]:
        """The sequences that may begin now, of similar length and within the limits."""
        if self._suspects:
            return [] if self._running else [self._suspects.popleft()]
        fitting = self._fitting()
        if not fitting:
            return []
        chosen = next(batches([each.work.size for each in fitting], self._limits.prefill))
        sequences = [fitting[index] for index in chosen]
        for each in sequences:
            queue = self._waiting.pop(each.ticket)
            queue.remove(each)
            if queue:
                self._waiting[each.ticket] = queue  # behind the other tickets
        return sequences

    def _fitting(self) -> list[Sequence]:
        """The waiting sequences for which there is room; their tickets take turns."""
        free, fitting = self._limits.rows - self.rows, []
        for turn in zip_longest(*self._waiting.values()):
            for sequence in filter(None, turn):
                if sequence.work.rows > free and (self._running or fitting):
                    return fitting
                free -= sequence.work.rows
                fitting.append(sequence)
        return fitting

    def _admit(self, sequences: list[Sequence]) -> Events:
        """Begin sequences, together if possible; one that cannot begin fails alone."""
        if not sequences:
            return []
        try:
            if self._search is None:
                self._search = self._new_search()
            request_ids = self._search.admit([each.work.request for each in sequences])
        except BaseException as error:
            if not isinstance(error, RegardError):  # the search may hold rows of these sequences
                self._restart()
            if len(sequences) > 1:
                return [event for each in sequences for event in self._admit([each])]
            return _failures(sequences, error)
        self._running |= dict(zip(request_ids, sequences, strict=True))
        _begin([each for each in sequences if not each.is_again], self._observer)
        return []

    def _step(self) -> Events:
        assert self._search is not None
        try:
            answers = self._search.step()
        except BaseException as error:
            return self._isolate(error)
        self._observer.stepped(self.rows)
        events: Events = []
        for answer in answers:
            sequence = self._running.pop(answer.request_id)
            events.append((sequence.ticket, Outcome(sequence.index, answer)))
        return [event for each in list(self._running) for event in self._progress(each)] + events

    def _progress(self, request_id: int) -> Events:
        """What a running sequence reports after a step."""
        sequence, search = self._running[request_id], self._search
        if sequence.work.on_step is None:
            return []
        assert isinstance(search, Sampling)
        try:
            value = sequence.work.on_step(partial(search.generated, request_id))
        except BaseException as error:
            self._remove(request_id)
            return _failures([sequence], error)
        return [(sequence.ticket, Outcome(sequence.index, value, is_final=False))] if value else []

    def _isolate(self, error: BaseException) -> Events:
        """After a failed step: begin again, or fail the only sequence."""
        if len(self._running) > 1:
            log.warning("a step of %d sequences failed; they run again one by one", len(self._running))
            self._restart()
            return []
        failed, self._running, self._search = list(self._running.values()), {}, None
        return _failures(failed, error)

    def _restart(self) -> None:
        """Let the running sequences begin again with a new search, one at a time."""
        again = [replace(each, work=each.work.anew(), is_again=True) for each in self._running.values()]
        self._suspects.extend(again)
        self._running, self._search = {}, None


class TextLane:
    """Texts that are read in batches."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._waiting: deque[Text] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def add(self, text: Text) -> None:
        """Let a text wait."""
        self._waiting.append(text)

    def turn(self) -> Events:
        """Read the first text, and with it those that have the same key."""
        chosen: list[Text] = []
        waiting: deque[Text] = deque()
        for each in self._waiting:
            if each.ticket.is_over:
                continue
            fits = not chosen or (each.work.key == chosen[0].work.key and len(chosen) < MOST_TEXTS_AT_ONCE)
            (chosen if fits else waiting).append(each)
        self._waiting = waiting
        _begin(chosen, self._observer)
        return _read(chosen)

    def fail(self, error: BaseException) -> Events:
        """Fail all texts."""
        failed, self._waiting = self._waiting, deque()
        return _failures(failed, error)


def _begin(each_begun: Iterable[Sequence | Text], observer: Observer) -> None:
    for each in each_begun:
        if not each.ticket.admitted:
            observer.began(each.ticket)
        each.ticket.admitted += 1


def _read(texts: list[Text]) -> Events:
    """The results of texts; if the call fails, each is read alone."""
    if not texts:
        return []
    try:
        results = texts[0].work.answer([each.work.text for each in texts])
        return [(each.ticket, Outcome(each.index, value)) for each, value in zip(texts, results, strict=True)]
    except BaseException as error:
        if len(texts) == 1:
            return _failures(texts, error)
        return [event for each in texts for event in _read([each])]


def _failures(failed: Iterable[Sequence | Text], error: BaseException) -> Events:
    """The same error for each; a panic of a library becomes an exception that a route can raise."""
    if not isinstance(error, RegardError):
        log.error("a request failed", exc_info=error)
    shown = error if isinstance(error, Exception) else RuntimeError(type(error).__name__)
    return [(each.ticket, Outcome(each.index, error=shown)) for each in failed]


class Scheduler:
    """The thread of one model. `submit` is called in the event loop; everything else runs in the thread."""

    def __init__(self, name: str, new_search: NewSearch, limits: Limits, observer: Observer):
        self.name, self.limits = name, limits
        self._sampling = SearchLane(lambda: new_search(False), limits, observer)
        self._beam = SearchLane(lambda: new_search(True), limits, observer)
        self._texts = TextLane(observer)
        self._observer = observer
        self._tickets: set[Ticket] = set()  # that have works which have not begun
        self._arrived: deque[Ticket] = deque()
        self._changed = Condition()
        self._is_stopping = False
        self._thread = Thread(target=self._run, name=f"scheduler of {name}", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """How many requests have not begun, or not wholly."""
        return sum(ticket.is_waiting for ticket in list(self._tickets))

    @property
    def rows(self) -> int:
        """The rows that run."""
        return self._sampling.rows + self._beam.rows

    def submit(self, ticket: Ticket) -> Ticket:
        """Hand over a request; raise if too many wait already."""
        self.check_room(len(ticket.works))
        self._tickets.add(ticket)
        ticket.wake = self._wake
        self._arrived.append(ticket)
        self._observer.holds(self.waiting, self.rows)
        self._wake()
        return ticket

    def check_room(self, wanted: int) -> None:
        """Raise if a request with so many works could not wait now; before its texts are encoded."""
        if self._is_stopping:
            raise Draining("the server is shutting down; send the request to another one")
        self._tickets = {each for each in self._tickets if each.is_waiting}
        if len(self._tickets) >= self.limits.waiting:
            raise TooManyRequests(
                f"{self.limits.waiting} requests are waiting already; try again in a second"
            )
        works = sum(len(each.works) - each.admitted for each in self._tickets)
        if works and works + wanted > self.limits.waiting_works:
            raise TooManyRequests(f"{works:,} texts are waiting already; try again in a second")

    def stop(self) -> None:
        """End the thread after its current turn."""
        self._is_stopping = True
        self._wake()
        self._thread.join(10)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    @property
    def _has_work(self) -> bool:
        return not all(lane.is_idle for lane in self._lanes)

    @property
    def _lanes(self) -> tuple[SearchLane, SearchLane, TextLane]:
        return self._sampling, self._beam, self._texts

    def _run(self) -> None:
        while not self._is_stopping:
            with self._changed:
                while not (self._arrived or self._is_stopping or self._has_work):
                    self._changed.wait()
            try:
                self._advance()
            except BaseException:
                log.exception("the scheduler of %s goes on after an error", self.name)

    def _advance(self) -> None:
        """Let each lane take a turn; an error of a lane itself fails all that it holds."""
        self._take()
        for lane in self._lanes:
            if not lane.is_idle:
                try:
                    events = lane.turn()
                except BaseException as error:
                    events = lane.fail(error)
                self._observer.holds(self.waiting, self.rows)  # before the clients can ask
                _post(events)

    def _take(self) -> None:
        """Put the works of new tickets into their lanes."""
        while self._arrived:
            ticket = self._arrived.popleft()
            for index, work in enumerate(ticket.works):
                if isinstance(work, TextWork):
                    self._texts.add(Text(ticket, index, work))
                else:
                    lane = self._beam if work.is_beam else self._sampling
                    lane.add(Sequence(ticket, index, work))


def _post(events: Iterable[tuple[Ticket, Any]]) -> None:
    """Give outcomes to the event loop, all of a turn in one call."""
    for loop, posted in _by_loop(events):
        try:
            loop.call_soon_threadsafe(_deliver, posted)
        except RuntimeError:  # the loop is closed, and with it every client
            for ticket, _ in posted:
                ticket.is_over = True


def _by_loop(events: Iterable[tuple[Ticket, Outcome]]) -> Iterator[tuple[Any, Events]]:
    loops: dict[int, tuple[Any, Events]] = {}
    for ticket, outcome in events:
        loops.setdefault(id(ticket.loop), (ticket.loop, []))[1].append((ticket, outcome))
    yield from loops.values()


def _deliver(events: Events) -> None:
    for ticket, outcome in events:
        ticket.post(outcome)
