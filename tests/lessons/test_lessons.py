"""Lessons: shortened runs with their controls, stored results, and how a lesson is shown."""

from __future__ import annotations

import inspect
import io
import json
import re
import runpy
import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from rich.console import Console

from regard.cli import app as command_line
from regard.demo.corpus import built_in
from regard.demo.story.model_store import trained_folder
from regard.errors import SettingError, UsageError
from regard.inference.loading import load_for
from regard.lessons.cost import SQUARE
from regard.lessons.figures import draw_png, draw_svg
from regard.lessons.head_functions import draw_links, find_function
from regard.lessons.heads import IN_TURN
from regard.lessons.lesson import (
    Chart,
    Experiment,
    Lesson,
    Result,
    See,
    Series,
    Spread,
    Verdict,
    difference,
    series,
)
from regard.lessons.registry import LESSONS
from regard.lessons.results import NAMES, refreshed, result_of, run_experiment, stored_figure, stored_result
from regard.lessons.show import page, print_lesson
from regard.lessons.six_steps import SixSteps

PROJECT = Path(__file__).parents[2]
LECTURES = PROJECT / "docs" / "lectures.md"
# Settings with which a lesson and its control run in seconds.
SHORT: dict[str, dict] = {
    "six-steps": {},
    "scaling": {"queries": 300, "steps": 60, "seeds": (1,)},
    "masking": {"steps": 120, "seeds": (1,)},
    "order": {"steps": 60, "seeds": (1,)},
    "positions": {"steps": 60, "seeds": (1,), "trained": 6, "lengths": (6, 24)},
    "similarity": {"steps": 150, "seeds": (1,), "able": 0.7},
    "projections": {"steps": 60, "seeds": (1,)},
    "heads": {"counts": (1, 8), "rounds": 2, "steps": 2, "seeds": (1,), "sentences": 8, "ablated": 2},
    "feed-forward": {"trained_sources": ("activation",), "seeds": (1,)},
    "residuals": {"steps": 120, "seeds": (1,), "depths": (1, 6)},
    "norms": {"steps": 40, "seeds": (1,)},
    "recurrence": {"distances": (24,), "steps": 50, "parts": ("recall",), "seeds": (1,)},
    "families": {"steps": 40, "width": 32, "seeds": (1,)},
    "temperature": {"temperatures": (0.1, 1.0, 2.0), "samples": 8, "factor": 1.3, "seeds": (1,)},
    "pretraining": {"labels": (64,), "steps": 300, "seeds": (1,)},
    "overfitting": {"remedies": ("dropout",), "sentences": 20, "steps": 80, "rise": 0.1, "seeds": (1,)},
    "growth": {"widths": (8, 32), "sentences": (50, 1500), "steps": 150, "seeds": (1,)},
    "context": {"tokens": (256, 512, 1024, 2048), "rounds": 2},
    "cost": {"widths": (64, 256), "rounds": 2},
    "meaning": {"pairs": 40, "seeds": (1,)},
    "patches": {"steps": 80, "seeds": (1,), "able": 0.6},
    "captions": {"steps": 160, "sound_steps": 30, "seeds": (1,), "able": 0.05},
}


# Seconds that a work takes in lessons whose verdict is about time, so that no test depends on the machine.
SECONDS: dict[str, Callable[[str], float]] = {
    "heads": lambda work: 8.0 if work == IN_TURN else 1.0,
    "cost": lambda work: 1.0 if work == "matrices" else LARGEST / (2 * SQUARE**3),
}
LARGEST = LESSONS["cost"](**SHORT["cost"]).predicted(SHORT["cost"]["widths"][-1])["operations"]


@cache
def short(name: str) -> Result:
    """The result of a shortened run."""
    lesson = LESSONS[name](**SHORT[name])
    (experiment, seconds), (control, more) = (run_quietly(one) for one in (lesson, lesson.control()))
    return result_of(lesson, experiment, control, seconds + more)


def run_quietly(lesson: Lesson) -> tuple[Experiment, float]:
    """Run without progress, and with fixed times if they decide."""

    def alternate(works, rounds):
        for work in works.values():
            work()
        return {name: [SECONDS[lesson.name](name)] * rounds for name in works}

    module = sys.modules[type(lesson).__module__]
    fixed = patch.object(module, "alternate", alternate) if lesson.name in SECONDS else nullcontext()
    with fixed:
        return run_experiment(lesson, lambda line: None)


@pytest.mark.parametrize("name", list(LESSONS))
def test_a_short_run_has_the_stored_verdict_and_its_control_the_opposite(name):
    stored = stored_result(name)
    assert stored is not None, f"{name} has no stored result; python docs/lessons.py {name} makes it"
    assert short(name).experiment.verdict.holds == stored.experiment.verdict.holds
    assert short(name).control.verdict.holds != stored.experiment.verdict.holds
    if "seeds" in LESSONS[name].model_fields:
        check_lists_of_seeds(LESSONS[name](), stored.experiment.measured, short(name).experiment)


def check_lists_of_seeds(lesson, measured, shortened):
    """`of_seed` takes one entry of just those lists that have an entry for each seed."""
    for path in lists_that_differ(measured, lesson.of_seed(measured, 0)):
        found = value_at(shortened.measured, path)
        assert found is None or len(found) == len(shortened.settings["seeds"]), path


@pytest.mark.parametrize("name", list(LESSONS))
def test_a_stored_result_is_of_the_present_settings(name):
    stored, lesson = stored_result(name), LESSONS[name]()
    assert stored is not None
    assert stored.is_controlled
    assert stored.experiment.settings == lesson.model_dump(mode="json")
    assert stored.control.settings == lesson.control().model_dump(mode="json")
    assert (stored.claim, stored.text) == (lesson.claim, lesson.text())
    assert stored.places == list(lesson.places)
    measured = stored.experiment.measured
    assert lesson.verdict(measured) == stored.experiment.verdict
    assert lesson.control().verdict(stored.control.measured) == stored.control.verdict
    assert as_json(lesson.tables(measured)) == as_json(stored.tables)
    figure = stored_figure(name)
    assert f"Matplotlib v{version('matplotlib')}" not in figure or figure == draw_svg(lesson.charts(measured))


def test_stored_results_are_of_the_shipped_models():
    meaning, temperature = (stored_result(name) for name in ("meaning", "temperature"))
    assert meaning is not None
    assert temperature is not None
    banks = run_quietly(LESSONS["meaning"]())[0].measured["cosines"]
    np.testing.assert_allclose(banks, meaning.experiment.measured["cosines"], atol=1e-3)
    quick = LESSONS["temperature"](temperatures=(1.0,), samples=1, seeds=(1,))
    written, known = (
        measured["temperatures"]["1"][0]["entropy"]
        for measured in (run_quietly(quick)[0].measured, temperature.experiment.measured)
    )
    assert written == pytest.approx(known, abs=1e-3)


def test_stored_functions_of_heads_are_of_the_shipped_model():
    stored, translator = stored_result("heads"), load_for("translate", trained_folder("demo"))
    assert stored is not None
    for name, known in stored.experiment.measured["functions"].items():
        links = draw_links(name, built_in(), translator.tokenizers.source, LESSONS["heads"]().sentences)
        found = find_function(translator, links, ablated=1)
        assert found[:2] == (known["layer"], known["head"]), name
        assert found[2:4] == pytest.approx((known["share"], known["others"]), abs=1e-3), name


def as_json(tables):
    """Tables as they are stored."""
    return json.loads(json.dumps(list(map(asdict, tables))))


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
    assert Spread.compare([0.5, 0.6], [0.5, 0.5]) == "0.55 (0.50 to 0.60) and 0.50, which is no difference"
    assert Spread.compare([0.9], [0.5]) == "0.90 and 0.50"
    assert Spread.of_times([1.0, 2.0, 9.0]) == (2.0, 1.5, 5.5)
    assert Spread.of([1.0, 2.0, 6.0]) == (3.0, 1.0, 6.0)
    assert Spread.of([1.0, 1.0]).write() == "1.00"
    assert Spread.of([0.1] * 3) == (0.1, 0.1, 0.1)
    assert series("a", [1], [[1.0, 3.0]]) == Series("a", (1,), (2.0,), (1.0,), (3.0,))


def test_the_words_of_a_verdict():
    assert Verdict(True, "").words == "holds"
    assert Verdict(False, "", "anything").words == "does not hold"
    assert Verdict(True, "", "keys are wide").words == "holds if keys are wide"
    assert Verdict(False, "", depends_on_seed=True).words == "does not hold (depends on the seed)"


def test_a_verdict_that_depends_on_the_seed_says_so():
    lesson, stored = LESSONS["similarity"](), stored_result("similarity")
    assert stored is not None
    measured = json.loads(json.dumps(stored.experiment.measured))
    assert not lesson.verdict(measured).depends_on_seed
    measured["cosine"][1]["accuracy"] = 0.0
    verdict = lesson.verdict(measured)
    assert verdict.depends_on_seed
    assert verdict.reason.endswith("Judged by one seed alone, the claim holds for 2 of 3 seeds.")


def test_cases_are_not_seeds_even_if_there_are_as_many():
    lesson = LESSONS["scaling"](key_widths=(1, 4, 16))
    gradients = [[{"gradient": width + seed / 10} for seed in (1, 2, 3)] for width in (1, 4, 16)]
    measured = {"random": {"divided": gradients}, "losses": {"divided": [[1.0], [2.0], [3.0]]}}
    assert lesson.of_seed(measured, 1) == {
        "random": {"divided": [[{"gradient": 1.2}], [{"gradient": 4.2}], [{"gradient": 16.2}]]},
        "losses": {"divided": [[2.0]]},
    }


@pytest.mark.parametrize("name", list(LESSONS))
def test_a_terminal_of_80_columns_shows_every_number(name):
    result, console = stored_result(name), Console(record=True, width=80, file=io.StringIO())
    assert result is not None
    print_lesson(result, console)
    shown = console.export_text()
    assert "…" not in shown  # a cell that is cut
    words = " ".join(shown.split())
    for text in (result.text["rule"], result.text["control_words"]):
        assert text.replace("`", "") in words


def lists_that_differ(first, second, path=()):
    """The paths of the lists that are shorter in the second."""
    if isinstance(first, dict):
        pairs = [(first[name], second[name], (*path, name)) for name in first]
    elif isinstance(first, list) and len(first) == len(second):
        pairs = [(one, other, (*path, 0)) for one, other in zip(first[:1], second[:1], strict=True)]
    else:
        return [path] if isinstance(first, list) else []
    return [found for one, other, further in pairs for found in lists_that_differ(one, other, further)]


def value_at(measured, path):
    """The value at a path of keys and places, or None where a shortened run has no such place."""
    for step in path:
        try:
            measured = measured[step]
        except (KeyError, IndexError):
            return None
    return measured


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
    axis = 'id="matplotlib.axis_'
    assert draw_svg([chart] * 3).count(axis) == 3 * text.count(axis)  # the fourth place is empty


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
    with pytest.raises(SettingError, match=r"steps \(0\) must be at least 1"):
        LESSONS["order"](steps=0)
    with pytest.raises(SettingError, match=r"lengths \(-6\) must be at least 1"):
        LESSONS["positions"](lengths=(6, -6))
    with pytest.raises(SettingError, match="seeds is empty; give it at least one value"):
        LESSONS["order"](seeds=[])
    with pytest.raises(SettingError, match="temperatures must contain 1, which is plain softmax"):
        LESSONS["temperature"](temperatures=(0.5, 2.0))
    with pytest.raises(SettingError, match="kind"):
        LESSONS["context"](kind="fussed")
    assert LESSONS["order"](seeds=(0,)).seeds == (0,)
    with pytest.raises(UsageError, match="unknown lesson 'oder'; did you mean order"):
        stored_result("oder")


def test_the_page_of_all_lessons_is_of_the_stored_results():
    write_page = runpy.run_path(str(PROJECT / "docs" / "lessons.py"))["write_page"]
    assert (PROJECT / "docs" / "lessons.md").read_text(encoding="utf-8") == write_page(), (
        "run docs/lessons.py"
    )


@pytest.mark.parametrize("lesson", LESSONS.values())
def test_what_else_shows_the_idea_is_a_command_that_works(lesson, capsys):
    for command in filter(None, (place.command for place in lesson.places)):
        assert command_line.run(shlex.split(command)[1:]) == 0
        assert capsys.readouterr().out


def test_a_place_is_a_command_or_a_view_that_exists():
    assert See("All steps", "regard by-hand B", "tab=byhand&example=B").ways == (
        "regard by-hand B",
        "/studio#tab=byhand&example=B",
    )
    with pytest.raises(SettingError, match="tab"):
        See("All steps", view="tab=hand")
    with pytest.raises(UsageError, match="names no command and no view"):
        See("All steps")


def test_words_and_tables_of_a_stored_result_follow_the_code():
    class Other(SixSteps):
        claim = "Another claim."

    stored = stored_result("six-steps")
    assert stored is not None
    again = refreshed(stored, Other())
    assert (again.claim, again.date, again.experiment) == ("Another claim.", stored.date, stored.experiment)
    with pytest.raises(UsageError, match="stored with other settings"):
        refreshed(stored, Other(rounding=2.0))
