"""Figures of lessons: labels that stay legible."""

from __future__ import annotations

from regard.lessons.figures import COLOURS, draw_svg
from regard.lessons.lesson import Chart, Series


def bars(names: tuple[str, ...]) -> Chart:
    """A chart of bars with these labels."""
    return Chart("A title", "", "y", (Series("a", names, (1.0,) * len(names)),), kind="bars")


def test_whole_numbers_have_no_ticks_between_them():
    lines = Chart("A title", "layer", "y", (Series("a", (0, 1, 2, 3), (1.0, 2.0, 3.0, 4.0)),))
    parts = Chart("A title", "share", "y", (Series("a", (0.0, 1.0, 2.0, 3.0), (1.0, 2.0, 3.0, 4.0)),))
    assert ">0.5<" not in draw_svg([lines, lines])
    assert ">0.5<" in draw_svg([parts, parts])


def test_labels_of_bars_are_slanted_where_they_would_overlap():
    long = bars(("whole", "no attention", "no feed-forward", "linear softmax", "linear norm"))
    short = bars(("one", "two"))
    assert "rotate(-35" in draw_svg([long, short])
    assert "rotate(-35" not in draw_svg([short, short])
    assert "rotate(-35" not in draw_svg([long])  # a chart alone has twice the width


def test_a_name_has_one_colour_in_all_charts_of_a_figure():
    def lines(*names: str) -> Chart:
        return Chart("A title", "x", "y", tuple(Series(name, (0, 1), (1.0, 2.0)) for name in names))

    second = COLOURS[1]
    with_second = draw_svg([lines("a", "b"), lines("b")]).count(second)
    with_first = draw_svg([lines("a", "b"), lines("a")]).count(second)
    assert with_second > with_first > 0
