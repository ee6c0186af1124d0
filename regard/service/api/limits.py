"""The limits of the service: how much a request may ask for, and how much waits or runs at a time."""

from __future__ import annotations

from dataclasses import dataclass

MOST_N = 8  # answers to one prompt
MOST_TEXTS = 128  # texts of one request
LONGEST_TEXT = 100_000  # characters
MOST_BEAMS = 16
MOST_STOPS = 16
MOST_ALTERNATIVES = 20  # logprobs
MOST_INSPECTED = 256  # tokens of a text and its target whose attention is returned
MOST_WEIGHTS = 1 << 20  # of attention, in a response


@dataclass(frozen=True)
class Limits:
    """What the scheduler of a model holds at a time, and how long a request may take."""

    waiting: int = 128  # requests
    waiting_works: int = 8192  # texts and sequences of all requests that wait
    rows: int = 64  # sequences that run at a time; a beam counts each hypothesis
    prefill: int = 2048  # tokens, padding included, that are read between two steps
    seconds: float = 60.0  # from the arrival of a request to the end of its answer
