"""The report: everything that happened, in one file that asks nobody for anything."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.errors import UsageError
from regard.runs.curves import MOST_POINTS, Chart, Scale, Series, curves_of, draw, number_text, write_pictures
from regard.runs.report import write_report, write_report_of
from regard.runs.run_folder import RunFolder

VOID = {"meta", "br", "link", "img"}


class Balanced(HTMLParser):
    """Fails where tags do not close as they opened."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def events(steps: int = 1000) -> list[dict]:
    made: list[dict] = [
        dict(
            event="step",
            step=n,
            loss=6 / n,
            cross_entropy=5 / n,
            learning_rate=1e-3,
            gradient_norm=1.0,
            tokens=100,
            seconds=0.5,
            padding=0.04,
        )
        for n in range(1, steps + 1)
    ]
    for n in (10, 20):
        scores = {"loss": 1.0 / n, "bleu": float(n), "perplexity": None}
        made.append(
            dict(event="validation", step=n, scores=scores, samples=[f"<b>{n}</b>\n→ x & y"], is_best=n == 10)
        )
    return [*made, dict(event="resumed", step=20), dict(event="finished", step=steps, reason="steps")]


def test_training_curves_are_made_of_events():
    curves = curves_of(events())
    assert [chart.file for chart in curves.charts] == [
        "loss", "objective", "scores", "learning_rate", "gradient", "speed",
    ]  # fmt: skip
    loss, valid = curves.charts[0].series
    assert len(loss.x) == MOST_POINTS
    assert loss.x[-1] == 1000
    assert np.average(loss.y, weights=np.diff([0, *loss.x])) == pytest.approx(
        np.mean([5 / n for n in range(1, 1001)])
    )
    assert valid.y.tolist() == [0.1, 0.05]
    assert curves.charts[-1].series[0].y.tolist() == [200.0] * MOST_POINTS
    assert curves.best is not None
    assert curves.best["step"] == 10


def test_training_and_validation_are_drawn_as_one_quantity():
    smoothed = curves_of(events(20)).charts
    assert [series.y[0] for series in smoothed[0].series] == [5.0, 0.1]
    assert smoothed[1].series[0].y[0] == 6.0
    plain = [{**event, "loss": event["cross_entropy"]} if "loss" in event else event for event in events(20)]
    assert "objective" not in [chart.file for chart in curves_of(plain).charts]
    older = [{key: event[key] for key in event if key != "cross_entropy"} for event in events(20)]
    charts = curves_of(older).charts
    assert [series.name for series in charts[0].series] == ["validation"]
    assert [series.y[0] for series in charts[1].series] == [6.0]


def test_the_report_of_a_run_is_whole_and_alone(each):
    page = (each.folder / "report.html").read_text(encoding="utf-8")
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert parser.links == []
    assert re.findall(r"https?:|//|<script|url\(|@import", page.replace("<!doctype html>", "")) == []
    assert "prefers-color-scheme: dark" in page
    for what in (
        "Loss",
        "Learning rate",
        "Gradient norm",
        "Tokens per second",
        "Samples over time",
        "What was read",
    ):
        assert what in page
    assert "seed 1" in page
    assert "task = " in page


def test_text_of_models_and_users_is_only_ever_text(tmp_path, small):
    run = small["language-modeling"]
    folder = RunFolder(tmp_path / "a<script>b")
    folder.path.mkdir()
    (folder.path / "recipe.toml").write_bytes((run.folder / "recipe.toml").read_bytes())
    facts = json.loads((run.folder / "run.json").read_bytes())
    facts["train"]["skipped"] = {"<i>": {"count": 2, "places": [["<u>.txt", 3]]}}
    folder.write_facts(facts)
    folder.metrics.write_text("".join(json.dumps(event) + "\n" for event in events(30)), encoding="utf-8")
    assert write_report_of(folder.path) == folder.report
    page = folder.report.read_text(encoding="utf-8")
    assert "&lt;b&gt;20&lt;/b&gt;" in page
    assert "x &amp; y" in page
    assert "&lt;u&gt;.txt:3" in page
    assert not re.search(r"<script|<b>20</b>\n|<i>|<u>", page)


def test_a_run_without_steps_or_without_a_recipe_gives_no_report(tmp_path, small):
    folder = RunFolder(tmp_path)
    write_report(folder)
    assert not folder.report.exists()
    with pytest.raises(UsageError, match="holds no run yet; start one with --out"):
        write_report_of(tmp_path)
    shutil.copy(small["language-modeling"].folder / "recipe.toml", tmp_path)
    with pytest.raises(UsageError, match="has not taken a step yet; resume it with regard train --resume"):
        write_report_of(tmp_path)
    assert not folder.report.exists()


def test_every_chart_is_a_picture_with_something_on_it(tmp_path):
    from matplotlib.image import imread

    charts = curves_of(events(50)).charts[:2]
    written = write_pictures(charts, tmp_path / "curves")
    assert [path.name for path in written] == ["loss.png", "objective.png"]
    for path in written:
        assert imread(path)[..., :3].std() > 0.01


def test_a_chart_draws_points_where_their_values_are():
    chart = Chart("x", "a < b", [Series("s", np.array([0.0, 10.0]), np.array([1.0, 3.0]), marked=True)])
    drawing = ElementTree.fromstring(draw(chart))
    low, high = [(float(dot.get("cx", 0)), float(dot.get("cy", 0))) for dot in drawing.iter("circle")]
    assert low[0] < high[0]
    assert low[1] > high[1]
    assert drawing.get("aria-label") == "a < b"


@pytest.mark.parametrize(("y"), [[2.0], [0.0, 0.0], [-1.0, -5.0], [1e-9, 2e-9], [1e12, 2e12]])
def test_any_values_can_be_drawn(y):
    text = draw(Chart("x", "t", [Series("s", np.arange(1, len(y) + 1.0), np.array(y))]))
    assert "nan" not in text
    assert "inf" not in text
    ElementTree.fromstring(text)


def test_ticks_are_round_and_inside():
    assert Scale(0, 10, 0, 1).ticks(5) == [0, 2, 4, 6, 8, 10]
    ticks = Scale(0.013, 0.094, 0, 1).ticks()
    assert all(0.013 <= tick <= 0.094 for tick in ticks)
    assert [number_text(value) for value in (0, 12345, 5500, 0.00012, 2.5)] == [
        "0",
        "12.35k",
        "5,500",
        "1.2e-04",
        "2.5",
    ]


def test_places_are_named_without_their_folders(small):
    page = (small["translation"].folder / "report.html").read_text(encoding="utf-8")
    table = page.partition("What was read")[2].partition("Settings")[0]
    assert "copy.source:" in table
    assert str(Path(small["translation"].folder).parent) not in table
