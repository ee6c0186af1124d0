"""Figures of lessons: labels that stay legible."""

from __future__ import annotations

from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from regard.lessons.figures import COLOURS, draw_svg, figure_of
from regard.lessons.lesson import Chart, Series, heat, image
from regard.lessons.registry import LESSONS
from regard.lessons.results import stored_result

GAP = 4  # pixels between two texts on a line


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


@pytest.mark.parametrize("name", list(LESSONS))
def test_titles_labels_and_legends_have_room(name):
    stored = stored_result(name)
    assert stored is not None
    charts = LESSONS[name]().charts(stored.experiment.measured)
    figure = figure_of(charts)
    FigureCanvasAgg(figure).draw()
    titles = {chart.title for chart in charts}
    written = [
        text for text in figure.findobj(Text) if text.get_text() in titles and text.get_weight() == "bold"
    ]
    written += [axis.label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    legends = [legend for axes in figure.axes if (legend := axes.get_legend())]
    boxes = [(part.get_text(), part.get_window_extent()) for part in written if part.get_text()]
    boxes += [("legend", legend.get_window_extent()) for legend in legends]
    for label, box in boxes:
        assert box.x0 >= 0, label
        assert box.y0 >= 0, label
        assert box.x1 <= figure.bbox.width, label
        assert box.y1 <= figure.bbox.height, label
    for (label, box), (other, beside) in combinations(boxes, 2):
        assert not box.padded(GAP, 0).overlaps(beside), (label, other)


@pytest.mark.parametrize("name", list(LESSONS))
def test_axes_and_colours_say_what_they_are(name):
    stored = stored_result(name)
    assert stored is not None
    for chart in LESSONS[name]().charts(stored.experiment.measured):
        assert chart.y, chart.title
        assert chart.x or chart.kind == "bars", chart.title  # bars have names
        assert bool(chart.cell) == (chart.kind == "heat"), chart.title


def test_the_colours_of_a_heat_map_have_a_label():
    assert ">dot product<" in draw_svg([heat("A title", "x", "y", [[1.0, 2.0]], "dot product")])


def test_heat_maps_of_one_quantity_have_one_scale():
    faint, strong, other = (
        heat("A title", "x", "y", [[0.0, high]], cell)
        for high, cell in ((0.2, "weight"), (0.9, "weight"), (8.0, "score"))
    )
    maps = [axes.images[0].get_clim() for axes in figure_of([faint, strong, other]).axes[:3]]
    assert maps == [(0.0, 0.9), (0.0, 0.9), (0.0, 8.0)]


def test_an_image_has_the_colours_of_its_pixels():
    red, blue = [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]
    (axes,) = figure_of([image("A title", [[red, blue, red], [blue, red, blue]])]).axes
    assert axes.images[0].get_array().tolist() == [[red, blue, red], [blue, red, blue]]


def test_a_logarithmic_scale_has_no_point_for_zero():
    line = Chart("A title", "x", "y", (Series("a", (1, 2, 3), (0.0, 1.0, 10.0)),), log_y=True)
    (axes,) = figure_of([line]).axes
    assert [value > 0 for value in axes.lines[0].get_ydata()] == [False, True, True]
