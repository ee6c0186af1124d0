"""Normalisation: layer norm before or after, none, and batch norm for contrast."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.lessons.experiment import accuracy, classifier, registered
from regard.lessons.lesson import (
    EQUAL,
    Chart,
    Lesson,
    Say,
    See,
    Series,
    Spread,
    Table,
    Verdict,
    difference,
    series,
)
from regard.lessons.tasks import LookUp
from regard.model.blocks import NORMS
from regard.model.transformer import EncoderOnly

VARIANTS = {
    "layer, before": {"norm": "layer", "residual": "pre"},
    "layer, after": {"norm": "layer", "residual": "post"},
    "batch, before": {"norm": "batch", "residual": "pre"},
    "none": {"norm": "none", "residual": "pre"},
}


class BatchNorm(nn.Module):
    """(x - mean) / deviation over all tokens of the batch; in use, over those of training."""

    def __init__(self, width: int, epsilon: float = 1e-5):
        super().__init__()
        self.norm = nn.BatchNorm1d(width, epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """B Q D to the same."""
        return self.norm(x.flatten(0, 1)).view(x.shape)


class NoNorm(nn.Module):
    """x itself."""

    def __init__(self, width: int, epsilon: float = 1e-5):
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """B Q D to the same."""
        return x


class Norms(Lesson):
    """Layer norm against batch norm."""

    name: ClassVar = "norms"
    lecture_rows: ClassVar = ("12",)
    claim: ClassVar = "Layer norm does not depend on the batch and is the same in training and in use."
    question: ClassVar = (
        "Do the outputs for one text change with the other texts of its batch, or after training?"
    )
    variable: ClassVar = "The norm: layer before or after the sublayer, batch, none."
    measurement: ClassVar = (
        "The largest change of a text's logits when the other texts of its batch are replaced, in training "
        "mode; the largest change from training mode to use; the accuracy of trained models on a look-up."
    )
    rule: ClassVar = "The claim holds if both changes of the model with `norm` are at most `rounding`."
    control_words: ClassVar = "Batch norm in place of layer norm; the other models are not trained again."
    places: ClassVar = (See("A trained model without its norms", view="tab=inspect&ablate=norm"),)

    norm: Literal["layer, before", "layer, after", "batch, before", "none"] = "layer, before"
    """The variant that is judged."""
    variants: tuple[str, ...] = tuple(VARIANTS)
    """The variants that are trained."""
    rounding: float = 1e-5
    """Largest change that counts as none."""
    steps: int = 150
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Norms:
        """Judge batch norm."""
        return self.changed(norm="batch, before", variants=("batch, before",))

    def measure(self, say: Say) -> dict[str, Any]:
        """Train every variant with every seed."""
        with registered(NORMS, batch=BatchNorm, none=NoNorm):
            return {name: [self._run(name, seed, say) for seed in self.seeds] for name in self.variants}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """The two changes of the judged norm."""
        runs = measured[self.norm]
        batch, mode = (max(run[name] for run in runs) for name in ("batch", "mode"))
        reached = {name: [run["accuracy"] for run in runs] for name, runs in measured.items()}
        listed = ", ".join(f"{Spread.of(values).write()} ({name})" for name, values in reached.items())
        is_equal = len(reached) > 1 and not any(
            difference(reached[self.norm], reached[name]) for name in reached
        )
        return Verdict(
            holds=max(batch, mode) <= self.rounding,
            reason=f"With the norm {self.norm!r}, other texts in the batch change the logits by at most "
            f"{batch:.2g}, and the step from training to use by {mode:.2g}. The accuracy is {listed}"
            f"{EQUAL if is_equal else ''}.",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each variant."""
        rows = tuple(
            (
                name,
                max(run["batch"] for run in runs),
                max(run["mode"] for run in runs),
                Spread.of([run["accuracy"] for run in runs]).write(),
            )
            for name, runs in measured.items()
        )
        columns = ("norm", "change by other texts", "change from training to use", "accuracy")
        return [Table("Norms", columns, rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """The accuracy, and the change by other texts."""
        names = tuple(name.replace(", ", "\n") for name in measured)

        def bars(label: str, name: str) -> Series:
            return series(label, names, [[run[name] for run in runs] for runs in measured.values()])

        changes = (bars("other texts in the batch", "batch"), bars("training to use", "mode"))
        return [
            Chart("Change of the logits", "", "largest change", changes, kind="bars"),
            Chart("A look-up", "", "accuracy", (bars("accuracy", "accuracy"),), kind="bars"),
        ]

    def _run(self, name: str, seed: int, say: Say) -> dict[str, float]:
        say(f"training, norm {name}, seed {seed}")
        model, _ = classifier(LookUp(), seed, self.steps, layers=2, **VARIANTS[name])
        reached = accuracy(model, LookUp(), seed)
        return {"accuracy": reached, **_changes(model, seed)}


@torch.no_grad()
def _changes(model: EncoderOnly, seed: int) -> dict[str, float]:
    """How much the first text's logits change with the rest of its batch, and from training to use."""
    random = np.random.default_rng((seed, 7))
    ids, others = (torch.as_tensor(LookUp().draw(random).input) for _ in range(2))
    others[0] = ids[0]
    model.train()
    before, after = model(ids)[0], model(others)[0]
    model.eval()
    used = model(ids)[0]
    return {"batch": float((before - after).abs().max()), "mode": float((before - used).abs().max())}
