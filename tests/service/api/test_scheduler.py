"""Continuous batching with a stepper whose distributions are known, and the limits of an application."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx2
import numpy as np
import pytest
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from regard.demo.story.model_store import trained_folder
from regard.engine.stepper import Choices
from regard.inference.search.beam import Beam, BeamSettings
from regard.inference.search.requests import Request, run
from regard.inference.search.sampling import Sampling, SamplingSettings
from regard.inference.writer import StopStrings
from regard.service import app as application
from regard.service import serving
from regard.service.api.application import ServiceSettings, make_service
from regard.service.api.errors import Expired, TooManyRequests
from regard.service.api.generation import Generated
from regard.service.api.limits import Limits
from regard.service.api.scheduler import Scheduler
from regard.service.api.works import SearchWork, TextWork, Ticket
from regard.service.app import make_app
from regard.service.models import open_models
from tests.studio.serving import serve_here

POISON = 11
VOCABULARY = 12


class HistoryStepper:
    """The distribution of a row depends on all its ids; a row with POISON makes every step fail."""

    vocabulary, limit = VOCABULARY, None

    def __init__(self, pause: float = 0.0):
        self._histories: list[list[int]] = []
        self._pause = pause

    @property
    def rows(self):
        return len(self._histories)

    def admit(self, prefixes, sources=None):
        self._histories += [prefix[:-1].tolist() for prefix in prefixes]

    def step(self, ids, best=None, banned=None):
        time.sleep(self._pause)
        for history, number in zip(self._histories, ids.tolist(), strict=True):
            history.append(number)
            if POISON in history:
                raise RuntimeError("a failure of the engine")
        draws = [np.random.default_rng(history).normal(size=VOCABULARY) for history in self._histories]
        logits = np.array(draws, np.float32)
        logits[:, POISON] = -30
        values = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        if best is None:
            return Choices(None, values, logits)
        order = np.argsort(-values, axis=1, kind="stable")[:, :best]
        return Choices(order, np.take_along_axis(values, order, 1))

    def reorder(self, rows):
        self._histories = [list(self._histories[row]) for row in rows]

    def drop(self, rows):
        self.reorder(np.delete(np.arange(self.rows), rows))


OBSERVER = SimpleNamespace(
    stepped=lambda rows: None, began=lambda ticket: None, holds=lambda waiting, rows: None
)


class Connected:
    """A request whose client stays, or leaves when it is told to."""

    def __init__(self):
        self.left = asyncio.Event()

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}


def scheduled(play, limits=None, pause=0.0, new_search=None, observer=OBSERVER):
    """Run a coroutine that gets a scheduler."""

    def search(is_beam):
        return (Beam if is_beam else Sampling)(HistoryStepper(pause))

    scheduler = Scheduler("fake", new_search or search, limits or Limits(rows=6), observer)

    async def begin():
        return await play(scheduler)

    try:
        with ThreadPoolExecutor(1) as pool:  # the tests of the page leave a running loop in this thread
            return pool.submit(lambda: asyncio.run(begin())).result(60)
    finally:
        scheduler.stop()


def sampled(seed, prefix=(1,), length=9):
    return SearchWork(Request(np.array(prefix), SamplingSettings(seed=seed, max_length=length)))


def beam(first):
    return SearchWork(Request(np.array([first]), BeamSettings(beams=3, max_length=6, end=(0,))), is_beam=True)


def alone(work):
    search = (Beam if work.is_beam else Sampling)(HistoryStepper())
    return run(search, [work.request])[0].best.ids.tolist()


async def outcome_of(scheduler, works, seconds=60.0):
    """The ids of each work, or the error of the ticket."""
    try:
        results = await scheduler.submit(Ticket(works, seconds)).results(Connected())
        return [answer.best.ids.tolist() for answer in results]
    except Exception as error:
        return error


def test_an_answer_does_not_depend_on_its_neighbours():
    """Many more sequences than rows, sampled and beams, of different lengths, entering and leaving."""
    works = [sampled(seed, range(1, 2 + seed % 5), 3 + seed % 7) for seed in range(40)]
    works += [beam(first) for first in range(1, 9)]

    async def play(scheduler):
        return await asyncio.gather(*(outcome_of(scheduler, [work]) for work in works))

    assert [found[0] for found in scheduled(play)] == [alone(work) for work in works]


def test_one_failing_request_fails_alone():
    good = [sampled(seed) for seed in range(10)]
    bad = sampled(3, (2, POISON))
    refused = SearchWork(Request(np.array([VOCABULARY + 5]), SamplingSettings()))

    async def play(scheduler):
        asked = [*good[:5], bad, refused, *good[5:]]
        first = await asyncio.gather(*(outcome_of(scheduler, [work]) for work in asked))
        return first, await outcome_of(scheduler, [good[0]])

    found, later = scheduled(play)
    assert isinstance(found.pop(5), RuntimeError)
    assert "below the vocabulary" in str(found.pop(5))
    assert [ids[0] for ids in found] == [alone(work) for work in good]
    assert later == [alone(good[0])]


class Words:
    """A text stream in which each id is a word."""

    def add(self, number):
        return f"{number} "

    def finish(self):
        return ""


def answering(seed, stops=(), length=30):
    """An answer that is streamed, with what the Writer's task does for it."""
    work = sampled(seed, length=length)
    task = SimpleNamespace(
        stops=stops,
        text_of=lambda prompt: StopStrings(Words(), stops),
        request=lambda prompt, text: replace(work.request, until=text.read),
        completion=lambda prompt, text, answer: SimpleNamespace(
            text=text.finish(answer.best.ids), reason=answer.best.reason
        ),
    )
    return Generated(task, SimpleNamespace(ids=[1]), with_tokens=False)


async def streamed(scheduler, answer, told=lambda: None):
    """The text of all deltas, and of the whole answer; tells when the third delta came."""
    text, count = "", 0
    ticket = scheduler.submit(Ticket([answer.work(stream=True)], 60))
    async with ticket.outcomes(Connected()) as outcomes:
        async for outcome in outcomes:
            delta = answer.last_delta(outcome.value) if outcome.is_final else outcome.value
            text, count = text + delta.text, count + 1
            if count == 3:
                told()
    return text, answer.completion(outcome.value).text


def test_a_failed_step_does_not_repeat_a_streamed_text():
    """A request that makes the shared step fail arrives while others are streamed, one with a stop string."""
    ids = alone(sampled(1, length=30))
    whole = "".join(f"{number} " for number in ids)
    stop = f"{ids[7]} {ids[8]} {ids[9]} "
    cut = whole[: whole.index(stop)]

    async def play(scheduler):
        begun = asyncio.Event()
        tasks = [
            asyncio.create_task(streamed(scheduler, answering(1), begun.set)),
            asyncio.create_task(streamed(scheduler, answering(1, (stop,)))),
        ]
        await begun.wait()
        failed = await outcome_of(scheduler, [sampled(3, (2, POISON))])
        return failed, await asyncio.gather(*tasks)

    failed, texts = scheduled(play, pause=0.005)
    assert isinstance(failed, RuntimeError)
    assert texts == [(whole, whole), (cut, cut)]


def test_what_waits_is_counted_after_a_failed_step():
    """Sequences that begin again are not counted as others of their request that have not begun."""

    async def play(scheduler):
        many = Ticket([sampled(n, length=40) for n in range(4)], 60)
        waiting = asyncio.create_task(scheduler.submit(many).results(Connected()))
        failed = await outcome_of(scheduler, [sampled(3, (2, POISON))])
        await waiting
        return failed, many.admitted

    failed, begun = scheduled(play, Limits(rows=3), pause=0.005)
    assert isinstance(failed, RuntimeError)
    assert begun == 4


class Panic(BaseException):
    """As a library in another language raises it."""


def refusing(*_):
    raise Panic


@pytest.mark.parametrize("broken", ["new search", "admit", "step", "cancel", "on_step", "observer"])
def test_an_error_fails_its_requests_and_the_thread_goes_on(broken, caplog):
    observer = SimpleNamespace(**vars(OBSERVER))
    searches = []

    def new_search(is_beam):
        searches.append(search := Sampling(HistoryStepper(0.002)))
        if len(searches) == 1:
            if broken == "new search":
                raise MemoryError
            if broken in ("admit", "step", "cancel"):
                setattr(search, broken, refusing)
        return search

    async def play(scheduler):
        work = sampled(1, length=50)
        if broken == "on_step":
            work = replace(work, on_step=refusing)
        if broken == "observer":
            observer.stepped = refusing
        leaves = Ticket([sampled(2, length=2000)], 0.1 if broken == "cancel" else 60)
        if broken == "cancel":
            with pytest.raises(Expired):
                await scheduler.submit(leaves).results(Connected())
        failed = await outcome_of(scheduler, [work], seconds=5)
        observer.stepped = OBSERVER.stepped
        return failed, await outcome_of(scheduler, [sampled(1)], seconds=5), scheduler.is_alive

    failed, later, is_alive = scheduled(play, new_search=new_search, observer=observer)
    if broken != "cancel":
        assert isinstance(failed, MemoryError if broken == "new search" else RuntimeError)
    assert later == [alone(sampled(1))]
    assert is_alive


def test_requests_take_turns():
    """A request with one sequence does not wait for all of one with many."""

    async def play(scheduler):
        many = asyncio.create_task(outcome_of(scheduler, [sampled(n, length=5) for n in range(60)]))
        await asyncio.sleep(0.02)
        await outcome_of(scheduler, [sampled(1, length=5)])
        assert not many.done()
        await many

    scheduled(play, Limits(rows=2), pause=0.002)


def test_the_sequences_that_wait_are_limited():
    async def play(scheduler):
        many = [sampled(n, length=1000) for n in range(20)]
        first = scheduler.submit(Ticket(many, 60))  # alone, a request may have more
        with pytest.raises(TooManyRequests, match="texts are waiting"):
            scheduler.submit(Ticket([sampled(1)] * 10, 60))
        first.end()

    scheduled(play, Limits(rows=2, waiting_works=10), pause=0.01)


def test_the_deadline_is_counted_from_the_arrival_of_the_request():
    """A second ticket of a request has only the rest of its time."""

    async def play(scheduler):
        ticket = Ticket([sampled(1, length=1000)], 60, arrived=time.monotonic() - 59.9)
        with pytest.raises(Expired):
            await scheduler.submit(ticket).results(Connected())

    begun = time.monotonic()
    scheduled(play, pause=0.005)
    assert time.monotonic() < begun + 5


def test_the_metrics_follow_the_scheduler():
    seen, began = [], []
    observer = SimpleNamespace(
        stepped=lambda rows: None, began=began.append, holds=lambda *counts: seen.append(counts)
    )

    async def play(scheduler):
        await outcome_of(scheduler, [sampled(1), sampled(2), sampled(3)])
        await scheduler.submit(Ticket([TextWork("a", "x", list)], 60)).results(Connected())
        until = time.monotonic() + 5
        while seen[-1] != (0, 0) and time.monotonic() < until:
            await asyncio.sleep(0.01)

    scheduled(play, Limits(rows=2), pause=0.002, observer=observer)
    assert {(1, 0), (1, 2), (0, 0)} <= set(seen)
    assert len(began) == 2


def test_texts_of_different_requests_share_a_call_and_fail_alone():
    calls = []

    def answer(texts):
        calls.append(texts)
        if "bad" in texts:
            raise ValueError("no")
        return [text.upper() for text in texts]

    async def read(scheduler, *texts, key="a"):
        try:
            works = [TextWork(key, text, answer) for text in texts]
            return await scheduler.submit(Ticket(works, 60)).results(Connected())
        except ValueError as error:
            return str(error)

    async def play(scheduler):
        waiting = asyncio.create_task(outcome_of(scheduler, [sampled(1, length=200)]))
        await asyncio.sleep(0.05)  # the thread is inside a step, so the texts wait together
        found = await asyncio.gather(
            read(scheduler, "x", "y"),
            read(scheduler, "bad"),
            read(scheduler, "z"),
            read(scheduler, "w", key="b"),
        )
        await waiting
        return found

    assert scheduled(play, pause=0.1 / 20) == [["X", "Y"], "no", ["Z"], ["W"]]
    assert ["x", "y", "bad", "z"] in calls
    assert ["w"] in calls


def test_a_full_queue_refuses_and_a_leaving_client_frees_its_place():
    limits = Limits(waiting=2, rows=2)

    async def play(scheduler):
        clients = [Connected() for _ in range(4)]
        tickets = [scheduler.submit(Ticket([sampled(n, length=1000)], 60)) for n in range(2)]
        tasks = [asyncio.create_task(each.results(c)) for each, c in zip(tickets, clients, strict=False)]
        while scheduler.waiting:
            await asyncio.sleep(0.01)
        for number in (2, 3):  # these two wait, as both rows are taken
            ticket = scheduler.submit(Ticket([sampled(number, length=1000)], 60))
            tasks.append(asyncio.create_task(ticket.results(clients[number])))
        await asyncio.sleep(0.05)
        with pytest.raises(TooManyRequests):
            scheduler.submit(Ticket([sampled(9)], 60))
        clients[3].left.set()  # while queued
        clients[0].left.set()  # while decoding
        await asyncio.wait(tasks, timeout=2, return_when=asyncio.ALL_COMPLETED)
        assert [task.done() for task in tasks] == [True, False, False, True]
        assert scheduler.waiting == 0  # the third has entered
        clients[1].left.set()
        clients[2].left.set()
        await asyncio.wait(tasks, timeout=2)
        begun = time.monotonic()
        while scheduler.rows:
            assert time.monotonic() < begun + 2
            await asyncio.sleep(0.01)

    scheduled(play, limits, pause=0.01)


def test_a_client_that_leaves_while_its_prompt_is_read_frees_its_place():
    begun = Event()

    class Slow(HistoryStepper):
        def admit(self, prefixes, sources=None):
            begun.set()
            time.sleep(0.2)
            super().admit(prefixes, sources)

    async def play(scheduler):
        client = Connected()
        ticket = scheduler.submit(Ticket([sampled(1, length=1000)], 60))
        task = asyncio.create_task(ticket.results(client))
        await asyncio.to_thread(begun.wait)
        client.left.set()
        await asyncio.wait([task], timeout=2)
        assert isinstance(task.exception(), ClientDisconnect)
        return await outcome_of(scheduler, [sampled(2)]), scheduler.rows

    limits = Limits(rows=1)
    found = scheduled(play, limits, new_search=lambda is_beam: Sampling(Slow(0.005)))
    assert found == ([alone(sampled(2))], 0)


def test_a_request_has_a_deadline():
    async def play(scheduler):
        slow = asyncio.create_task(outcome_of(scheduler, [sampled(1, length=1000)], seconds=0.2))
        quick = await outcome_of(scheduler, [sampled(2)])
        return await slow, quick, await outcome_of(scheduler, [sampled(3)])

    slow, *others = scheduled(play, pause=0.01)
    assert isinstance(slow, Expired)
    assert others == [[alone(sampled(2))], [alone(sampled(3))]]


@pytest.fixture(scope="module")
def small():
    """The place of a server with little room: two requests wait, two sequences run, for three seconds."""
    limits = Limits(waiting=2, rows=2, seconds=3.0)
    models = open_models([f"lm={trained_folder('demo-language-model')}"])
    with serve_here(make_service(models, ServiceSettings(limits, has_studio=False))) as home:
        with httpx2.Client(base_url=home) as client:
            while client.get("/ready").status_code != 200:
                time.sleep(0.05)
        yield home


def body(prompts=128, **changes):
    """A request that takes longer than the deadline, unless its client leaves."""
    values = {"model": "lm", "prompt": ["the cat"] * prompts, "n": 8, "max_tokens": 50, "min_tokens": 50}
    return values | changes


def rows(home):
    page = httpx2.get(f"{home}/metrics").text
    return float(page.split('regard_running_rows{model="lm"} ')[1].split()[0])


def send(home, content: dict) -> socket.socket:
    """A connection on which a request was sent and nothing was read."""
    data = json.dumps(content).encode()
    address = urlsplit(home)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    connection.connect((address.hostname, address.port))
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
    connection.sendall(head.encode() + data)
    return connection


def test_the_service_refuses_with_429_and_frees_places_of_clients_that_leave(small):
    held = [send(small, body()), send(small, body(stream=True))]
    until = time.monotonic() + 2.5
    status = 200
    while status != 429 and time.monotonic() < until:
        answer = httpx2.post(f"{small}/v1/completions", json=body(prompts=1, n=1), timeout=20)
        status = answer.status_code
    assert status == 429
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    for connection in held:
        connection.close()
    begun = time.monotonic()
    while rows(small):
        assert time.monotonic() < begun + 2
    assert httpx2.post(f"{small}/v1/completions", json=body(prompts=1, n=1), timeout=20).status_code == 200


def test_the_deadline_of_whole_and_streamed_answers(small):
    assert httpx2.post(f"{small}/v1/completions", json=body(), timeout=20).status_code == 504
    streamed = httpx2.post(f"{small}/v1/completions", json=body(stream=True), timeout=20)
    events = [line.removeprefix("data: ") for line in streamed.text.splitlines() if line]
    assert json.loads(events[-1])["error"]["type"] == "timeout_error"
    assert streamed.status_code == 200


@pytest.mark.parametrize(
    ("begun", "answer"),
    [
        (b"POST /v1/completions HTTP/1.1\r\nHost: localh", b""),
        (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 408 "),
    ],
    ids=["head", "body"],
)
def test_a_slow_client_is_not_waited_for(small, monkeypatch, begun, answer):
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(application, "BODY_SECONDS", 0.2)
    address = urlsplit(small)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(begun)
        found = connection.recv(1 << 16)
        assert found.startswith(answer) if answer else not found


def test_a_client_that_does_not_read_is_disconnected(monkeypatch):
    monkeypatch.setattr(serving, "SEND_SECONDS", 0.3)
    app, size = make_app(), 1 << 26  # more than the buffers of both ends hold

    @app.post("/v1/completions")
    async def endless():
        return StreamingResponse(iter([b"x" * (1 << 16)] * (size >> 16)))

    received = 0
    with serve_here(app) as home, send(home, {}) as connection:
        time.sleep(1)
        with suppress(ConnectionResetError):
            while more := connection.recv(1 << 16):
                received += len(more)
    assert 0 < received < size
