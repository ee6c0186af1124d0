"""Residual connections: deep stacks with and without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.lessons.experiment import accuracy, classifier, registered, seeded
from regard.lessons.lesson import Chart, Lesson, Say, See, Spread, Table, Verdict, difference, series
from regard.lessons.norms import NoNorm
from regard.lessons.tasks import LookUp
from regard.model.blocks import NORMS, RESIDUALS
from regard.model.config import ModelConfig
from regard.model.transformer import EncoderOnly, build_model
from regard.text.collate import LabelledBatch
from regard.training.objectives import Classification

TASK = LookUp(keys=8, pairs=4)
SIZES: dict[str, Any] = {"width": 32, "heads": 2, "feed_forward_width": 64, "positions": "none"}
KINDS: dict[str, dict[str, Any]] = {"with": {"residual": "pre"}, "without": {"residual": "plain"}}
BARE = "without, no norms"  # not trained
LABELS = {"with": "residual", "without": "no residual", BARE: "no residual, no norms"}
UNTRAINED = {**KINDS, BARE: {"residual": "plain", "norm": "none"}}


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
    claim: ClassVar = "Residual connections let deep stacks learn."
    question: ClassVar = (
        "How deep can a stack be with residual connections and without, and do gradients vanish without them?"
    )
    variable: ClassVar = "The number of layers, with and without residual connections."
    measurement: ClassVar = (
        "The accuracy of trained models on a look-up among four pairs. Before training, for each layer of "
        "the deepest stack: the norm of its gradient, and how much the tokens of a text differ after it, as "
        "a share of the length of their vectors."
    )
    rule: ClassVar = (
        "The claim holds if, in the deepest stack, the accuracy with residual connections is higher by at "
        "least `gap` and by more than the spread over seeds. The cause is judged apart: a gradient vanishes "
        "if that of the first layer is at most `vanished` of that of the last."
    )
    control_words: ClassVar = "A stack of one layer."
    places: ClassVar = (
        See("A trained model without its residual connections", view="tab=inspect&ablate=residual"),
    )

    cases: ClassVar = ("accuracy",)

    depths: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Numbers of layers."""
    gap: float = 0.2
    """Smallest difference of the accuracies."""
    vanished: float = 0.01
    """Largest share of the last layer's gradient at which that of the first has vanished."""
    steps: int = 120
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Residuals:
        """One layer."""
        return self.changed(depths=(1,))

    def measure(self, say: Say) -> dict[str, Any]:
        """Train both kinds at every depth."""
        with registered(RESIDUALS, plain=Plain), registered(NORMS, none=NoNorm):
            runs = {
                kind: [[self._run(kind, depth, seed, say) for seed in self.seeds] for depth in self.depths]
                for kind in KINDS
            }
            untrained = {kind: [self._untrained(kind, seed) for seed in self.seeds] for kind in UNTRAINED}
        parts = {
            part: {kind: [run[part] for run in untrained[kind]] for kind in UNTRAINED}
            for part in ("gradients", "differences")
        }
        return {"accuracy": runs, **parts}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Compare the deepest stacks."""
        last = {kind: measured["accuracy"][kind][-1] for kind in KINDS}
        gap = difference(last["with"], last["without"])
        layers = f"{self.depths[-1]} layers" if self.depths[-1] > 1 else "one layer"
        reason = (
            f"With {layers} the accuracy with and without residual connections is "
            f"{Spread.compare(last['with'], last['without'])}."
        )
        if self.depths[-1] > 1:
            reason += f" {self._cause(measured)}"
        return Verdict(holds=gap >= self.gap, reason=reason)

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each depth."""
        rows = tuple(
            (depth, *(Spread.of(measured["accuracy"][kind][number]).write() for kind in KINDS))
            for number, depth in enumerate(self.depths)
        )
        return [Table("Accuracy", ("layers", "with residual connections", "without"), rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Accuracy by depth; the gradient of each layer, and how much tokens differ after it."""
        lines = tuple(series(LABELS[kind], self.depths, measured["accuracy"][kind]) for kind in KINDS)
        guess = (1 / TASK.classes, "guessing")
        return [
            Chart("A look-up", "layers", "accuracy", lines, log_x=True, reference=guess),
            self._by_layer("Gradient, untrained", "norm", measured["gradients"]),
            self._by_layer("Difference of tokens, untrained", "share of the length", measured["differences"]),
        ]

    def _by_layer(self, title: str, y: str, runs: dict[str, list[list[float]]]) -> Chart:
        layers = range(1, self.depths[-1] + 1)
        lines = tuple(series(LABELS[kind], layers, np.transpose(runs[kind]).tolist()) for kind in UNTRAINED)
        return Chart(title, "layer", y, lines, log_y=True)

    def _cause(self, measured: dict[str, Any]) -> str:
        """Whether gradients vanish, and what happens to the tokens, in words."""
        gradients, tokens = measured["gradients"], measured["differences"]
        ratios = {kind: np.mean([run[0] / run[-1] for run in gradients[kind]]) for kind in UNTRAINED}
        differences = {kind: np.mean([run[-1] for run in tokens[kind]]) for kind in KINDS}
        first = f"{ratios[BARE]:.2g} times that of the last" if ratios[BARE] else "too small for 32 bits"
        do = {kind: "vanish" if ratios[kind] <= self.vanished else "do not vanish" for kind in UNTRAINED}
        return (
            f"The usual reason is that gradients vanish without them. Before training, gradients {do[BARE]} "
            f"in a stack without residual connections and norms (that of the first layer is "
            f"{first}), but they {do['without']} in this one, whose layers "
            f"have norms ({ratios['without']:.2g} times that of the last; with residual connections "
            f"{ratios['with']:.2g} times). What this one loses is the difference between the tokens of a "
            f"text: after the last layer it is {differences['without']:.1g} of the length of their vectors, "
            f"with residual connections {differences['with']:.2g}."
        )

    def _run(self, kind: str, depth: int, seed: int, say: Say) -> float:
        say(f"training, {depth} layers, {kind} residual connections, seed {seed}")
        model, _ = classifier(TASK, seed, self.steps, layers=depth, **KINDS[kind], **SIZES)
        return accuracy(model, TASK, seed)

    def _untrained(self, kind: str, seed: int) -> dict[str, list[float]]:
        """Gradients of the layers of an untrained model, and differences of tokens after them."""
        config = ModelConfig(
            family="encoder-only", output="classes", classes=TASK.classes, vocabulary=TASK.vocabulary,
            layers=self.depths[-1], **UNTRAINED[kind], **SIZES,
        )  # fmt: skip
        model = seeded(lambda: build_model(config), seed)
        assert isinstance(model, EncoderOnly)
        batch = TASK.draw(np.random.default_rng(seed))
        return {"gradients": _gradients(model, batch), "differences": _differences(model, batch)}


def _gradients(model: EncoderOnly, batch: LabelledBatch) -> list[float]:
    """The norm of the gradient of each layer; squares of the smallest need 64 bits."""
    loss, count = Classification(model)(batch)
    (loss / count).backward()
    layers = [[p.grad for p in block.parameters()] for block in model.encoder.blocks]
    return [
        float(torch.stack([g.double().square().sum() for g in layer if g is not None]).sum().sqrt())
        for layer in layers
    ]


@torch.no_grad()
def _differences(model: EncoderOnly, batch: LabelledBatch) -> list[float]:
    """After each layer, how far tokens are from the mean of their text, as a share of their length."""
    x, _ = model.source(torch.as_tensor(batch.input))
    differences = []
    for block in model.encoder.blocks:
        x = block(x)
        differences.append(float((x - x.mean(1, keepdim=True)).norm() / x.norm().clamp_min(1e-30)))
    return differences
