"""W^Q, W^K and W^V: none, one shared, or separate ones; and what raw scores mean."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.lessons.experiment import accuracy, classifier, registered
from regard.lessons.lesson import Chart, Lesson, Say, See, Series, Spread, Table, Verdict
from regard.lessons.tasks import LookUp
from regard.model.attention import PROJECTIONS, split_heads
from regard.model.transformer import EncoderOnly
from regard.model.watch import watch

HEADS, WIDTH = 4, 64


class NoProjections(nn.Module):
    """Queries, keys and values are the input itself, the same in every head."""

    def __init__(self, width: int, heads: int, groups: int, key_width: int, value_width: int, bias: bool):
        super().__init__()
        self.heads = heads

    def query(self, x: Tensor) -> Tensor:
        """B Q D to B H Q D."""
        return x[:, None].expand(-1, self.heads, -1, -1)

    def key_value(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The memory as keys and as values."""
        return self.query(memory), self.query(memory)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The input three times."""
        return self.query(x), *self.key_value(x)


class SharedProjections(NoProjections):
    """One matrix for queries, keys and values; each head has its own rows of it."""

    def __init__(self, width: int, heads: int, groups: int, key_width: int, value_width: int, bias: bool):
        super().__init__(width, heads, groups, key_width, value_width, bias)
        self.shared = nn.Linear(width, heads * key_width, bias)

    def query(self, x: Tensor) -> Tensor:
        """B Q D to B H Q E."""
        return split_heads(self.shared(x), self.heads)


KINDS = {"none": NoProjections, "shared": SharedProjections, "separate": None}


class Projections(Lesson):
    """Why attention projects its input three times."""

    name: ClassVar = "projections"
    lecture_rows: ClassVar = ("28", "30", "L7")
    claim: ClassVar = "Separate W^Q, W^K and W^V give heads freedom: without projections all heads are equal."
    question: ClassVar = "Do heads differ without projections, and what do scores below zero do?"
    variable: ClassVar = "The projections: none, one shared matrix, or three."
    measurement: ClassVar = (
        "The largest difference between the attention weights of two heads, and the accuracy, of trained "
        "models; in the model with separate projections, the share of attention on keys with a negative "
        "score."
    )
    rule: ClassVar = (
        "The claim holds if the heads of the model with `judged` projections do not differ (at most "
        "`rounding`) and those of the model with separate ones do."
    )
    control_words: ClassVar = "One shared matrix in place of no projection: each head has its own rows of it."
    places: ClassVar = (
        See("The raw scores of one word in a trained model", view="tab=inspect&picture=matrix"),
    )

    judged: Literal["none", "shared"] = "none"
    """The projections that are judged."""
    rounding: float = 1e-6
    """Largest difference that counts as none."""
    steps: int = 300
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Projections:
        """Judge shared projections."""
        return self.changed(judged="shared")

    def measure(self, say: Say) -> dict[str, Any]:
        """Train every kind with every seed."""
        with registered(PROJECTIONS, none=NoProjections, shared=SharedProjections):
            return {kind: [self._run(kind, seed, say) for seed in self.seeds] for kind in KINDS}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Whether heads differ, and what raw scores mean."""
        judged = max(run["difference"] for run in measured[self.judged])
        separate = min(run["difference"] for run in measured["separate"])
        negative = Spread.of([run["negative"] for run in measured["separate"]])
        return Verdict(
            holds=judged <= self.rounding < separate,
            reason=f"Two heads differ by at most {judged:.2g} ({self.judged}) and by at least {separate:.2g} "
            f"(separate). They run in parallel in both cases. In the trained model with separate "
            f"projections, keys with a negative score receive {negative.write()} of all attention: a "
            "negative score is not ignored, because softmax sees only differences.",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """Kinds of projections, and groups of raw scores."""
        rows = tuple(
            (
                kind,
                Spread.of([run["accuracy"] for run in runs]).write(),
                Spread.of([run["difference"] for run in runs]).write(".3f"),
            )
            for kind, runs in measured.items()
        )
        names = ("negative", "near zero", "high")
        scores = tuple(
            (name, Spread.of([run[name] for run in measured["separate"]]).write(".3f")) for name in names
        )
        return [
            Table("Projections", ("projections", "accuracy", "largest difference of two heads"), rows),
            Table("Separate projections: raw scores", ("score", "share of all attention"), scores),
        ]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Accuracy and difference of heads."""
        charts = []
        for name, title in (("accuracy", "A look-up"), ("difference", "Difference of two heads")):
            spreads = [Spread.of([run[name] for run in runs]) for runs in measured.values()]
            bars = Series(name, tuple(measured), *(tuple(values) for values in zip(*spreads, strict=True)))
            charts.append(Chart(title, "projections", name, (bars,), kind="bars"))
        return charts

    def _run(self, kind: str, seed: int, say: Say) -> dict[str, float]:
        say(f"training, projections {kind}, seed {seed}")
        model, _ = classifier(
            LookUp(), seed, self.steps, heads=HEADS, key_width=WIDTH, value_width=WIDTH, projections=kind
        )
        return {"accuracy": accuracy(model, LookUp(), seed), **_heads(model, seed)}


def _heads(model: EncoderOnly, seed: int) -> dict[str, float]:
    """The largest difference of two heads, and the attention on negative, small and high scores."""
    ids = torch.as_tensor(LookUp().draw(np.random.default_rng((seed, 9))).input)
    with torch.no_grad(), watch(model) as seen:
        model(ids)
    weights, scores = (seen[f"encoder.0.attention.{name}"] for name in ("weights", "scaled"))
    groups = {"negative": scores < -0.5, "near zero": scores.abs() <= 0.5, "high": scores > 0.5}
    shares = {name: float(weights[group].sum() / weights.sum()) for name, group in groups.items()}
    return {"difference": float((weights - weights[:, :1]).abs().max()), **shares}
