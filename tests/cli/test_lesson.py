"""`regard lesson`: the list, a stored result, a run, and wrong calls."""

from __future__ import annotations

import json

import pytest

from regard.cli.app import run
from regard.lessons import results


def test_the_list_for_people_and_programs(capsys):
    assert run(["lesson"]) == 0
    shown = capsys.readouterr().out
    assert "six-steps" in shown
    assert "holds" in shown
    assert run(["lesson", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"name", "claim", "verdict"} == set(listed[0])


def test_a_stored_result_is_shown_and_written(capsys, tmp_path):
    assert run(["lesson", "order", "--out", str(tmp_path)]) == 0
    assert "Which word is first?" in capsys.readouterr().out
    assert {file.name for file in tmp_path.iterdir()} == {
        f"order.{end}" for end in ("html", "json", "png", "svg")
    }


def test_all_of_them_are_written_with_one_page(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "NAMES", names := ("six-steps", "order"))
    assert run(["lesson", "--all", "--out", str(tmp_path), "--json"]) == 0
    assert [result["name"] for result in json.loads(capsys.readouterr().out)] == list(names)
    page = (tmp_path / "lessons.md").read_text(encoding="utf-8")
    for name in names:
        assert f"]({name}.svg)" in page
        assert (tmp_path / f"{name}.svg").is_file()


def test_an_experiment_is_repeated(capsys, tmp_path):
    assert run(["lesson", "six-steps", "--run", "--out", str(tmp_path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed[0]["verdict"] == "holds"
    assert json.loads((tmp_path / "six-steps.json").read_text()) == printed[0]


def test_a_control_that_does_not_differ_is_an_error(capsys):
    assert run(["lesson", "six-steps", "--run", "--set", "distinct_keys=false"]) == 1
    assert "does not hold" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["oder"], "unknown lesson 'oder'; did you mean order"),
        (["order", "--all"], "--all is for every lesson"),
        (["order", "--set", "steps=3"], "add --run"),
        (["--run"], "name a lesson, or add --all"),
        (["order", "--run", "--set", "steps=many"], "steps"),
    ],
)
def test_wrong_calls(arguments, message, capsys):
    assert run(["lesson", *arguments]) == 2
    assert message in capsys.readouterr().err
