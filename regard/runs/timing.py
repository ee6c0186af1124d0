"""How long a run takes on this machine: real steps of its model on its batches, and the time of all else."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import torch

from regard import ranks
from regard.model.config import ModelConfig
from regard.model.transformer import count_parameters
from regard.runs.prepared_data import PreparedData, make_model, training_batches, training_objective
from regard.runs.recipe import Recipe, find_task
from regard.training.events import Event, StepDone
from regard.training.state import seed_everything
from regard.training.trainer import Trainer

START_SECONDS = 2.5  # starting Python and importing torch, before a run can look at a clock
END_SECONDS = 3.0  # the report with its pictures, and loading the model
SAVE_SECONDS = 0.25  # a checkpoint and the copy of its model, besides its bytes
SAVED_BYTES_PER_SECOND = 150e6  # written, read back and hashed
STATE_COPIES = 4  # weights, two moments and the model folder
FIRST_STEPS = 2  # are slower, since memory is allocated
FORWARD_SHARE = 0.35  # of the time of a training step
DECODE_COST = 0.6  # decoding a token with one beam, in times of training one
SAMPLE_TOKEN_SECONDS = 0.004  # writing one token of a sample
PRECISION_SECONDS = 2.0  # for the steps that are measured in each precision
WORTH_HALF = 1.05  # speed of a step in bfloat16, in times of float32, from which its rounding is worth it


@dataclass(frozen=True)
class Pace:
    """The measured speed of a run."""

    step_seconds: float
    epoch_steps: int  # steps of one pass over the text, in one direction
    epoch_tokens: int  # tokens of the text, on all sides
    weights: int

    @property
    def token_seconds(self) -> float:
        """Seconds to train one token of any side."""
        return self.step_seconds * self.epoch_steps / self.epoch_tokens


@dataclass(frozen=True)
class Expected:
    """The seconds that a run will take from its first step on."""

    steps: float
    validation: float
    saving: float

    @property
    def total(self) -> float:
        """All of it, with the report."""
        return self.steps + self.validation + self.saving + END_SECONDS


class _Enough(Exception):
    """The stopwatch has seen enough steps."""


class _Stopwatch:
    """An observer that ends training when it has measured for some seconds."""

    def __init__(self, seconds: float, most: int):
        self.seconds, self.most = seconds, most
        self.times: list[float] = []

    def __call__(self, event: Event) -> None:
        if not isinstance(event, StepDone):
            return
        self.times.append(event.seconds)
        measured = self.times[FIRST_STEPS:]
        is_long = len(measured) >= 2 and sum(self.times) >= self.seconds
        if ranks.share(is_long or len(self.times) >= self.most):
            raise _Enough

    def mean(self) -> float:
        """The mean time of a step."""
        measured = self.times[FIRST_STEPS:] or self.times[-1:]
        return sum(measured) / len(measured)


def measure_pace(
    recipe: Recipe,
    material: PreparedData,
    seconds: float,
    most: int = 400,
    config: ModelConfig | None = None,
) -> Pace:
    """Train a new model, of this recipe or of a config, for some seconds, and forget it."""
    seed_everything(recipe.training.seed)
    model = make_model(recipe, material.words, config).to(recipe.training.device)
    task, training = find_task(recipe.task), recipe.training
    settings = recipe.trainer_settings()
    watch = _Stopwatch(seconds, most)
    trainer = Trainer(
        training_objective(recipe, material, model),
        training_batches(recipe, material),
        settings.changed(steps=settings.steps + most),
        observers=[watch],
    )
    with suppress(_Enough):
        trainer.train()
    one_way = task.batches(
        material.train, material.words, material.context, training.step_tokens, training.seed
    )
    return Pace(ranks.share(watch.mean()), len(one_way), tokens_of(material), count_parameters(model))


Measure = Callable[[Recipe, PreparedData, float], Pace]


def with_measured_precision(
    recipe: Recipe,
    material: PreparedData,
    seconds: float = PRECISION_SECONDS,
    measure: Measure = measure_pace,
    in_float32: Pace | None = None,
) -> tuple[Recipe, list[str]]:
    """The recipe with the faster precision in place of `auto`, by its own steps, and a line that says so.

    Products in bfloat16 can be twice as fast where a step of a small model is not: a step also converts
    weights and activations, and Muon computes in float32. `in_float32` is the speed in float32 if known.
    Where bfloat16 looks faster, float32 is measured again: other work may have slowed its first steps.
    """
    if recipe.training.precision != "auto":
        return recipe, []
    wide, narrow = (recipe.changed({"training": {"precision": name}}) for name in ("float32", "bfloat16"))
    full = (in_float32 or measure(wide, material, seconds)).step_seconds
    half = measure(narrow, material, seconds).step_seconds
    if full >= WORTH_HALF * half:
        full = min(full, measure(wide, material, seconds).step_seconds)
    chosen = "bfloat16" if full >= WORTH_HALF * half else "float32"
    line = f"precision {chosen}: a step takes {half:.2g} s in bfloat16 and {full:.2g} s in float32"
    return narrow if chosen == "bfloat16" else wide, [line]


def tokens_of(material: PreparedData) -> int:
    """The tokens of an epoch of the training text on all sides."""
    data = material.train
    columns = [column for name, column in data.columns.items() if name != "label"]
    if not data.weights:
        return sum(len(column.ids) for column in columns)
    return round(sum(float(column.lengths @ data.draws) for column in columns))


def expect(recipe: Recipe, material: PreparedData, pace: Pace, done: int = 0) -> Expected:
    """The time of the steps that are left, with validations and checkpoints."""
    steps = recipe.training.steps - done
    validations = _times(steps, recipe.validation.validate_every)
    saves = validations + _times(steps, recipe.checkpoints.save_every)
    return Expected(
        steps * pace.step_seconds,
        validations * validation_seconds(recipe, material, pace),
        saves * save_seconds(pace),
    )


def validation_seconds(recipe: Recipe, material: PreparedData, pace: Pace) -> float:
    """One validation: the loss of all its text, and translations, labels or samples."""
    held, settings = material.valid, recipe.validation
    columns = {name: column for name, column in held.data.columns.items() if name != "label"}
    passes = 2 if recipe.training.r_drop else 1  # of a training step; validation has one
    tokens = sum(len(column.ids) for column in columns.values())
    seconds = FORWARD_SHARE * tokens * pace.token_seconds / passes
    if "bleu" in find_task(recipe.task).metrics:
        decoded = len(held.examples) * len(columns["target"].ids) / len(held.data)
        return seconds + DECODE_COST * settings.beams * decoded * pace.token_seconds
    if "accuracy" in find_task(recipe.task).metrics:
        return 2 * seconds
    return seconds + settings.samples * settings.sample_tokens * SAMPLE_TOKEN_SECONDS


def save_seconds(pace: Pace) -> float:
    """One checkpoint."""
    return SAVE_SECONDS + STATE_COPIES * 4 * pace.weights / SAVED_BYTES_PER_SECOND


def machine_flops(device: str) -> float:
    """Operations per second of a matrix product, measured for a fraction of a second."""
    side = 768
    left, right = (torch.ones(side, side, device=device) for _ in range(2))
    best = math.inf
    for _ in range(8):
        start = time.perf_counter()
        (left @ right).sum().item()
        best = min(best, time.perf_counter() - start)
    return ranks.share(2 * side**3 / best)


def _times(steps: int, every: int | None) -> int:
    return 1 if every is None else math.ceil(steps / every)
