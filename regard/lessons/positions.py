"""Kinds of positions at lengths beyond those of training."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from regard.lessons.experiment import accuracy, classifier
from regard.lessons.lesson import Chart, Lesson, Say, See, Spread, Table, Verdict, heat, series
from regard.lessons.tasks import FirstOfTwo
from regard.model.positions import sinusoids

KINDS = ("sinusoidal", "learned", "rotary", "none")
UNSEEN = "To be defined at a position is not to be trained there."
HEAT = 24  # positions of the heat map


class Positions(Lesson):
    """Positions at seen and unseen lengths."""

    name: ClassVar = "positions"
    lecture_rows: ClassVar = ("14", "15")
    claim: ClassVar = (
        "Sinusoidal positions are defined for any length, so a model also works at unseen lengths."
    )
    question: ClassVar = (
        "Does a model tell which of two words is first in texts longer than those of training?"
    )
    variable: ClassVar = "The positions: sinusoidal, learned, rotary, none; and the length of the text."
    measurement: ClassVar = (
        "The accuracy by length of models trained on texts of up to `trained` tokens; the dot products of "
        "sinusoidal encodings."
    )
    rule: ClassVar = (
        "The claim holds if the mean accuracy of the sinusoidal models is at least `able` at the longest "
        "texts."
    )
    control_words: ClassVar = "Texts no longer than those of training."
    places: ClassVar = (See("A trained model without its positions", view="tab=inspect&ablate=positions"),)

    trained: int = 12
    """Longest texts in training; lengths are drawn from 4 tokens up to it."""
    lengths: tuple[int, ...] = (6, 12, 18, 24, 48)
    """Lengths of the test."""
    able: float = 0.9
    """Lowest accuracy of a model that works."""
    steps: int = 400
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Positions:
        """Lengths of training."""
        return self.changed(lengths=tuple(length for length in self.lengths if length <= self.trained))

    def measure(self, say: Say) -> dict[str, Any]:
        """Train every kind with every seed, and test every length."""
        table = sinusoids(torch.arange(HEAT), 64)
        runs = {kind: [self._run(kind, seed, say) for seed in self.seeds] for kind in KINDS}
        return {"accuracy": runs, "products": (table @ table.T).tolist()}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """The sinusoidal models at the longest texts."""
        last = {kind: Spread.of([run[-1] for run in runs]) for kind, runs in measured["accuracy"].items()}
        return Verdict(
            holds=last["sinusoidal"].middle >= self.able,
            reason=f"At {self.lengths[-1]} tokens, after training on up to {self.trained}, the accuracy is "
            + ", ".join(f"{spread.write()} ({kind})" for kind, spread in last.items())
            + ("." if last["sinusoidal"].middle >= self.able else f". {UNSEEN}"),
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each length."""
        rows = tuple(
            (
                length,
                *(Spread.of([run[place] for run in measured["accuracy"][kind]]).write() for kind in KINDS),
            )
            for place, length in enumerate(self.lengths)
        )
        return [Table(f"Accuracy; trained on 4 to {self.trained} tokens", ("tokens", *KINDS), rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Accuracy by length, and the dot products of the encodings."""
        lines = tuple(
            series(kind, self.lengths, [[run[n] for run in runs] for n in range(len(self.lengths))])
            for kind, runs in measured["accuracy"].items()
        )
        return [
            Chart("Which word is first?", "tokens", "accuracy", lines, reference=(0.5, "guessing")),
            heat(
                "Dot products of sinusoidal encodings",
                "position",
                "position",
                measured["products"],
                "dot product",
            ),
        ]

    def _run(self, kind: str, seed: int, say: Say) -> list[float]:
        say(f"training, positions {kind}, seed {seed}")
        task = FirstOfTwo(length=self.trained, shortest=4)
        model, _ = classifier(task, seed, self.steps, layers=2, positions=kind, context=max(self.lengths))
        return [accuracy(model, FirstOfTwo(length=length), seed) for length in self.lengths]
