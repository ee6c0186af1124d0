"""Lessons: shortened runs with their controls, stored results, and how a lesson is shown."""

from __future__ import annotations

import inspect
import io
import json
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from regard.errors import SettingError, UsageError
from regard.lessons.figures import draw_png, draw_svg
from regard.lessons.lesson import Chart, Result, Series, Spread, Verdict, difference, series
from regard.lessons.registry import LESSONS
from regard.lessons.results import NAMES, run, stored_figure, stored_result
from regard.lessons.show import page, print_lesson

PROJECT = Path(__file__).parents[2]
LECTURES = PROJECT / "docs" / "lectures.md"
# Settings with which a lesson and its control run in seconds.
SHORT: dict[str, dict] = {
    "six-steps": {},
    "scaling": {"queries": 300, "steps": 60, "seeds": (1,)},
    "masking": {"steps": 120, "seeds": (1,)},
    "order": {"steps": 150, "seeds": (1,)},
    "positions": {"steps": 200, "seeds": (1,), "lengths": (12, 48)},
    "similarity": {"steps": 250, "seeds": (1,), "able": 0.6},
    "projections": {"steps": 60, "seeds": (1,)},
    "residuals": {"steps": 120, "seeds": (1,), "depths": (1, 6)},
    "norms": {"steps": 40, "seeds": (1,)},
}


@cache
def short(name: str) -> Result:
    """The result of a shortened run."""
    return run(LESSONS[name](**SHORT[name]), lambda line: None)


@pytest.mark.parametrize("name", list(LESSONS))
def test_a_short_run_has_the_stored_verdict_and_its_control_the_opposite(name):
    stored = stored_result(name)
    assert stored is not None, f"{name} has no stored result; python docs/lessons.py {name} makes it"
    assert short(name).experiment.verdict.holds == stored.experiment.verdict.holds
    assert short(name).control.verdict.holds != stored.experiment.verdict.holds


@pytest.mark.parametrize("name", list(LESSONS))
def test_a_stored_result_is_of_the_present_settings(name):
    stored, lesson = stored_result(name), LESSONS[name]()
    assert stored is not None
    assert stored.is_controlled
    assert stored.experiment.settings == lesson.model_dump(mode="json")
    assert stored.control.settings == lesson.control().model_dump(mode="json")
    assert (stored.claim, stored.text) == (lesson.claim, lesson.text())
    measured = stored.experiment.measured
    assert lesson.judge(measured) == stored.experiment.verdict
    assert lesson.control().judge(stored.control.measured) == stored.control.verdict
    assert [table.title for table in lesson.tables(measured)] == [table.title for table in stored.tables]
    assert stored_figure(name).startswith("<svg")


def test_lessons_are_listed_in_order_and_are_small():
    assert tuple(LESSONS) == NAMES == tuple(SHORT)
    folder = PROJECT / "regard" / "lessons" / "results"
    files = sorted(folder.iterdir())
    assert {file.stem for file in files} == set(NAMES)
    assert sum(file.stat().st_size for file in files) < 2_000_000


@pytest.mark.parametrize("lesson", LESSONS.values())
def test_a_lesson_names_rows_of_the_lectures(lesson):
    rows = re.findall(r"^\| (\w+) \|", LECTURES.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(lesson.lecture_rows) <= set(rows)
    assert lesson.lecture_rows
    lines = len(inspect.getsourcelines(sys.modules[lesson.__module__])[0])
    assert lines < 200, f"{lesson.name} has {lines} lines"


def test_a_result_survives_json():
    result = short("six-steps")
    again = Result.from_dict(json.loads(json.dumps(result.as_dict())))
    assert json.dumps(again.as_dict()) == json.dumps(result.as_dict())


def test_a_difference_smaller_than_the_spread_is_none():
    assert difference([0.5, 0.6], [0.52, 0.56]) == 0.0
    assert difference([0.9, 0.92], [0.5, 0.52]) == pytest.approx(0.4)
    assert Spread.of([1.0, 2.0, 6.0]) == (3.0, 1.0, 6.0)
    assert Spread.of([1.0, 1.0]).write() == "1.00"
    assert series("a", [1], [[1.0, 3.0]]) == Series("a", (1,), (2.0,), (1.0,), (3.0,))


def test_the_words_of_a_verdict():
    assert Verdict(True, "").words == "holds"
    assert Verdict(False, "", "anything").words == "does not hold"
    assert Verdict(True, "", "keys are wide").words == "holds if keys are wide"


@pytest.mark.parametrize("kind", ["lines", "bars", "heat"])
def test_figures_follow_light_and_dark(kind):
    rows = tuple(Series(name, ("x", "y"), (1.0, 2.0), (0.5, 1.5), (1.5, 2.5)) for name in "ab")
    chart = Chart("A title", "x", "y", rows, kind=kind, reference=(1.0, "chance"))
    text = draw_svg([chart])
    assert "currentColor" in text
    assert "prefers-color-scheme" in text
    assert "#123456" not in text
    assert draw_svg([chart]) == text
    assert draw_png([chart])[:4] == b"\x89PNG"


def test_the_page_and_the_terminal_say_the_same():
    result = short("six-steps")
    html = page(result, "<svg></svg>")
    console = Console(record=True, width=200, file=io.StringIO())
    print_lesson(result, console)
    shown = console.export_text()
    for text in (result.claim, result.experiment.verdict.reason[:60], result.control.verdict.words):
        assert text in html
        assert text in shown
    assert "http" not in html.replace("http-equiv", "")


def test_settings_are_checked():
    with pytest.raises(SettingError, match="unknown setting 'stepps'"):
        LESSONS["order"](stepps=3)
    with pytest.raises(UsageError, match="unknown lesson 'oder'; did you mean order"):
        stored_result("oder")


def test_the_page_of_all_lessons_is_of_the_stored_results():
    sys.path.insert(0, str(PROJECT / "docs"))
    try:
        import lessons
    finally:
        sys.path.pop(0)
    assert (PROJECT / "docs" / "lessons.md").read_text(encoding="utf-8") == lessons.write_page()
