"""The rules by which a time budget becomes the settings of a run; docs/sizing.md has their measurements.

A run has two limits. Compute: how many tokens a model can see in the time that is left. Text: how many
different tokens there are. A model of N weights in its blocks should see about `TOKENS_PER_WEIGHT x N^1.5`
tokens, and have no more weights than `WEIGHTS_PER_TOKEN` for each token of the text. Beyond that, time is
spent on more passes over the text, which need dropout and strong weight decay.

The rules know amounts of text and measured speeds, and no data set by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

TOKENS_PER_WEIGHT = 1.2e-3  # tokens that N weights should see, divided by N^1.5
WEIGHTS_PER_TOKEN = 3.3  # weights of the blocks for each token of the text, both sides counted
MEMORY_SHARE = 0.1  # share of the steps in which weight decay forgets a weight, at least
MEMORY_EPOCHS = 3.3  # passes over the text in which it does, at least
LABEL_EPOCHS = 7  # passes from which a classifier needs its whole regularisation
LABEL_STEPS = 400  # steps that a classifier should have
SMALL_STEP = 1024  # tokens of all sides that are too few to be divided among cores
FEW_STEPS = 20  # a run of fewer steps has learned nothing


@dataclass(frozen=True)
class Shape:
    """The size of a model."""

    layers: int
    width: int
    heads: int
    feed_forward_width: int

    def __str__(self) -> str:
        return f"{self.layers} layers of width {self.width}"


SHAPE = tuple(field.name for field in fields(Shape))


@dataclass(frozen=True)
class Text:
    """The training text before it is encoded."""

    examples: int
    characters: int
    duplicates: int


@dataclass(frozen=True)
class Tokens:
    """The training text as the model reads it: its tokens on all sides, and the tokenizers that made them."""

    examples: int
    count: int
    vocabulary: int
    has_merges: bool = True  # whether a token can be split into those that it was merged from
    is_joint: bool = True  # whether all sides have one vocabulary


@dataclass(frozen=True)
class Choice:
    """A value for a setting, and why."""

    value: Any
    reason: str


class Choices:
    """The settings chosen so far; one that was given keeps its value."""

    def __init__(self, given: Mapping[str, Any], made: Mapping[str, Choice] | None = None):
        self.given = given
        self.made = dict(made or {})

    def choose(self, name: str, value: Any, reason: str) -> Any:
        """The value of a setting: the given one, or this one."""
        if name in self.given:
            return self.given[name]
        self.made[name] = Choice(value, reason)
        return value

    def tables(self) -> dict[str, Any]:
        """The choices as tables of a recipe."""
        tables: dict[str, Any] = {}
        for name, choice in self.made.items():
            table, _, key = name.partition(".")
            tables.setdefault(table, {})[key] = choice.value
        return tables


@dataclass(frozen=True)
class Rules:
    """What differs between tasks.

    sides              texts of an example; each passes one half of the blocks
    head_share         share of the tokens whose probabilities over the vocabulary are computed
    feed_forward       width of the feed-forward network, in widths of the model
    learning_rate      highest rate of a model of width 160 (of any width with AdamW)
    warmup             share of the steps
    vocabulary         tokens for a million characters; it grows with the root of the text
    validations        number of validations in a run
    is_running         whether text is cut into windows, whose length is then chosen as well
    """

    sides: int = 1
    head_share: float = 1.0
    feed_forward: float = 4.0
    block_widths: float = 4.0  # matrices of width x width in the attention of a layer, over all stacks
    feed_forwards: int = 1  # feed-forward networks of a layer, over all stacks
    optimizer: str = "muon"
    learning_rate: float = 0.006
    warmup: float = 0.03
    vocabulary: int = 2500
    validations: int = 5
    is_running: bool = False
    labels: bool = False  # whether an example is learned as a whole, so that its label is all there is

    def weights(self, shape: Shape) -> float:
        """Weights of the blocks."""
        attention, inner = self.block_widths * shape.width**2, 2 * shape.width * shape.feed_forward_width
        return shape.layers * (attention + self.feed_forwards * inner)

    def flops(self, shape: Shape, vocabulary: int) -> float:
        """Operations of training for each token of any side."""
        head = self.head_share * vocabulary * shape.width
        return 6 * (self.weights(shape) + head) / self.sides


RULES: dict[str, Rules] = {
    "translation": Rules(
        sides=2, feed_forward=3.2, block_widths=12.0, feed_forwards=2, learning_rate=0.008, warmup=0.025
    ),
    "language-modeling": Rules(is_running=True),
    "masked-language-modeling": Rules(head_share=0.15, learning_rate=0.002, warmup=0.08),
    "classification": Rules(
        head_share=0.0, optimizer="adamw", learning_rate=0.001, warmup=0.08, vocabulary=6500,
        validations=10, labels=True,
    ),
}  # fmt: skip

WIDTHS = (
    (2, 32), (2, 48), (2, 64), (3, 80), (3, 96), (4, 112), (4, 128), (4, 160), (4, 192), (4, 224), (4, 256),
    (5, 320), (6, 384), (6, 512), (8, 640), (12, 768), (16, 1024), (24, 1280), (32, 1600),
)  # fmt: skip
CLASSIFIER_LAYERS = 2  # whatever its width


def shapes(rules: Rules, given: Mapping[str, Any]) -> list[Shape]:
    """The sizes to choose from, from small to large, with what was given in all of them."""
    found: dict[Shape, None] = {}
    groups = given.get("architecture.key_value_heads") or 1
    for layers, width in WIDTHS:
        # Given heads must divide the width, each with an even number of numbers for rotary positions.
        width = given.get("model.width", _multiple(width, 2 * given.get("model.heads", groups)))
        layers = given.get("model.layers", CLASSIFIER_LAYERS if rules.labels else layers)
        heads = given.get("model.heads", _heads(width, groups))
        inner = given.get("model.feed_forward_width", _multiple(rules.feed_forward * width, 32))
        found[Shape(layers, width, heads, inner)] = None
    return list(found)


def choose_text(choices: Choices, rules: Rules, text: Text, operations: float, kind: str | None) -> None:
    """Vocabulary and context, which are needed to encode the text. `kind` is that of a new tokenizer.

    The vocabulary grows with the root of the text, and less where the output layer would take most of the
    time. `operations` are those that the machine can compute in the whole time.
    """
    if kind == "bpe":
        wanted = rules.vocabulary * math.sqrt(text.characters / 1e6)
        affordable = 2000 * (operations / 1e12) ** 0.25 if rules.head_share else math.inf
        size = int(min(max(_rounded(min(wanted, affordable), 2), 400), 32_000))
        choices.choose("tokenizer.vocabulary", size, f"for {_short(text.characters)} characters")
    if rules.is_running:
        context = 64 * (operations / 4e12) ** 0.25
        size = 2 ** round(math.log2(min(max(context, 16), 1024)))
        choices.choose("model.context", min(size, max(16, text.characters // 20)), "the time allows no more")


def best_shape(
    rules: Rules, choices: Sequence[Shape], tokens: Tokens, seen: Callable[[Shape], float]
) -> tuple[Shape, str]:
    """The largest shape that sees enough tokens and has enough text, else the smallest; and why.

    `seen` estimates the tokens that a model of a shape sees in the time that is left.
    """
    limit = text_limit(rules, tokens)
    fitting = [shape for shape in choices if rules.weights(shape) <= limit] or [choices[0]]
    enough = [shape for shape in fitting if seen(shape) >= TOKENS_PER_WEIGHT * rules.weights(shape) ** 1.5]
    shape = enough[-1] if enough else fitting[0]
    by_text = shape == fitting[-1] and len(fitting) < len(choices)
    weights = f"{_short(rules.weights(shape))} weights in blocks"
    return shape, f"{weights}; " + ("the text has no use for more" if by_text else "the time allows no more")


def text_limit(rules: Rules, tokens: Tokens) -> float:
    """The most weights that the text has use for."""
    if rules.labels:
        return 1.15e5 * (tokens.examples / 7000) ** 0.52
    return 1.1 * WEIGHTS_PER_TOKEN * tokens.count


def choose_training(
    choices: Choices, rules: Rules, shape: Shape, tokens: Tokens, seen: float, is_new: bool
) -> None:
    """What makes a step fast or slow: size, batch and regularisation.

    `is_new` is false if training starts from a trained model, here and below.
    """
    if is_new:
        for key, value in vars(shape).items():
            choices.choose(f"model.{key}", value, "")
    epochs = seen / tokens.count
    _choose_batch(choices, rules, tokens, seen)
    if rules.labels:
        _regularise_classifier(choices, tokens, epochs)
    else:
        # Once over the text needs none; thirty times need 0.2.
        least = 0.1 if choices.given.get("training.r_drop") else 0.0
        dropout = _rounded(min(0.3, max(least, 0.06 * math.log(max(1.0, epochs)))), 1)
        choices.choose("model.dropout", dropout, f"each text is seen {epochs:.3g} times")
        choices.choose("averaging.name", "none", "the learning rate falls to 0")
    if is_new:
        _choose_optimizer(choices, rules, shape)


def _choose_batch(choices: Choices, rules: Rules, tokens: Tokens, seen: float) -> None:
    """The batch grows with the third root of the tokens that are seen, and leaves 20 steps an epoch."""
    side = seen / rules.sides
    batch = min(2048, max(256, side / LABEL_STEPS)) if rules.labels else 2048 * (side / 16e6) ** (1 / 3)
    batch = min(batch, max(256, tokens.count / rules.sides / 20))
    size = int(min(max(_multiple(batch, 128), 128), 32_768))
    parts = choices.choose("training.gradient_accumulation", 1, "")
    reason = f"about {_short(side)} tokens are seen on a side"
    step = parts * choices.choose("training.batch_tokens", max(1, round(size / parts)), reason)
    if step * rules.sides < SMALL_STEP:
        choices.choose("training.replicas", 1, f"{step * rules.sides:,.0f} tokens are too few for more")


def _choose_optimizer(choices: Choices, rules: Rules, shape: Shape) -> None:
    optimizer = choices.choose("optimizer.name", rules.optimizer, "")
    rate = 0.001
    if optimizer == "muon":
        rate = _rounded(rules.learning_rate * min(1.0, (160 / shape.width) ** 0.5), 2)
    choices.choose("optimizer.learning_rate", rate, f"{optimizer} at width {shape.width}")
    choices.choose("schedule.name", "linear", "")
    choices.choose("schedule.min_lr_ratio", 0.0, "")


def _regularise_classifier(choices: Choices, tokens: Tokens, epochs: float) -> None:
    """Full strength up to 7,000 examples, none from 200,000 on, and less for few passes over them.

    What is impossible here is 0.
    """
    strength = min(1.0, max(0.0, 1 - math.log10(tokens.examples / 7000) / 1.5))
    strength *= min(1.0, epochs / LABEL_EPOCHS)
    reason = f"{tokens.examples:,} labels, seen {epochs:.3g} times"
    dropout = choices.choose("model.dropout", round(0.1 + 0.3 * strength, 2), reason)
    choices.choose("augment.word_dropout", round(0.3 * strength, 2), reason)
    choices.choose("augment.bpe_dropout", round(0.1 * strength, 2) if tokens.has_merges else 0.0, reason)
    choices.choose("training.r_drop", 1.0 if dropout and strength > 0.5 else 0.0, reason)
    choices.choose("averaging.name", "ema", "")


@dataclass(frozen=True)
class Length:
    """The length of a run: its steps, the steps in one pass over the text in one direction, validations."""

    steps: int
    epoch_steps: int
    validations: int = 5

    @property
    def epochs(self) -> float:
        return self.steps / self.epoch_steps


def choose_length(
    choices: Choices, rules: Rules, tokens: Tokens, length: Length, rate: float, is_new: bool
) -> None:
    """What follows from the number of steps."""
    steps, validations = length.steps, length.validations
    warmup = min(steps - 1, max(10, round(rules.warmup * steps)))
    choices.choose("schedule.warmup_steps", warmup, f"{100 * rules.warmup:.3g} % of the steps")
    every = max(1, math.ceil(steps / validations))
    choices.choose("validation.validate_every", every, f"{validations} validation{'s' * (validations > 1)}")
    choices.choose("validation.early_stopping_patience", None, "")
    choices.choose("checkpoints.save_every", every, "")
    if not is_new:
        return
    if rules.labels:
        choices.choose("averaging.ema_decay", 0.99 if steps > 400 else 0.95, "")
        choices.choose("optimizer.weight_decay", 0.1, "")
        return
    decay = weight_decay(length, rate)
    reason = f"{length.epochs:.3g} epochs; forgets in {1 / (rate * decay):,.0f} steps"
    choices.choose("optimizer.weight_decay", decay, reason)
    choices.choose("optimizer.embedding_decay", decay if length.epochs > MEMORY_EPOCHS else 0.0, "")
    if rules.sides == 2:
        _choose_directions(choices, tokens, length)


def weight_decay(length: Length, rate: float) -> float:
    """The decay that forgets a weight in a tenth of the steps, but not within three passes over the text."""
    memory = max(MEMORY_SHARE * length.steps, MEMORY_EPOCHS * length.epoch_steps)
    return _rounded(min(1.0, max(0.01, 1 / (memory * rate))), 2)


def _choose_directions(choices: Choices, tokens: Tokens, length: Length) -> None:
    """Both directions for the first third of the steps, where the text is seen at least 3 times."""
    is_useful = tokens.is_joint and length.epochs >= 3
    epochs = round(0.37 * length.steps / (2 * length.epoch_steps)) if is_useful else 0
    reason = "for the first third of the steps" if epochs else ""
    choices.choose("augment.bidirectional_epochs", epochs, reason)


def _heads(width: int, groups: int) -> int:
    """A multiple of `groups` that divides the width into heads of 32 to 64 numbers; `groups` if none does."""
    fitting = (n for n in range(groups, width + 1, groups) if width % n == 0)
    return min(fitting, key=lambda n: (width // n % 2, abs(width / n - 40)), default=groups)


def _multiple(value: float, of: int) -> int:
    return max(of, of * round(value / of))


def _rounded(value: float, digits: int) -> float:
    """A number with few digits, which is easier to read and to repeat."""
    return float(f"{value:.{digits}g}")


def _short(value: float) -> str:
    for size, name in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.0f}"
