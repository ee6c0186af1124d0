"""Dividing scores by sqrt(d_k): variance, saturation of the softmax, gradient, and a trained model."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from regard.lessons.experiment import classifier
from regard.lessons.lesson import Chart, Lesson, Say, See, Spread, Table, Verdict, difference, series
from regard.lessons.tasks import LookUp

SIMILARITIES = {"divided": "scaled-dot", "not divided": "dot"}


class Scaling(Lesson):
    """The division by sqrt(d_k) of equation 1."""

    name: ClassVar = "scaling"
    lecture_rows: ClassVar = ("3", "L8")
    claim: ClassVar = (
        "Dividing the scores by sqrt(d_k) keeps the gradient of the softmax stable for wide keys."
    )
    question: ClassVar = "What happens to the softmax and to its gradient as keys get wider?"
    variable: ClassVar = "The key width d_k, with and without the division."
    measurement: ClassVar = (
        "The variance of q k, the largest attention weight and the gradient of the softmax for random "
        "queries and keys; the loss of a model of one layer trained on a look-up."
    )
    rule: ClassVar = (
        "The claim holds if, at the widest keys, the gradient with the division is at least `ratio` times "
        "the gradient without it, and the trained loss is not higher."
    )
    control_words: ClassVar = "Keys of width 1 and 2 only, for which the division hardly changes the scores."
    places: ClassVar = (
        See(
            "The same division on the lectures' numbers",
            command="regard by-hand B --scale",
            view="tab=byhand&example=B&rules=scale",
        ),
        See("A trained model without the division", view="tab=inspect&ablate=scaling"),
    )

    cases: ClassVar = ("random",)

    key_widths: tuple[int, ...] = (1, 4, 16, 64, 256, 1024)
    """Widths of the random queries and keys."""
    keys: int = 16
    """Keys that each query is compared with."""
    queries: int = 2000
    """Random queries of each seed."""
    ratio: float = 2.0
    """Threshold of the gradient with the division, as a multiple of the gradient without it."""
    train_key_width: int = 256
    """Key width of the trained model; it has one head."""
    steps: int = 300
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the random numbers, of the initial weights and of the batches."""

    def control(self) -> Scaling:
        """Narrow keys."""
        return self.changed(key_widths=(1, 2), train_key_width=2)

    def measure(self, say: Say) -> dict[str, Any]:
        """Random scores for every width, then trained models."""
        say("random queries and keys")
        random = {
            kind: [[self._random(width, kind, seed) for seed in self.seeds] for width in self.key_widths]
            for kind in SIMILARITIES
        }
        losses = {kind: [self._trained(kind, seed, say) for seed in self.seeds] for kind in SIMILARITIES}
        return {"random": random, "losses": losses}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Compare the gradients at the widest keys, and the trained losses."""
        last = {kind: measured["random"][kind][-1] for kind in SIMILARITIES}
        gradients = {kind: Spread.of([one["gradient"] for one in last[kind]]) for kind in last}
        ratio = gradients["divided"].middle / gradients["not divided"].middle
        last_losses = {kind: [curve[-1] for curve in measured["losses"][kind]] for kind in SIMILARITIES}
        return Verdict(
            holds=ratio >= self.ratio and difference(*last_losses.values()) <= 0,
            reason=f"At d_k = {self.key_widths[-1]} the gradient is {gradients['divided'].write('.3f')} with "
            f"the division and {gradients['not divided'].write('.3f')} without it, a ratio of {ratio:.1f}. "
            f"The loss after {self.steps} steps is {Spread.compare(*last_losses.values())}."
            + (
                " Without the division the softmax saturates, so gradients vanish; they do not explode."
                if ratio >= self.ratio
                else ""
            ),
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each key width."""
        names = ("variance", "largest", "gradient")
        rows = [
            (width, *(
                Spread.of([one[name] for one in measured["random"][kind][number]]).middle
                for kind in SIMILARITIES
                for name in names
            ))
            for number, width in enumerate(self.key_widths)
        ]  # fmt: skip
        titles = [f"{name}, {kind}" for kind in SIMILARITIES for name in names]
        return [Table("Random queries and keys: means", ("d_k", *titles), tuple(rows))]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """The gradient by key width, and the loss of the trained models."""
        gradients = tuple(
            series(
                kind,
                self.key_widths,
                [[one["gradient"] for one in runs] for runs in measured["random"][kind]],
            )
            for kind in SIMILARITIES
        )
        every = max(1, self.steps // 60)
        curves = tuple(
            series(kind, range(every, self.steps + 1, every), np.transpose(measured["losses"][kind]).tolist())
            for kind in SIMILARITIES
        )
        return [
            Chart("Gradient of the softmax", "key width d_k", "norm", gradients, log_x=True),
            Chart(f"A look-up with d_k = {self.train_key_width}", "step", "loss", curves),
        ]

    def _random(self, width: int, kind: str, seed: int) -> dict[str, float]:
        """Variance of the scores, mean largest weight, and mean norm of the softmax's Jacobian."""
        random = np.random.default_rng((seed, width))
        query = random.standard_normal((self.queries, 1, width))
        scores = (query * random.standard_normal((self.queries, self.keys, width))).sum(-1)
        scores = scores / np.sqrt(width) if kind == "divided" else scores
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        jacobian = weights[:, :, None] * (np.eye(self.keys) - weights[:, None, :])
        return {
            "variance": float(scores.var()),
            "largest": float(weights.max(-1).mean()),
            "gradient": float(np.linalg.norm(jacobian, axis=(1, 2)).mean()),
        }

    def _trained(self, kind: str, seed: int, say: Say) -> list[float]:
        """The loss of a look-up, averaged over 60 parts of the training."""
        say(f"training, {kind}, seed {seed}")
        widths = {"key_width": self.train_key_width, "value_width": 64}
        similarity = SIMILARITIES[kind]
        _, losses = classifier(LookUp(), seed, self.steps, heads=1, similarity=similarity, **widths)
        every = max(1, self.steps // 60)
        return [float(np.mean(losses[end - every : end])) for end in range(every, self.steps + 1, every)]
