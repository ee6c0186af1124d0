"""`regard train`, `regard evaluate` and `regard verify-resume` as a shell calls them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.cli.app import run
from regard.runs.metrics import read_metrics
from regard.runs.recipe import Recipe
from regard.runs.recipe_files import recipes
from regard.runs.toys import builtin_data, write_toy

CHANGES = {
    "model.width": 32,
    "model.heads": 4,
    "model.layers": 1,
    "model.feed_forward_width": 64,
    "tokenizer.kind": "word",
    "training.batch_tokens": 256,
    "schedule.warmup_steps": 0,
}
SMALL = [
    *(part for name, value in CHANGES.items() for part in ("--set", f"{name}={value}")),
    "--threads",
    "1",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run made on the command line."""
    folder = tmp_path_factory.mktemp("cli")
    files = write_toy(folder, pairs=60)
    test = write_toy(folder / "test", pairs=10, seed=3)
    arguments = ["--source", files["source"], "--target", files["target"], "--out", str(folder / "run")]
    tested = ["--test-source", test["source"], "--test-target", test["target"]]
    assert (
        run(["train", "translation", *arguments, *tested, *SMALL, "--quiet", "--set", "training.steps=2"])
        == 0
    )
    return folder / "run"


def one_line(capsys) -> str:
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_the_list_has_a_line_for_each_recipe(capsys):
    assert run(["train", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(recipes())
    assert run(["train", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == recipes()


def test_a_run_prints_its_scores_for_people_and_programs(capsys, trained):
    assert run(["train", "--resume", str(trained), "--set", "training.steps=3", "--quiet", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["step"], printed["reason"]) == (3, "steps")
    assert Path(printed["model"]).is_dir()
    assert {"loss", "perplexity", "bleu", "chrf"} == set(printed["scores"])


def test_what_may_change_on_the_way_can_be_given_as_options(capsys, trained, tmp_path, monkeypatch):
    moved = shutil.copytree(trained, tmp_path / "run")
    files = Recipe.load(moved / "recipe.toml").data
    for side in ("source", "target"):
        shutil.copy(getattr(files, side)[0], tmp_path / side)
    monkeypatch.chdir(tmp_path)
    options = ["--source", "source", "--target", "target", "--threads", "2"]
    assert run(["train", "--resume", "run", *options, "--set", "training.steps=5", "--quiet"]) == 0
    recipe = Recipe.load(moved / "recipe.toml")
    assert recipe.data.source == [str(tmp_path / "source")]
    assert (recipe.training.threads, recipe.training.steps) == (2, 5)
    capsys.readouterr()
    assert run(["train", "--resume", "run", "--seed", "9", "--quiet"]) == 2
    assert "this would be another run: training.seed 1, now 9" in one_line(capsys)


def test_a_run_goes_on_from_a_checkpoint_on_the_command_line(capsys, trained, tmp_path):
    moved = shutil.copytree(trained, tmp_path / "run")
    newest = max((moved / "checkpoints").glob("step-*"))
    steps = int(newest.name[5:]) + 1
    assert (
        run(["train", "--resume", str(newest), "--set", f"training.steps={steps}", "--quiet", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["step"] == steps
    (newest / "training.json").unlink()
    assert run(["train", "--resume", str(newest), "--quiet"]) == 1
    assert "training.json is missing" in one_line(capsys)


def test_progress_goes_to_stderr_and_results_to_stdout(capsys, tmp_path):
    files = builtin_data("classification", tmp_path)
    out = str(tmp_path / "run")
    arguments = ["--labelled", files["labelled"], "--out", out, *SMALL, "--set", "training.steps=1"]
    assert run(["train", "classification", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{Path(out) / 'model'}: loss ")
    assert printed.out.count("\n") == 1
    assert "step 1/1" in printed.err
    assert "validation at 1: loss" in printed.err


def test_the_report_can_be_written_again(capsys, trained):
    (trained / "report.html").unlink()
    assert run(["train", "--report", str(trained)]) == 0
    assert capsys.readouterr().out.strip() == str(trained / "report.html")
    assert run(["train", "--report", str(trained), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(trained / "report.html")}
    assert (trained / "report.html").is_file()
    assert (trained / "curves" / "loss.png").is_file()


def test_evaluate_prints_scores_with_signatures(capsys, trained):
    assert run(["evaluate", str(trained), "--beams", "1", "--threads", "1"]) == 0
    printed = capsys.readouterr().out
    assert "the run's test part, 10 examples" in printed
    assert "BLEU lower-cased" in printed
    assert "case:lc" in printed
    assert run(["evaluate", str(trained), "--beams", "1", "--json"]) == 0
    names = [score["name"] for score in json.loads(capsys.readouterr().out)["scores"]]
    assert names == ["loss", "perplexity", "BLEU", "BLEU lower-cased", "chrF2", "chrF2 lower-cased"]


def test_scores_are_not_lost_with_outputs_that_cannot_be_written(capsys, trained, tmp_path):
    outputs = tmp_path / "gone" / "outputs"
    assert run(["evaluate", str(trained), "--beams", "1", "--outputs", str(outputs)]) == 1
    printed = capsys.readouterr()
    assert "BLEU" in printed.out
    assert "No such file or directory" in printed.err
    assert run(["evaluate", str(trained), "--device", "nowhere"]) == 2
    assert "device (nowhere) cannot be used" in one_line(capsys)


def test_a_built_in_name_may_stand_on_both_sides_of_a_comparison(capsys, trained, monkeypatch):
    monkeypatch.setattr("regard.demo.story.model_store.trained_folder", lambda name: trained)
    assert run(["evaluate", "demo", "--against", "demo", "--beams", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [one["model"] for one in (printed, *printed["against"])] == [str(trained)] * 2
    assert printed["comparison"]
    monkeypatch.undo()
    monkeypatch.setenv("REGARD_CACHE", str(trained / "nowhere"))
    monkeypatch.setattr("regard.demo.story.model_store.SHIPPED", trained / "nowhere")
    assert run(["evaluate", str(trained), "--against", "demo"]) == 2
    assert "regard demo trains a new one" in one_line(capsys)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train"], 2, "no recipe was named"),
        (["train", "translatio"], 2, "did you mean translation"),
        (["train", "translation"], 2, "was given nothing"),
        (["train", "translation", "--set", "training.stps=1"], 2, "did you mean steps"),
        (["train", "translation", "--source", "gone", "--target", "gone"], 1, "no such file"),
        (["train", "--resume", "gone"], 2, "gone is no run"),
        (["train", "language-model", "--resume", "gone"], 2, "leave the recipe and other folders out"),
        (["train", "--resume", "gone", "--out", "here"], 2, "leave the recipe and other folders out"),
        (["train", "--report", "gone", "--out", "here"], 2, "leave the recipe and other options out"),
        (["train", "--report", "gone", "--seed", "3"], 2, "leave the recipe and other options out"),
        (["train", "--list", "--set", "training.steps=3"], 2, "--list shows the recipes and trains nothing"),
        (["train", "gone.toml"], 2, "cannot read gone.toml"),
        (["evaluate", "gone"], 1, "gone is not a folder"),
        (["evaluate", "gone", "--set", "training.steps=3"], 2, "means nothing to a trained model"),
        (["verify-resume", "gone"], 2, "unknown recipe 'gone'"),
        (["verify-resume", "translation", "--steps", "2"], 2, "must be 6 or more"),
    ],
)
def test_a_mistake_is_one_line(capsys, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == code
    assert message in one_line(capsys)
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process without asking it")
def test_a_signal_saves_and_the_run_goes_on(tmp_path, capsys):
    files = builtin_data("language-modeling", tmp_path)
    out = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "regard",
        "train",
        "language-model",
        "--text",
        files["text"],
        "--out",
        str(out),
    ]
    command += [*SMALL, "--quiet", "--set", "training.steps=1000000", "--set", "checkpoints.save_every=5"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, "--set", "model.context=16"], stdout=pipe, stderr=pipe, text=True
    ) as process:
        _wait_for(lambda: any(event["event"] == "saved" for event in read_metrics(out / "metrics.jsonl")))
        process.send_signal(signal.SIGTERM)
        printed = process.communicate(timeout=60)
    assert process.returncode == 143
    assert printed[1].startswith("error: ended by signal 15 after step ")
    assert printed[1].count("\n") == 1
    assert run(["complete", str(out), "a b", "--max-tokens", "2"]) == 0
    done = max(event["step"] for event in read_metrics(out / "metrics.jsonl"))
    assert run(["train", "--resume", str(out), "--set", f"training.steps={done + 2}", "--quiet"]) == 0
    steps = [event["step"] for event in read_metrics(out / "metrics.jsonl") if event["event"] == "step"]
    assert steps == list(range(1, done + 3))


def _wait_for(happened, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_list_stays_light():
    code = (
        "import sys; from regard.cli.app import run; run(['train', '--list']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "False"
