"""The axis of the loss curve: marks at 1, 2 and 5 times powers of ten around all losses."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("least", "most", "ticks"),
    [
        (0.8, 7.2, [0.5, 1, 2, 5, 10]),
        (1, 5, [1, 2, 5]),
        (0.031, 0.049, [0.02, 0.05]),
        (3, 3, [2, 5]),
        (2, 2, [2, 5]),
        (0.00012, 9, [0.0001, 0.001, 0.01, 0.1, 1, 10]),
    ],
)
def test_marks_enclose_the_losses(run, least, most, ticks):
    told = run("pictures/curve.js", "it.logarithmicTicks(asked.least, asked.most)", least=least, most=most)
    assert told == pytest.approx(ticks)
