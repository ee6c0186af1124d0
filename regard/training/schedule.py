"""How the learning rate goes: a factor for every step, from pure functions.

Steps count from 1. All rise in a straight line to 1 at step `warmup`; those that end do so at step `steps`
with the factor `final`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from regard.errors import SettingError
from regard.registry import Registry

Schedule = Callable[[int, int, int, float], float]


def inverse_sqrt(step: int, warmup: int, steps: int, final: float) -> float:
    """The paper's course (section 5.3): after the warm-up, 1 / sqrt(step), and no end."""
    return _rise(step, warmup) * math.sqrt(max(1, warmup) / max(step, warmup, 1))


def cosine(step: int, warmup: int, steps: int, final: float) -> float:
    """Half a wave from 1 down to final."""
    down = (1 + math.cos(math.pi * _done(step, warmup, steps))) / 2
    return _rise(step, warmup) * (final + (1 - final) * down)


def linear(step: int, warmup: int, steps: int, final: float) -> float:
    """A straight line from 1 down to final."""
    return _rise(step, warmup) * (1 - (1 - final) * _done(step, warmup, steps))


def constant(step: int, warmup: int, steps: int, final: float) -> float:
    """1 from the end of the warm-up."""
    return _rise(step, warmup)


SCHEDULES: Registry[Schedule] = Registry(
    "schedule", {"inverse-sqrt": inverse_sqrt, "cosine": cosine, "linear": linear, "constant": constant}
)


def paper_rate(step: int, width: int, warmup: int) -> float:
    """width^-0.5 min(step^-0.5, step warmup^-1.5): equation 3, the rate itself.

    It is `paper_peak(width, warmup)` times the schedule "inverse-sqrt".
    """
    return width**-0.5 * min(step**-0.5, step * warmup**-1.5)


def paper_peak(width: int, warmup: int) -> float:
    """The highest rate of the paper's formula, reached at the end of the warm-up."""
    if width < 1 or warmup < 1:
        raise SettingError(f"width ({width}) and warmup ({warmup}) must be 1 or more")
    return (width * warmup) ** -0.5


def _rise(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def _done(step: int, warmup: int, steps: int) -> float:
    """The share of the way from the warm-up's end to the last step."""
    return min(1.0, max(0, step - warmup) / max(1, steps - warmup))
