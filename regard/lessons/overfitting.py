"""Overfitting: a large model on little text, and what dropout, label smoothing and averaging change."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from torch import nn

from regard.lessons.demo_text import demo_text, draw_sentences
from regard.lessons.experiment import fit, seeded
from regard.lessons.lesson import Chart, Lesson, Say, See, Series, Spread, Table, Verdict, difference, series
from regard.model.transformer import DecoderOnly, build_model
from regard.training.events import Validation
from regard.training.objectives import LanguageModeling

# What is changed: dropout of the model, label smoothing of the loss, averaging of the Trainer.
REMEDIES: dict[str, dict[str, Any]] = {
    "none": {},
    "dropout": {"dropout": 0.3},
    "label smoothing": {"label_smoothing": 0.1},
    "averaging": {"averaging": {"name": "ema", "ema_decay": 0.98}},
}
MEASURED = 100  # sentences of each kind whose loss is measured


class Overfitting(Lesson):
    """The loss of new sentences, against that of the training text."""

    name: ClassVar = "overfitting"
    lecture_rows: ClassVar = ("35",)
    claim: ClassVar = "A large model overfits little text; dropout, smoothing and averaging help against it."
    question: ClassVar = "How do the losses of known and of new sentences develop in training?"
    variable: ClassVar = "Dropout, label smoothing, averaging of weights, or none of them."
    measurement: ClassVar = (
        "The loss of a language model on sentences of its training text and on new ones, during training on "
        "a part of the demo's sentences."
    )
    rule: ClassVar = (
        "The claim holds if, without a remedy, the last loss of new sentences is above the lowest by at "
        "least `rise`, and a remedy lowers the last loss by more than the spread over seeds."
    )
    control_words: ClassVar = "A hundred times as many sentences, of which most are seen at most once."
    places: ClassVar = (See("The losses of a run while it trains", view="tab=training"),)

    remedies: tuple[Literal["dropout", "label smoothing", "averaging"], ...] = (
        "dropout",
        "label smoothing",
        "averaging",
    )
    """What is done against overfitting, one at a time."""
    sentences: int = 60
    """Sentences of the training text."""
    width: int = 64
    """Width of the model; it has two layers and about 200 parameters for each token of the text."""
    rise: float = 0.2
    """Smallest rise of the loss that counts as overfitting, in nats per token."""
    steps: int = 160
    """Training steps."""
    validations: int = 8
    """Number of times that both losses are measured."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Overfitting:
        """Much text."""
        return self.changed(sentences=100 * self.sentences)

    def measure(self, say: Say) -> dict[str, Any]:
        """Train with every remedy and every seed."""
        names = ("none", *self.remedies)
        return {name: [self._run(name, seed, say) for seed in self.seeds] for name in names}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """The rise without a remedy, and which remedies lower the last loss."""
        last = {name: [run["new"][-1] for run in runs] for name, runs in measured.items()}
        rise = Spread.of([run["new"][-1] - min(run["new"]) for run in measured["none"]])
        helping = [name for name in self.remedies if difference(last["none"], last[name]) > 0]
        losses = ", ".join(f"{Spread.of(values).write()} ({name})" for name, values in last.items())
        known = Spread.of([run["known"][-1] for run in measured["none"]])
        idle = [name for name in self.remedies if name not in helping]
        return Verdict(
            holds=rise.low >= self.rise and bool(helping),
            reason=f"With {self.sentences:,} sentences and no remedy, the loss of new ones ends "
            f"{rise.write()} above its lowest value, and that of known ones at {known.write()}. The last "
            f"losses of new sentences are {losses}."
            + (f" There is no difference with {' or '.join(idle)}." if helping and idle else ""),
            condition=f"the remedy is {' or '.join(helping)}" if helping and idle else "",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each remedy."""
        rows = tuple(
            (
                name,
                *(Spread.of([run[which][-1] for run in runs]).write() for which in ("known", "new")),
                Spread.of([min(run["new"]) for run in runs]).write(),
            )
            for name, runs in measured.items()
        )
        columns = ("remedy", "last loss, known sentences", "last loss, new", "lowest loss, new")
        return [Table(f"{self.sentences:,} sentences, nats per token", columns, rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Both losses without a remedy, and the loss of new sentences with each."""
        steps = [self._every * (number + 1) for number in range(self.validations)]

        def line(label: str, remedy: str, which: str) -> Series:
            return series(label, steps, np.transpose([run[which] for run in measured[remedy]]).tolist())

        both = (line("known sentences", "none", "known"), line("new sentences", "none", "new"))
        return [
            Chart("No remedy", "step", "nats per token", both),
            Chart(
                "New sentences", "step", "nats per token", tuple(line(name, name, "new") for name in measured)
            ),
        ]

    @property
    def _every(self) -> int:
        return self.steps // self.validations

    def _run(self, remedy: str, seed: int, say: Say) -> dict[str, list[float]]:
        """The loss of known and of new sentences at every validation."""
        say(f"training, {self.sentences:,} sentences, remedy {remedy}, seed {seed}")
        text, changes = demo_text(), dict(REMEDIES[remedy])
        known = text.train[: self.sentences]
        config = text.config(width=self.width, dropout=changes.pop("dropout", 0.0))
        model = seeded(lambda: build_model(config), seed)
        assert isinstance(model, DecoderOnly)
        losses: dict[str, list[float]] = {"known": [], "new": []}

        def validate(module: nn.Module) -> Validation:
            for which, sentences in (("known", known), ("new", text.held_out)):
                losses[which].append(text.loss(module, sentences[:MEASURED]))
            return Validation({"loss": losses["new"][-1]})

        fit(
            LanguageModeling(model, label_smoothing=changes.pop("label_smoothing", 0.0)),
            lambda random: text.language_batch(draw_sentences(known, 16, random)),
            self._every * self.validations,
            seed,
            validate=validate,
            validation={"validate_every": self._every},
            **changes,
        )
        return losses
