"""The calculator against what torch counts: operations, activations, optimizer states; and its properties."""

from __future__ import annotations

import dataclasses
import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.cli.app import run
from regard.model.transformer import build_model
from regard.runs.cluster import Device, Job, estimate, rank_bytes, sent_bytes
from regard.runs.plan import plan_here
from regard.runs.recipe import Recipe, find_task
from regard.runs.timing import Pace, with_measured_precision
from regard.runs.toml import read_overrides
from regard.runs.toys import builtin_data
from regard.text.collate import collate_windows
from regard.training.optimizers import build_optimizer

SMALL = {"layers": 3, "width": 64, "heads": 4, "feed_forward_width": 192, "context": 32, "dropout": 0.1}


def small_job(changes: dict | None = None, **training) -> tuple[Recipe, Job]:
    """A small language model and its job."""
    changes = {
        "model": SMALL,
        "tokenizer": {"vocabulary": 300},
        "training": {"replicas": 1, **training},
        **(changes or {}),
    }
    recipe = Recipe.load("language-model", changes)
    return recipe, Job.of(recipe)


def objective_of(recipe: Recipe, job: Job) -> torch.nn.Module:
    return find_task(recipe.task).objective(build_model(job.config)).train()


def windows(rows: int, vocabulary: int = 300):
    ids = np.random.default_rng(1).integers(5, vocabulary, (rows, 33))
    return collate_windows(list(ids), 0)


def test_operations_are_those_that_torch_counts():
    explicit = {"architecture": {"attention_dropout": 0.1}, "tokenizer": {"kind": "word", "vocabulary": 64}}
    recipe, job = small_job(explicit)  # torch does not count fused attention, and a part of the output layer
    module = objective_of(recipe, job)
    with FlopCounterMode(display=False) as counter:
        loss, tokens = module(windows(16, 64))
        loss.backward()
    assert job.flops_per_token == pytest.approx(counter.get_total_flops() / tokens, rel=0.1)


@pytest.mark.parametrize("feed_forward_width", [128, 256])
def test_activations_are_those_that_autograd_keeps(feed_forward_width):
    recipe, job = small_job({"model": {**SMALL, "feed_forward_width": feed_forward_width}})
    module = objective_of(recipe, job)
    weights = {p.untyped_storage().data_ptr() for p in module.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        _, tokens = module(windows(16))
    size = sum(tensor.untyped_storage().nbytes() for place, tensor in kept.items() if place not in weights)
    assert job.activation_bytes * tokens == pytest.approx(size, rel=0.15)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_states_are_those_that_the_optimizer_has(optimizer):
    recipe, job = small_job({"optimizer": {"name": optimizer}})
    module = objective_of(recipe, job)
    updated = build_optimizer(module, recipe.trainer_settings())
    module(windows(2))[0].backward()
    updated.step()
    states = [value for state in updated.state.values() for value in state.values() if torch.is_tensor(value)]
    size = sum(tensor.nbytes for tensor in states if tensor.numel() > 1)
    whole = size + 2 * sum(p.nbytes for p in module.parameters())
    assert job.state_bytes() == pytest.approx(whole, rel=0.01)


def test_ddp_repeats_states_and_fsdp_divides_them():
    ddp, fsdp = (small_job({"distributed": {"strategy": name}})[1] for name in ("ddp", "fsdp"))
    assert rank_bytes(ddp, 8) >= rank_bytes(ddp, 1) - ddp.activation_bytes * ddp.step_tokens
    assert rank_bytes(fsdp, 1) - rank_bytes(fsdp, 64) > 0.9 * fsdp.state_bytes()
    assert sent_bytes(ddp, 1) == 0
    assert sent_bytes(ddp, 1000) == pytest.approx(2 * 4 * ddp.weights, rel=0.01)


def test_more_devices_take_less_time_until_they_mostly_communicate():
    job = Job.of(Recipe.load("paper-big"))
    found = [estimate(job, Device(price=2.0), gpus) for gpus in (1, 8, 64, 512)]
    assert found[0].days > found[1].days
    assert found[3].cost > found[2].cost > found[1].cost > 0
    assert found[3].compute_seconds / found[3].step_seconds < found[1].compute_seconds / found[1].step_seconds
    slower = estimate(job, dataclasses.replace(Device(), teraflops=31.2), 1)
    assert slower.days == pytest.approx(10 * found[0].days, rel=0.01)


def test_plan_says_what_devices_need(capsys):
    assert run(["plan", "paper-base", "--gpus", "8", "--price", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"]
    assert found["cost"] == pytest.approx(found["days"] * 24 * 8 * 2)
    assert run(["plan", "paper-big", "--gpus", "8", "--memory", "1"]) == 0
    assert "does not fit: set distributed.strategy to fsdp" in capsys.readouterr().out
    assert run(["plan", "translation", "--gpus", "8", "--minutes", "5"]) == 2
    assert "minutes are measured on this machine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--price", "2"], "--price is about devices"),
        (["--node-bandwidth", "9", "--memory", "3"], "--memory is about devices"),
        (["--gpus", "8", "--text", "a.txt"], "--text names text, which --gpus does not read"),
        (["--gpus", "8", "--price", "inf"], "invalid value for '--price'"),
        (["--gpus", "8", "--teraflops", "nan"], "invalid value for '--teraflops'"),
    ],
)
def test_plan_refuses_options_without_effect_and_values_without_meaning(options, message, capsys):
    assert run(["plan", "language-model", *options]) == 2
    assert message in capsys.readouterr().err


def test_plan_reads_the_text_and_measures_this_machine(tmp_path, capsys):
    files = [
        part for name, path in builtin_data("translation", tmp_path).items() for part in (f"--{name}", path)
    ]
    small = ["model.width=16", "model.layers=1", "model.heads=2", "training.steps=40", "training.threads=1"]
    options = [part for setting in small for part in ("--set", setting)]
    few = [tmp_path / name for name in ("few.source", "few.target")]
    for path in few:
        path.write_text("a b c\n" * 7, encoding="utf-8")
    files += ["--valid-source", str(few[0]), "--valid-target", str(few[1])]
    before = sorted(tmp_path.iterdir())
    assert run(["plan", "translation", *files, *options]) == 0
    assert "valid: 7 of 7 lines" in capsys.readouterr().out
    assert run(["plan", "translation", *files, *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recipe"]["training"]["steps"] == 40
    assert (
        found["total_seconds"]
        > found["seconds"]["steps"]
        == pytest.approx(40 * found["pace"]["step_seconds"])
    )
    assert sorted(tmp_path.iterdir()) == before


def test_plan_measures_the_precision_that_a_run_would_take(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.runs.machine.half_speed", lambda device: 3.0)
    monkeypatch.setattr("regard.runs.plan.measure_pace", lambda *_, **__: Pace(1.0, 10, 1000, 5))
    monkeypatch.setattr(
        "regard.runs.plan.with_measured_precision",
        partial(
            with_measured_precision,
            measure=lambda recipe, *_: Pace(1.0 + (recipe.training.precision == "float32"), 10, 1000, 5),
        ),
    )
    changes = {"data": builtin_data("translation", tmp_path), "training": {"precision": "auto"}}
    found = plan_here("translation", changes)
    assert found.values["recipe"]["training"]["precision"] == "bfloat16"
    assert any(line.startswith("precision bfloat16") for line in found.lines)


def test_the_plans_of_the_page_are_those_of_the_calculator():
    page = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (base|big|1B) \| (\d+) \| ([\d.]+) GB \| ([\d,]+) \| (\d+) % \| ([\d.]+) h \| ([\d,]+) \|$",
        page,
        re.M,
    )
    assert len(rows) == 9
    for name, gpus, memory, speed, computing, hours, cost in rows:
        found = estimate(planned(name), Device(price=2.0), int(gpus))
        assert f"{found.memory / 1e9:.1f}" == memory
        assert f"{found.tokens_per_second / 1000:,.0f}" == speed
        assert f"{100 * found.compute_seconds / found.step_seconds:.0f}" == computing
        assert f"{24 * found.days:.1f}" == hours
        assert f"{found.cost:,.0f}" == cost


def planned(name: str) -> Job:
    """A job of the page."""
    if name != "1B":
        return Job.of(Recipe.load(f"paper-{name}", {"training": {"precision": "bfloat16"}}))
    page = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.startswith("regard plan language-model"))
    words = line.split()
    settings = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    return Job.of(Recipe.load("language-model", read_overrides(settings)))
