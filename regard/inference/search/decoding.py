"""Search from its first step to its last: greedy, sample and beam_search, each a list of answers.

Sampling and Beam are the same one step at a time, for whoever lets requests enter and leave between steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol

from regard.engine.stepper import Stepper
from regard.errors import SettingError
from regard.inference.search.beam import Beam
from regard.inference.search.requests import Answer, Request
from regard.inference.search.sampling import Sampling, SamplingSettings


class Search(Protocol):
    """A running batch that advances one step a call; requests enter and leave between steps."""

    @property
    def active(self) -> list[int]:
        """The tickets of the requests that run."""
        ...

    def admit(self, requests: Sequence[Request]) -> list[int]:
        """Let requests enter, all or none; a ticket for each."""
        ...

    def step(self) -> list[Answer]:
        """One id more for everybody; the answers that this finished."""
        ...

    def cancel(self, ticket: int) -> Answer | None:
        """Let a request leave with what it has so far; None where it has left already."""
        ...


def greedy(stepper: Stepper, requests: Sequence[Request], together: int | None = None) -> list[Answer]:
    """The likeliest id at every step, whatever the temperature of a request."""
    answers = run(Sampling(stepper), [_cooled(request) for request in requests], together)
    return [replace(answer, request=request) for answer, request in zip(answers, requests, strict=True)]


def sample(stepper: Stepper, requests: Sequence[Request], together: int | None = None) -> list[Answer]:
    """Ids drawn as each request's SamplingSettings say."""
    return run(Sampling(stepper), requests, together)


def beam_search(stepper: Stepper, requests: Sequence[Request], together: int | None = None) -> list[Answer]:
    """The best hypotheses as each request's BeamSettings say."""
    return run(Beam(stepper), requests, together)


def run(search: Search, requests: Iterable[Request], together: int | None = None) -> list[Answer]:
    """Every request's answer, in the order of requests."""
    return sorted(as_they_finish(search, requests, together), key=lambda answer: answer.ticket)


def as_they_finish(
    search: Search, requests: Iterable[Request], together: int | None = None
) -> Iterator[Answer]:
    """Answers as soon as they are there; at most so many requests run together, others wait for them."""
    if together is not None and together < 1:
        raise SettingError(f"together ({together}) must be 1 or more; leave it out to run all at once")
    waiting = iter(requests)
    while True:
        free = None if together is None else max(together - len(search.active), 0)
        search.admit(list(islice(waiting, free)))
        if not search.active:
            return
        yield from search.step()


def _cooled(request: Request) -> Request:
    if not isinstance(request.settings, SamplingSettings):
        return request
    return replace(request, settings=request.settings.changed(temperature=0.0))
