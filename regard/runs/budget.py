"""A time budget: examine the text, measure the machine, and choose the settings by the rules of sizing.py."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard import ranks
from regard.errors import SettingError
from regard.model.config import SIZES, ModelConfig
from regard.runs.corpora import training_files
from regard.runs.display import duration
from regard.runs.prepared_data import PreparedData, read_start
from regard.runs.recipe import Recipe, find_task
from regard.runs.sizing import (
    FEW_STEPS,
    SHAPE,
    Choice,
    Choices,
    Length,
    Shape,
    Text,
    Tokens,
    best_shape,
    choose_length,
    choose_text,
    choose_training,
    shapes,
)
from regard.runs.timing import (
    END_SECONDS,
    PRECISION_SECONDS,
    START_SECONDS,
    Measure,
    Pace,
    expect,
    machine_flops,
    measure_pace,
    save_seconds,
    tokens_of,
    validation_seconds,
    with_measured_precision,
)
from regard.runs.toml import merged
from regard.text.augment.bpe_dropout import has_merges
from regard.text.corpus import DUPLICATE, SeenTexts
from regard.text.lines import is_packed

EFFICIENCY = 0.4  # share of the speed of a matrix product that training reaches, before it is measured
MEASURED_SHARE = 0.012  # of the budget, for each size that is tried
MOST_TRIALS = 4  # sizes that are measured
CORRECTIONS = 2  # of the number of steps
PREPARATION = 8  # times that reading takes: at least so long take the split, the tokenizer and encoding
PACKED = 3  # bytes of text in a byte of a gzip or Parquet file
VALIDATION_SHARE = 0.06  # of the budget, at most, unless one validation takes longer
# Choices that a trial has measured the speed of, besides the size.
MEASURED = {
    "training.batch_tokens", "training.gradient_accumulation", "training.replicas", "training.r_drop",
}  # fmt: skip
# Lengths in steps or epochs; they are scaled where a recipe of a person's own has its number of steps.
LENGTHS = (
    "schedule.warmup_steps", "validation.validate_every", "checkpoints.save_every",
    "checkpoints.snapshot_every", "augment.bidirectional_epochs", "augment.bpe_dropout_epochs",
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """A size that was measured, and the settings that go with it."""

    shape: Shape
    reason: str
    choices: Choices
    recipe: Recipe
    pace: Pace

    def is_like(self, shape: Shape, recipe: Recipe) -> bool:
        """Whether its measured speed is that of this size, batch and loss."""
        ratio = self.recipe.training.step_tokens / recipe.training.step_tokens
        is_as_dear = bool(self.recipe.training.r_drop) == bool(recipe.training.r_drop)
        return self.shape == shape and is_as_dear and 0.75 < ratio < 1.33

    def with_choices(self, choices: Choices, recipe: Recipe) -> Trial:
        """The trial with these choices, made for its measured speed; what was measured stays."""
        made = {name: choice for name, choice in choices.made.items() if name not in MEASURED}
        for name, kept in self.choices.made.items():
            if name in MEASURED:
                made[name] = replace(kept, reason=choices.made.get(name, kept).reason)
        chosen = Choices(choices.given, made)
        return replace(self, choices=chosen, recipe=recipe.changed(chosen.tables()))


class Budget:
    """The time of one run, from its begin to its report.

    `examined` gives the recipe with which text is encoded, `sized` the one with which it is trained.
    """

    def __init__(
        self,
        recipe: Recipe,
        measure: Measure = measure_pace,
        flops: Callable[[str], float] = machine_flops,
        clock: Callable[[], float] = time.monotonic,
    ):
        assert recipe.training.minutes is not None
        self.seconds = 60 * recipe.training.minutes
        self.measure, self.clock = measure, clock
        self.begun = clock() - START_SECONDS
        self.rules = find_task(recipe.task).rules
        self.choices = Choices(given_values(recipe))
        self.flops = EFFICIENCY * flops(recipe.training.device)
        self.text: Text | None = None

    def left(self) -> float:
        """The seconds that are left for training, validation and checkpoints."""
        spent = ranks.share(self.clock() - self.begun)
        return self.seconds - spent - END_SECONDS

    def examined(self, recipe: Recipe) -> Recipe:
        """Read the text once, unless it is too much for the time, and choose vocabulary and context."""
        self.text = ranks.from_first(lambda: examine(recipe, self.seconds / PREPARATION, self.clock))
        if not recipe.starts_from:
            operations = self.flops * self.seconds
            kind = None if recipe.tokenizer.init_from else recipe.tokenizer.kind
            choose_text(self.choices, self.rules, self.text, operations, kind)
        return recipe.changed(self.choices.tables())

    def sized(self, recipe: Recipe, material: PreparedData) -> tuple[Recipe, list[str]]:
        """The recipe with numbers in place of minutes, and what was chosen and why."""
        tokens = _tokens(material)
        trial = self._best_trial(recipe, material, tokens)
        seconds = min(PRECISION_SECONDS, MEASURED_SHARE * self.seconds)
        measured, about = with_measured_precision(
            trial.recipe, material, seconds, self.measure, in_float32=trial.pace
        )
        precision = measured.training.precision
        recipe = recipe.changed({"training": {"precision": precision}})
        if about and precision == "bfloat16":  # the faster steps may allow a larger model
            trial = self._best_trial(recipe, material, tokens)
        length = self._length(trial.recipe, material, trial.pace)
        left = self.left()
        for _ in range(CORRECTIONS):  # intervals that were given may cost more than the rules assume
            final = self._with_length(recipe, trial, tokens, length)
            missing = left - expect(final, material, trial.pace).total + END_SECONDS
            length = replace(length, steps=length.steps + math.floor(missing / trial.pace.step_seconds))
            if length.steps < FEW_STEPS:
                self._refuse(f"{max(0, length.steps)} steps of {duration(trial.pace.step_seconds)}")
        final = self._with_length(recipe, trial, tokens, length)
        return final, [
            *self._head(trial, tokens),
            *about,
            *self._chosen(),
            self._end(final, material, trial.pace),
        ]

    def _with_length(self, recipe: Recipe, trial: Trial, tokens: Tokens, length: Length) -> Recipe:
        """The recipe with this number of steps, and with what follows from it."""
        self.choices = Choices(trial.choices.given, trial.choices.made)
        seconds = f"{trial.pace.step_seconds:.3g} s a step, measured"
        self.choices.choose("training.steps", length.steps, seconds)
        self._scale_lengths(recipe, length.steps)
        rate, is_new = trial.recipe.optimizer.learning_rate, not recipe.starts_from
        choose_length(self.choices, self.rules, tokens, length, rate, is_new)
        return recipe.changed(merged(self.choices.tables(), {"training": {"minutes": None}}))

    def _best_trial(self, recipe: Recipe, material: PreparedData, tokens: Tokens) -> Trial:
        """The size that the rules prefer at measured speeds, or the last of a few that were measured."""
        trials: list[Trial] = []
        while len(trials) < MOST_TRIALS:
            shape, reason, choices = self._next_choice(recipe, material, tokens, trials)
            wanted = recipe.changed(choices.tables())
            for trial in trials:
                if trial.is_like(shape, wanted):
                    return self._informed(trial, recipe, tokens)
            pace = self.measure(wanted, material, MEASURED_SHARE * self.seconds)
            self.flops = self.rules.flops(shape, tokens.vocabulary) / pace.token_seconds
            trials.append(Trial(shape, reason, choices, wanted, pace))
        return self._informed(trials[-1], recipe, tokens)

    def _informed(self, trial: Trial, recipe: Recipe, tokens: Tokens) -> Trial:
        """A trial with what follows from its own speed, in place of an estimate."""
        seen = self._training_seconds() / trial.pace.token_seconds
        return trial.with_choices(self._choices_for(trial.shape, tokens, seen, recipe), recipe)

    def _next_choice(
        self, recipe: Recipe, material: PreparedData, tokens: Tokens, trials: list[Trial]
    ) -> tuple[Shape, str, Choices]:
        """The size that the rules prefer after these trials, why, and what goes with it."""
        rules = self.rules
        measured = {trial.shape: trial.pace.token_seconds for trial in trials}
        seconds = self._training_seconds()

        def seen(shape: Shape) -> float:
            return seconds / (measured.get(shape) or rules.flops(shape, tokens.vocabulary) / self.flops)

        ladder = [_shape_of(recipe)] if recipe.starts_from else shapes(rules, self.choices.given)
        shape, reason = best_shape(rules, ladder, tokens, seen)
        return shape, reason, self._choices_for(shape, tokens, seen(shape), recipe)

    def _choices_for(self, shape: Shape, tokens: Tokens, seen: float, recipe: Recipe) -> Choices:
        """The choices for a model of this shape that sees so many tokens."""
        choices = Choices(self.choices.given, self.choices.made)
        choose_training(choices, self.rules, shape, tokens, seen, is_new=not recipe.starts_from)
        return choices

    def _training_seconds(self) -> float:
        """The seconds that are left for steps."""
        seconds = (1 - VALIDATION_SHARE) * self.left()
        if seconds <= 0:
            self._refuse("no time for training")
        return seconds

    def _length(self, recipe: Recipe, material: PreparedData, pace: Pace) -> Length:
        """Steps and validations that fill the time that is left."""
        left = self.left()
        one = validation_seconds(recipe, material, pace) + save_seconds(pace)
        validations = max(1, min(self.rules.validations, int(VALIDATION_SHARE * left / one)))
        steps = int((left - validations * (one + save_seconds(pace))) / pace.step_seconds)
        return Length(max(1, steps), pace.epoch_steps, validations)

    def _refuse(self, rest: str) -> None:
        spent = self.seconds - END_SECONDS - self.left()
        raise SettingError(
            f"minutes ({self.seconds / 60:g}): reading the text and measuring took {duration(spent)}, "
            f"which leaves {rest}; give more minutes or less text"
        )

    def _scale_lengths(self, recipe: Recipe, steps: int) -> None:
        """Scale the lengths of a recipe that has a number of steps of its own."""
        if "training.steps" not in recipe.kept:
            return
        for name in (name for name in LENGTHS if name in recipe.kept - recipe.given):
            value = self.choices.given[name]
            if isinstance(value, int) and value:
                scaled = max(1, round(value * steps / recipe.training.steps))
                self.choices.made[name] = Choice(scaled, f"{value:,} scaled with the steps")

    def _head(self, trial: Trial, tokens: Tokens) -> list[str]:
        assert self.text is not None
        spent = duration(self.clock() - self.begun)
        text = f"{tokens.examples:,} examples, {tokens.count:,} tokens, {self.text.duplicates:,} duplicates"
        return [
            f"{self.seconds / 60:g} minutes for {text}; read and measured in {spent}",
            f"  a model with {trial.shape}: {trial.reason}",
        ]

    def _chosen(self) -> list[str]:
        """The choices, those with a reason first."""
        made = {
            name: (f"{name} = {_shown(choice.value)}", choice.reason)
            for name, choice in self.choices.made.items()
        }
        rest = [setting for setting, reason in made.values() if not reason]
        lines = [f"  {setting}: {reason}" for setting, reason in made.values() if reason]
        return [*lines, f"  and {', '.join(rest)}"] if rest else lines

    def _end(self, recipe: Recipe, material: PreparedData, pace: Pace) -> str:
        total = self.clock() - self.begun + expect(recipe, material, pace).total
        return f"expected to end after {duration(total)}"


def expected_time(
    recipe: Recipe, material: PreparedData, done: int = 0, config: ModelConfig | None = None
) -> list[str]:
    """A line about the time that the steps after `done` will take, after a second or two of such steps."""
    left = recipe.training.steps - done
    if left <= 0:
        return []
    most = max(1, min(50, left // 20))
    pace = measure_pace(recipe, material, 1.5, most, config)
    expected = expect(recipe, material, pace, done)
    steps = f"{left:,} steps of {pace.step_seconds:.2g} s"
    return [f"expected time {duration(expected.total)}: {steps}, validation and checkpoints"]


def examine(recipe: Recipe, seconds: float = math.inf, clock: Callable[[], float] = time.monotonic) -> Text:
    """Count the examples, characters and duplicates of the training text, in one pass of so many seconds."""
    task, seen = find_task(recipe.task), SeenTexts()
    corpus, begun = task.corpus(recipe.data), clock()
    examples = characters = repeated = size = 0
    for example in corpus:
        texts = tuple(task.texts(example))
        examples, characters = examples + 1, characters + sum(map(len, texts))
        repeated += not seen.add(*texts)
        size += sum(len(text.encode()) for text in texts)
        if clock() - begun > seconds:
            raise _too_much_text(recipe, size, seconds)
    dropped = corpus.report.skipped.get(DUPLICATE)
    return Text(examples, characters, repeated + (dropped.count if dropped else 0))


def _too_much_text(recipe: Recipe, read: int, seconds: float) -> SettingError:
    """The error for text of which this number of bytes was read in these seconds."""
    sizes = (path.stat().st_size * (PACKED if is_packed(path) else 1) for path in training_files(recipe.data))
    share = min(1.0, read / max(1, sum(sizes)))
    whole = duration(PREPARATION * seconds / share)
    return SettingError(
        f"minutes ({recipe.training.minutes:g}): in {duration(seconds)} only {100 * share:.2g} % of the text "
        f"was read, so reading and encoding all of it takes {whole} or more; give more minutes or less text"
    )


def given_values(recipe: Recipe) -> Mapping[str, Any]:
    """The settings given for this run or in a person's own file, with their values; `minutes` replaces steps.

    A size by its name is the numbers that it stands for.
    """
    values = recipe.values()
    values["model"] = {**values.get("architecture", {}), **values["model"]}
    values["architecture"] = values["model"]
    names = (recipe.given | recipe.kept) - {"training.steps", "training.minutes"}
    if "model.size" in names and not recipe.starts_from:
        numbers = (*SHAPE, *SIZES[recipe.model["size"]])
        names |= {f"model.{key}" for key in numbers if key in values["model"]}
    pairs = ((name, *name.split(".", 1)) for name in names)
    given = {name: values.get(table, {}).get(key) for name, table, key in pairs}
    if recipe.starts_from:  # the rates of fine-tuning are those of the recipe
        tables = ("model", "optimizer", "averaging")
        given |= {f"{table}.{key}": value for table in tables for key, value in values[table].items()}
    return given


def _shape_of(recipe: Recipe) -> Shape:
    """The size of the model that training starts from."""
    start = read_start(recipe)
    assert start is not None
    return Shape(*(getattr(start.config, key) for key in SHAPE))


def _tokens(material: PreparedData) -> Tokens:
    tokenizers = material.words.tokenizers
    return Tokens(
        len(material.train), tokens_of(material), tokenizers.target.vocabulary,
        has_merges(tokenizers.source), tokenizers.are_joint,
    )  # fmt: skip


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
