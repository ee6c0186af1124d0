"""Word order: permutation equivariance without positions, and a task that needs order."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from regard.lessons.experiment import accuracy, classifier
from regard.lessons.lesson import Chart, Lesson, Say, See, Series, Spread, Table, Verdict
from regard.lessons.tasks import FirstOfTwo

KINDS = ("none", "sinusoidal", "learned", "rotary")


class Order(Lesson):
    """Positions as the only information on order."""

    name: ClassVar = "order"
    lecture_rows: ClassVar = ("13",)
    claim: ClassVar = "Without positions a sentence is a bag of words."
    question: ClassVar = "Which models can tell which of two words comes first?"
    variable: ClassVar = "The positions: none, sinusoidal, learned, rotary."
    measurement: ClassVar = (
        "The largest difference between the outputs of a permuted text and the permuted outputs; the "
        "accuracy of trained models on 1,024 new texts."
    )
    rule: ClassVar = (
        "The claim holds if, without positions, outputs are permuted with their inputs up to `rounding` "
        "and the accuracy is at most `chance`, while every other model reaches `able`."
    )
    control_words: ClassVar = "A task that needs no order: which of two words is more frequent."
    places: ClassVar = (See("A trained model without its positions", view="tab=inspect&ablate=positions"),)

    needs_order: bool = True
    """Whether the task asks which word is first; otherwise it asks which is more frequent."""
    rounding: float = 1e-4
    """Threshold of equivariance."""
    chance: float = 0.55
    """Highest accuracy that counts as guessing."""
    able: float = 0.9
    """Lowest accuracy of a model that has learned the task."""
    steps: int = 250
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Order:
        """Count words."""
        return self.changed(needs_order=False)

    def measure(self, say: Say) -> dict[str, Any]:
        """Train every kind of positions with every seed."""
        return {kind: [self._run(kind, seed, say) for seed in self.seeds] for kind in KINDS}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """A bag of words without positions, and none with them."""
        accuracy = {kind: Spread.of([run["accuracy"] for run in measured[kind]]) for kind in KINDS}
        change = max(run["difference"] for run in measured["none"])
        others = min(accuracy[kind].low for kind in KINDS[1:])
        return Verdict(
            holds=change <= self.rounding and accuracy["none"].high <= self.chance and others >= self.able,
            reason=f"Without positions the outputs follow a permutation of the inputs to {change:.1g}, and "
            f"the accuracy is {accuracy['none'].write()}. With positions it is "
            + ", ".join(f"{accuracy[kind].write()} ({kind})" for kind in KINDS[1:])
            + ".",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each kind of positions."""
        rows = tuple(
            (
                kind,
                Spread.of([run["accuracy"] for run in measured[kind]]).write(),
                Spread.of([run["difference"] for run in measured[kind]]).middle,
            )
            for kind in KINDS
        )
        title = "Which word is first?" if self.needs_order else "Which word is more frequent?"
        return [Table(title, ("positions", "accuracy", "difference after a permutation"), rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """The accuracy of every kind of positions."""
        spreads = [Spread.of([run["accuracy"] for run in measured[kind]]) for kind in KINDS]
        bars = Series("accuracy", KINDS, *(tuple(values) for values in zip(*spreads, strict=True)))
        title = "Which word is first?" if self.needs_order else "Which word is more frequent?"
        return [Chart(title, "positions", "accuracy", (bars,), kind="bars", reference=(0.5, "guessing"))]

    def _run(self, kind: str, seed: int, say: Say) -> dict[str, float]:
        say(f"training, positions {kind}, seed {seed}")
        task = FirstOfTwo(needs_order=self.needs_order)
        model, _ = classifier(
            task, seed, self.steps, width=32, layers=2, feed_forward_width=64, context=8, positions=kind
        )
        random = np.random.default_rng((seed, 0))
        ids, shuffle = torch.as_tensor(task.draw(random).input), random.permutation(task.length)
        with torch.no_grad():
            difference = (model.encode(ids[:, shuffle]) - model.encode(ids)[:, shuffle]).abs().max()
        return {"accuracy": accuracy(model, task, seed), "difference": float(difference)}
