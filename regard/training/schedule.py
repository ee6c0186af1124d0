"""Learning rate schedules: the factor of the learning rate at each step, as pure functions.

Steps count from 1. All schedules rise linearly to 1 at step `warmup`. Those with an end reach the factor
`final` at step `steps`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from regard.registry import Registry

Schedule = Callable[[int, int, int, float], float]


def inverse_sqrt(step: int, warmup: int, steps: int, final: float) -> float:
    """The paper's schedule (equation 3) as a factor of its peak: 1 / sqrt(step) after the warm-up."""
    return _warmup_factor(step, warmup) * math.sqrt(max(1, warmup) / max(step, warmup, 1))


def cosine(step: int, warmup: int, steps: int, final: float) -> float:
    """Half a cosine wave from 1 to final."""
    decay = (1 + math.cos(math.pi * _fraction_done(step, warmup, steps))) / 2
    return _warmup_factor(step, warmup) * (final + (1 - final) * decay)


def linear(step: int, warmup: int, steps: int, final: float) -> float:
    """Linear from 1 to final."""
    return _warmup_factor(step, warmup) * (1 - (1 - final) * _fraction_done(step, warmup, steps))


def constant(step: int, warmup: int, steps: int, final: float) -> float:
    """1 after the warm-up."""
    return _warmup_factor(step, warmup)


SCHEDULES: Registry[Schedule] = Registry(
    "schedule", {"inverse-sqrt": inverse_sqrt, "cosine": cosine, "linear": linear, "constant": constant}
)


def _warmup_factor(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def _fraction_done(step: int, warmup: int, steps: int) -> float:
    """The fraction of the steps after the warm-up."""
    return min(1.0, max(0, step - warmup) / max(1, steps - warmup))
