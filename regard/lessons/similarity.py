"""Ways to compare a query with a key: the paper's scaled dot product, and four others."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.lessons.experiment import accuracy, classifier, registered
from regard.lessons.lesson import Chart, Lesson, Say, See, Series, Spread, Table, Verdict
from regard.lessons.tasks import LookUp
from regard.model.similarity import SIMILARITIES

TASK = LookUp(keys=8, pairs=4)
FEED_FORWARD_WIDTH = 4  # a wide feed-forward network finds many values without attention


class Constant(nn.Module):
    """The same score for every pair: a query cannot choose."""

    scale = 1.0

    def __init__(self, heads: int, key_width: int):
        super().__init__()

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Zeros, B H Q K."""
        return query.new_zeros((*query.shape[:-1], key.shape[-2]))

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Queries of zeros have a dot product of 0 with every key."""
        return torch.zeros_like(query), key


class Similarity(Lesson):
    """Similarities on one task."""

    name: ClassVar = "similarity"
    lecture_rows: ClassVar = ("5",)
    claim: ClassVar = (
        "The dot product is one choice of similarity; cosine, bilinear and additive ones work too."
    )
    question: ClassVar = "Which similarities learn to find the value of a key?"
    variable: ClassVar = "The similarity of query and key."
    measurement: ClassVar = "The accuracy of a trained model of one layer on a look-up among four pairs."
    rule: ClassVar = "The claim holds if every similarity reaches `able` with every seed."
    control_words: ClassVar = "A similarity that gives every pair the same score."
    places: ClassVar = (
        See("The cosine of the lectures' example", command="regard by-hand B --similarity cosine"),
    )

    similarities: tuple[str, ...] = ("dot", "scaled-dot", "cosine", "bilinear", "additive")
    """Names in SIMILARITIES."""
    able: float = 0.75
    """Lowest accuracy of a similarity that works; guessing gives 0.125."""
    steps: int = 400
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Similarity:
        """Constant scores."""
        return self.changed(similarities=("scaled-dot", "constant"))

    def measure(self, say: Say) -> dict[str, Any]:
        """Train every similarity with every seed."""
        with registered(SIMILARITIES, constant=Constant):
            return {name: [self._run(name, seed, say) for seed in self.seeds] for name in self.similarities}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """The lowest accuracy decides."""
        lowest = min(min(run["accuracy"] for run in runs) for runs in measured.values())
        return Verdict(
            holds=lowest >= self.able,
            reason="The accuracy is "
            + ", ".join(f"{spread.write()} ({name})" for name, spread in _spreads(measured).items())
            + f". The lowest of all seeds is {lowest:.2f}.",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each similarity."""
        losses = {name: Spread.of([run["loss"] for run in runs]) for name, runs in measured.items()}
        rows = [(name, spread.write(), losses[name].write()) for name, spread in _spreads(measured).items()]
        return [Table("A look-up among four pairs", ("similarity", "accuracy", "last loss"), tuple(rows))]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """The accuracy of every similarity."""
        columns = (tuple(values) for values in zip(*_spreads(measured).values(), strict=True))
        bars = Series("accuracy", tuple(measured), *columns)
        guess = (1 / TASK.classes, "guessing")
        return [Chart("A look-up", "similarity", "accuracy", (bars,), kind="bars", reference=guess)]

    def _run(self, name: str, seed: int, say: Say) -> dict[str, float]:
        say(f"training, {name}, seed {seed}")
        model, losses = classifier(
            TASK, seed, self.steps, similarity=name, feed_forward_width=FEED_FORWARD_WIDTH
        )
        return {"accuracy": accuracy(model, TASK, seed), "loss": sum(losses[-20:]) / len(losses[-20:])}


def _spreads(measured: dict[str, Any]) -> dict[str, Spread]:
    return {name: Spread.of([run["accuracy"] for run in runs]) for name, runs in measured.items()}
