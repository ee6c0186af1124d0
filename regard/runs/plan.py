"""A plan: what a recipe would read and build, and how long it would take; nothing is written."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import SettingError
from regard.runs.budget import Budget
from regard.runs.cluster import Device, Estimate, Job, estimate
from regard.runs.corpora import check_files
from regard.runs.display import duration
from regard.runs.machine import settle, with_precision
from regard.runs.prepared_data import PreparedData, gather, read_start
from regard.runs.recipe import Recipe, find_task
from regard.runs.timing import expect, measure_pace, with_measured_precision

MEASURED_SECONDS = 3.0


@dataclass(frozen=True)
class Plan:
    """A plan as text and as values."""

    lines: list[str]
    values: dict[str, Any]


def plan_here(name: str | Path, changes: dict[str, Any]) -> Plan:
    """Read and encode the text in memory, measure some steps here, and say what a run would take."""
    recipe = Recipe.load(name, changes)
    check_files(recipe.task, find_task(recipe.task).sources, recipe.data)
    training, about_precision = with_precision(settle(recipe.training), recipe.is_given("training.precision"))
    recipe = replace(recipe, training=training)
    budget = Budget(recipe) if recipe.training.minutes is not None else None
    recipe = recipe if budget is None else budget.examined(recipe)
    material, notes = gather(recipe), []
    if budget is not None:
        recipe, notes = budget.sized(recipe, material)
    recipe, measured = with_measured_precision(recipe, material)
    pace = measure_pace(recipe, material, MEASURED_SECONDS, most=50)
    expected = expect(recipe, material, pace)
    steps, training = recipe.training.steps, recipe.training
    model = {"parameters": pace.weights, **_sizes(recipe, material)}
    lines = [
        *material.summary(),
        "model: " + ", ".join(f"{key} {value:,}" for key, value in model.items()),
        f"batch: {training.step_tokens:,} tokens a side; {pace.epoch_steps:,} steps an epoch",
        *about_precision,
        *measured,
        *notes,
        f"{steps:,} steps of {pace.step_seconds:.3g} s ({steps / pace.epoch_steps:.3g} epochs) take "
        f"{duration(expected.steps)}, validation {duration(expected.validation)}, "
        f"checkpoints {duration(expected.saving)}; in all {duration(expected.total)} after reading",
    ]
    values = {"model": model, "recipe": recipe.values(), "pace": asdict(pace), "seconds": asdict(expected)}
    return Plan(lines, {**values, "total_seconds": expected.total})


def plan_cluster(name: str | Path, changes: dict[str, Any], device: Device, gpus: int) -> Plan:
    """An estimate for a number of devices; the text is not read."""
    recipe = Recipe.load(name, changes)
    if recipe.training.minutes is not None:
        raise SettingError("minutes are measured on this machine; give --gpus a recipe with steps")
    if recipe.starts_from:
        raise SettingError(f"init_from ({recipe.starts_from}) has no size here; give the size in [model]")
    job = Job.of(recipe)
    found = estimate(job, device, gpus)
    values = {"parameters": job.weights, "strategy": job.strategy, **asdict(found)}
    return Plan([*_about(job), *_estimate_lines(job, device, found)], values)


def _sizes(recipe: Recipe, material: PreparedData) -> dict[str, int]:
    start = read_start(recipe)
    config = start.config if start else recipe.model_config(**find_task(recipe.task).sizes(material.words))
    return config.model_dump(
        include={"layers", "width", "heads", "feed_forward_width", "vocabulary", "context"}
    )


def _about(job: Job) -> list[str]:
    config, total = job.config, job.sides * job.step_tokens * job.steps
    half = "bfloat16" if job.is_half else "float32"
    return [
        f"model: {config.family}, {job.weights:,} parameters, {job.blocks} blocks of width {config.width}",
        f"steps: {job.steps:,} of {job.step_tokens:,} tokens a side, {total:,} tokens in all",
        f"training: {job.optimizer}, {half}" + (", activation checkpointing" if job.is_checkpointed else ""),
    ]


def _estimate_lines(job: Job, device: Device, found: Estimate) -> list[str]:
    room = f"{found.memory / 1e9:.1f} of {device.memory:g} GB"
    advice = "" if found.fits else "; does not fit: " + _advice(job)
    share = found.compute_seconds / found.step_seconds
    sent, wait = found.communication_bytes / 1e9, found.communication_seconds
    lines = [
        f"memory of a rank ({job.strategy}): {room}{advice}",
        f"a step: {found.step_seconds:.3g} s, of which computing {100 * share:.0f} %; "
        f"each rank sends {sent:.3g} GB, which takes {wait:.3g} s, mostly at the same time",
        f"speed: {found.tokens_per_second:,.0f} tokens/s on {found.gpus} devices",
        f"time: {_days(found.days)}",
    ]
    return lines if found.cost is None else [*lines, f"cost: {found.cost:,.0f} at {device.price:g} an hour"]


def _advice(job: Job) -> str:
    if job.strategy == "ddp":
        return "set distributed.strategy to fsdp"
    return "set training.activation_checkpointing, or less batch_tokens and more gradient_accumulation"


def _days(days: float) -> str:
    return f"{days:.1f} days" if days >= 2 else duration(days * 86_400)
