"""The grammar as a table: every family of sentences with its weight, and sentences drawn from it.

A family is a rule that draws one sentence; `FAMILIES["mine"] = Family(rule, weight)` adds one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from regard.demo import everyday, people, reasons, senses, things
from regard.demo.sentences import Sentence
from regard.registry import Registry


@dataclass(frozen=True)
class Family:
    """A rule of the grammar and its weight."""

    rule: Callable[[Random], Sentence]
    weight: float


FAMILIES = Registry(
    "family of sentences",
    {
        "it": Family(reasons.because_it, 36),
        "fit": Family(reasons.does_not_fit, 4),
        "bank": Family(senses.bank, 13),
        "she": Family(people.because_she, 8),
        "meeting": Family(people.meeting, 3),
        "glad": Family(people.glad_or_sad, 2),
        "identity": Family(people.identity, 9),
        "feeling": Family(people.feeling, 3),
        "python": Family(senses.python, 5),
        "senses": Family(senses.two_senses, 5),
        "phrase": Family(things.bare_phrase, 9),
        "title": Family(things.title, 7),
        "roaming": Family(things.roaming, 6),
        "leaping": Family(things.leaping, 3),
        "placed": Family(things.placed, 5),
        "quality": Family(things.quality, 2),
        "going": Family(everyday.going, 7),
        "having": Family(everyday.having, 6),
        "habit": Family(everyday.habit, 8),
        "owning": Family(everyday.owning, 3),
        "seeing": Family(everyday.seeing_someone, 4),
        "loving": Family(everyday.loving_it, 3),
        "old": Family(everyday.loving_the_old, 2),
        "clock": Family(everyday.clock, 0.3),
        "weather": Family(everyday.weather, 3),
    },
)
