"""The progress of a run: thinned, live while it goes on, and read from whatever is there."""

from __future__ import annotations

import json
import os
import time

import pytest

from regard.checkpoints.locations import ModelLocation
from regard.service.training_progress import is_live, thin_out, total_steps, training_curves


def write(run, events, recipe="[training]\nsteps = 5000\n"):
    run.mkdir(exist_ok=True)
    lines = "".join(f"{json.dumps(event)}\n" for event in events)
    (run / "metrics.jsonl").write_text(lines + '{"event": "step", "st', encoding="utf-8")
    (run / "recipe.toml").write_text(recipe, encoding="utf-8")
    return ModelLocation(run / "model", run)


def step(number, loss=1.0):
    return {"event": "step", "step": number, "loss": loss}


def test_a_long_curve_is_thinned_to_its_means():
    points = [(n + 1, float(n)) for n in range(10_000)]
    thin = thin_out(points)
    assert len(thin) == 1000
    assert thin[0] == {"step": 10, "loss": 4.5}
    assert thin[-1]["step"] == 10_000
    assert thin_out(points[:3]) == [{"step": n + 1, "loss": float(n)} for n in range(3)]
    assert thin_out([]) == []


def test_a_run_that_goes_on_is_live(tmp_path):
    home = write(tmp_path / "run", [step(1, 9.0), step(2, 8.0)])
    told = training_curves(home)
    assert told["live"] is True
    assert told["total"] == 5000
    assert [point["step"] for point in told["steps"]] == [1, 2]
    with (tmp_path / "run" / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(step(3)) + "\n")
    assert [point["step"] for point in training_curves(home)["steps"]] == [1, 2, 3]


def test_a_run_that_has_ended_is_not(tmp_path):
    home = write(tmp_path / "run", [step(1), {"event": "finished", "step": 1, "reason": "steps"}])
    assert training_curves(home)["live"] is False
    quiet = write(tmp_path / "quiet", [step(1)])
    long_ago = time.time() - 3600
    os.utime(quiet.run / "metrics.jsonl", (long_ago, long_ago))
    assert training_curves(quiet)["live"] is False
    assert is_live(tmp_path / "nowhere", []) is False


@pytest.mark.parametrize("recipe", ["", "[training]\n", "training = 3\n", "[training]\nsteps = 'x'\n", "[["])
def test_settings_that_do_not_say_how_long(tmp_path, recipe):
    home = write(tmp_path / "run", [step(7)], recipe)
    assert total_steps(home.run) is None
    assert training_curves(home)["total"] == 7


def test_a_loss_that_is_none_is_passed_on_as_none(tmp_path):
    from regard.service.app import json_response

    home = write(tmp_path / "run", [step(1, None), step(2)])
    assert b'{"step":1,"loss":null}' in bytes(json_response(training_curves(home)).body)


def test_a_model_without_a_run_has_no_course(tmp_path):
    assert training_curves(ModelLocation(tmp_path))["steps"] == []


def test_the_training_curve_is_of_the_same_quantity_as_validation(tmp_path):
    for name, extra in (("new", {"cross_entropy": 0.75}), ("older", {})):
        home = ModelLocation(tmp_path / name / "model", tmp_path / name)
        (tmp_path / name / "model").mkdir(parents=True)
        lines = [json.dumps({**step(1), **extra})]
        (tmp_path / name / "metrics.jsonl").write_text("\n".join(lines), encoding="utf-8")
        assert training_curves(home)["steps"] == [{"step": 1, "loss": extra.get("cross_entropy", 1.0)}]
