"""Residual connections: deep stacks with and without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.lessons.experiment import accuracy, classifier, registered, seeded
from regard.lessons.lesson import Chart, Lesson, Say, See, Spread, Table, Verdict, difference, series
from regard.lessons.tasks import LookUp
from regard.model.blocks import RESIDUALS
from regard.model.config import ModelConfig
from regard.model.transformer import EncoderOnly, build_model
from regard.training.objectives import Classification

KINDS = {"with": "pre", "without": "plain"}


class Plain(nn.Module):
    """sublayer(norm(x)): the order of `pre`, without the addition."""

    points = ()

    def __init__(self, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """B Q D to the same."""
        return sublayer(self.norm(x))


class Residuals(Lesson):
    """x + sublayer(x), against sublayer(x)."""

    name: ClassVar = "residuals"
    lecture_rows: ClassVar = ("11",)
    claim: ClassVar = "Residual connections let deep stacks learn, because gradients reach the first layers."
    question: ClassVar = "How deep can a stack be with and without residual connections?"
    variable: ClassVar = "The number of layers, with and without residual connections."
    measurement: ClassVar = (
        "The accuracy of trained models on a look-up, and the norm of the gradient of each layer before "
        "training."
    )
    rule: ClassVar = (
        "The claim holds if, in the deepest stack, the accuracy with residual connections is higher by at "
        "least `gap` and by more than the spread over seeds."
    )
    control_words: ClassVar = "A stack of one layer."
    places: ClassVar = (See("Each sum of a block, number by number", studio="tab=inspect"),)

    depths: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Numbers of layers."""
    gap: float = 0.2
    """Smallest difference of the accuracies."""
    steps: int = 200
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Residuals:
        """One layer."""
        return self.changed(depths=(1,))

    def measure(self, say: Say) -> dict[str, Any]:
        """Train both kinds at every depth."""
        with registered(RESIDUALS, plain=Plain):
            runs = {
                kind: [[self._run(kind, depth, seed, say) for seed in self.seeds] for depth in self.depths]
                for kind in KINDS
            }
            gradients = {
                kind: [self._gradients(kind, self.depths[-1], seed) for seed in self.seeds] for kind in KINDS
            }
        return {"accuracy": runs, "gradients": gradients}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Compare the deepest stacks."""
        last = {kind: measured["accuracy"][kind][-1] for kind in KINDS}
        gap = difference(last["with"], last["without"])
        ratio = {kind: np.mean([run[0] / run[-1] for run in measured["gradients"][kind]]) for kind in KINDS}
        return Verdict(
            holds=gap >= self.gap,
            reason=f"With {self.depths[-1]} layers the accuracy is {Spread.of(last['with']).write()} with "
            f"and {Spread.of(last['without']).write()} without residual connections. Before training, the "
            f"gradient of the first layer is {ratio['with']:.2g} times that of the last with them, and "
            f"{ratio['without']:.2g} times without.",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each depth."""
        rows = tuple(
            (depth, *(Spread.of(measured["accuracy"][kind][number]).write() for kind in KINDS))
            for number, depth in enumerate(self.depths)
        )
        return [Table("Accuracy", ("layers", "with residual connections", "without"), rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Accuracy by depth, and the gradient of each layer."""
        lines = tuple(series(kind, self.depths, measured["accuracy"][kind]) for kind in KINDS)
        layers = range(self.depths[-1])
        norms = tuple(
            series(kind, layers, np.transpose(measured["gradients"][kind]).tolist()) for kind in KINDS
        )
        guess = (1 / LookUp().classes, "guessing")
        return [
            Chart("A look-up", "layers", "accuracy", lines, log_x=True, reference=guess),
            Chart(f"{self.depths[-1]} layers, untrained", "layer", "gradient", norms, log_y=True),
        ]

    def _run(self, kind: str, depth: int, seed: int, say: Say) -> float:
        say(f"training, {depth} layers, {kind} residual connections, seed {seed}")
        model, _ = classifier(LookUp(), seed, self.steps, layers=depth, residual=KINDS[kind])
        return accuracy(model, LookUp(), seed)

    def _gradients(self, kind: str, depth: int, seed: int) -> list[float]:
        """The norm of the gradient of each layer of an untrained model."""
        task = LookUp()
        config = ModelConfig(
            family="encoder-only", output="classes", classes=task.classes, vocabulary=task.vocabulary,
            width=64, layers=depth, heads=2, feed_forward_width=128, positions="none", residual=KINDS[kind],
        )  # fmt: skip
        model = seeded(lambda: build_model(config), seed)
        assert isinstance(model, EncoderOnly)
        loss, count = Classification(model)(task.draw(np.random.default_rng(seed)))
        (loss / count).backward()
        layers = [[p.grad for p in block.parameters()] for block in model.encoder.blocks]
        return [
            float(torch.stack([g.square().sum() for g in layer if g is not None]).sum().sqrt())
            for layer in layers
        ]
