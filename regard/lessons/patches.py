"""An image as a set of patches: the encoder that reads words also reads handwritten digits."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from regard.lessons.experiment import accuracy, classifier
from regard.lessons.lesson import Chart, Lesson, Say, Series, Spread, Table, Verdict, difference, heat
from regard.lessons.picture_tasks import DIGITS_TRAINED, Digits, digits
from regard.model.transformer import EncoderOnly
from regard.model.watch import watch

PIXELS = 8  # on a side of an image
KINDS = {"with positions": "learned", "without positions": "none"}


class PatchesOfAnImage(Lesson):
    """Digits classified from their patches, with and without positions."""

    name: ClassVar = "patches"
    lecture_rows: ClassVar = ("26",)
    claim: ClassVar = (
        "Attention connects any set of units: the same encoder reads an image as patches, if it knows where "
        "each one is."
    )
    question: ClassVar = "Does an encoder classify digits from their patches, and does it need positions?"
    variable: ClassVar = "Learned positions of the patches, or none."
    measurement: ClassVar = (
        "The accuracy on 1,024 draws from 597 digits that training did not use, and the attention of the "
        "class token to each patch."
    )
    rule: ClassVar = (
        "The claim holds if the accuracy with positions is at least `able` with every seed, and higher than "
        "without by at least `gap` and by more than the spread over seeds."
    )
    control_words: ClassVar = "One patch that is the whole image: there are no units to connect or to place."

    side: int = 2
    """Pixels on a side of a patch."""
    able: float = 0.9
    """Lowest accuracy of a model that reads digits; guessing gives 0.1."""
    gap: float = 0.05
    """Smallest difference of the accuracies."""
    steps: int = 400
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> PatchesOfAnImage:
        """The image as one patch."""
        return self.changed(side=PIXELS)

    def measure(self, say: Say) -> dict[str, Any]:
        """Train both kinds with every seed, and look at the attention of one of them."""
        runs: dict[str, list[float]] = {kind: [] for kind in KINDS}
        attention: list[list[float]] = []
        for kind, positions in KINDS.items():
            for seed in self.seeds:
                say(f"training, {kind}, seed {seed}")
                model = self._train(positions, seed)
                runs[kind].append(accuracy(model, Digits(is_test=True), seed))
                attention = attention or self._attention(model)
        return {"accuracy": runs, "attention": attention, "image": digits()[0][DIGITS_TRAINED, 0].tolist()}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Accuracy with positions, and the loss without."""
        side = PIXELS // self.side
        placed, unplaced = (measured["accuracy"][kind] for kind in KINDS)
        return Verdict(
            holds=min(placed) >= self.able and difference(placed, unplaced) >= self.gap,
            reason=f"From {side} x {side} patches of {self.side} x {self.side} pixels the accuracy "
            f"with positions and without is {Spread.compare(placed, unplaced)}.",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each kind of positions."""
        rows = tuple((kind, Spread.of(values).write("0.3f")) for kind, values in measured["accuracy"].items())
        return [Table("Digits", ("patches", "accuracy"), rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """The accuracies; an image and the attention to its patches."""
        spreads = [Spread.of(values) for values in measured["accuracy"].values()]
        bars = Series("accuracy", tuple(KINDS), *(tuple(values) for values in zip(*spreads, strict=True)))
        return [
            Chart("Digits", "patches", "accuracy", (bars,), kind="bars", reference=(0.1, "guessing")),
            heat("A digit that was not trained", "pixel", "pixel", measured["image"], "brightness"),
            heat("Attention of the class token", "patch", "patch", measured["attention"], "weight"),
        ]

    def _train(self, positions: str, seed: int) -> EncoderOnly:
        patches = {"side": self.side, "channels": 1}
        model, _ = classifier(
            Digits(), seed, self.steps, layers=2, heads=4, patches=patches, positions=positions
        )
        return model

    def _attention(self, model: EncoderOnly) -> list[list[float]]:
        """The weights of the class token in the last layer, mean over heads, as rows of patches."""
        with torch.no_grad(), watch(model, only="weights") as seen:
            model(torch.as_tensor(digits()[0][DIGITS_TRAINED][None]))
        weights = seen[f"encoder.{model.config.layers - 1}.attention.weights"][0, :, 0, 1:].mean(0)
        return np.reshape(weights.numpy(), (PIXELS // self.side, -1)).tolist()
