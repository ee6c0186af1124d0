"""Schedules: the paper's formula, the ends, the warm-up."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from regard.training.schedule import SCHEDULES


@pytest.mark.parametrize("step", [1, 100, 3999, 4000, 4001, 100_000])
def test_inverse_sqrt_is_the_papers_formula(step):
    peak = (512 * 4000) ** -0.5
    assert peak == pytest.approx(7e-4, rel=0.01)  # as Vaswani et al. trained
    equation_3 = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert peak * SCHEDULES["inverse-sqrt"](step, 4000, 10_000, 0.0) == pytest.approx(equation_3)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_warm_up_is_a_straight_line_to_one(name):
    schedule = SCHEDULES[name]
    assert [schedule(step, 4, 100, 0.1) for step in (1, 2, 4)] == pytest.approx([0.25, 0.5, 1.0])
    assert schedule(1, 0, 100, 0.1) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("name", SCHEDULES)
def test_it_never_rises_after_the_warm_up_and_stays_a_factor(name):
    factors = [SCHEDULES[name](step, 10, 100, 0.1) for step in range(1, 150)]
    assert all(a >= b for a, b in pairwise(factors[9:]))
    assert all(0 < factor <= 1 for factor in factors)


@pytest.mark.parametrize(("name", "half"), [("cosine", 0.55), ("linear", 0.55)])
def test_schedules_end_at_the_last_step(name, half):
    schedule = SCHEDULES[name]
    assert schedule(100, 10, 100, 0.1) == pytest.approx(0.1)
    assert schedule(55, 10, 100, 0.1) == pytest.approx(half)
    assert schedule(1000, 10, 100, 0.1) == pytest.approx(0.1)
    assert schedule(100, 10, 100, 0.0) == pytest.approx(0.0)


def test_cosine_is_a_wave_and_constant_is_constant():
    assert SCHEDULES["cosine"](25, 0, 100, 0.0) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    assert SCHEDULES["constant"](10**9, 10, 100, 0.0) == 1.0
