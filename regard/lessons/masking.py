"""The causal mask: what a later word can change, and what a model learns that can look ahead."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.lessons.experiment import fit, language_batch, seeded
from regard.lessons.lesson import Chart, Lesson, Say, See, Spread, Table, Verdict, series
from regard.lessons.tasks import MarkovText
from regard.model.config import Family, ModelConfig
from regard.model.transformer import DecoderOnly, EncoderOnly, build_model
from regard.text.collate import TextBatch
from regard.training.loss import CrossEntropyLoss

# Each mask by its name, with the family of models that has it.
MASKS: dict[str, Family] = {"causal mask": "decoder-only", "no mask": "encoder-only"}
LOSSES = {"training": "whole text", "generation": "in generation"}


class NextToken(nn.Module):
    """Predicts the next token at every position, with the mask of the model's family."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model, self.loss = model, CrossEntropyLoss()

    def forward(self, batch: TextBatch) -> tuple[Tensor, int]:
        """The summed loss and the number of tokens."""
        logits = self.model(torch.as_tensor(batch.input))
        return self.loss.of_logits(
            logits.flatten(0, 1), torch.as_tensor(batch.output).flatten()
        ), batch.tokens


class Masking(Lesson):
    """The causal mask of section 3.2.3."""

    name: ClassVar = "masking"
    lecture_rows: ClassVar = ("7",)
    claim: ClassVar = "With the causal mask, later words cannot influence earlier ones."
    question: ClassVar = "How much does a change of the last word change the outputs before it?"
    variable: ClassVar = "The mask: causal, or none."
    measurement: ClassVar = (
        "The largest change of an earlier logit when the last token changes; the loss of a trained model "
        "on new text, and its loss when the text ends at the token before the predicted one, as in "
        "generation."
    )
    rule: ClassVar = (
        "The claim holds if, with the mask that is `judged`, the largest change is exactly 0 and the loss in "
        "generation is within `tolerance` of the loss on the whole text."
    )
    control_words: ClassVar = "The model without a mask is judged."
    places: ClassVar = (
        See(
            "The mask on the lectures' scores of six words",
            command="regard by-hand C",
            view="tab=byhand&example=C",
        ),
        See(
            "The masked half of a trained decoder's attention", view="tab=inspect&kind=decoder&layer=0&head=0"
        ),
    )

    masks: tuple[Literal["causal mask", "no mask"], ...] = ("causal mask", "no mask")
    """The masks with which models are trained."""
    judged: Literal["causal mask", "no mask"] = "causal mask"
    """The mask that is judged."""
    tolerance: float = 0.1
    """Largest difference of the losses in training and in generation, in nats per token."""
    steps: int = 300
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Masking:
        """No mask."""
        return self.changed(masks=("no mask",), judged="no mask")

    def measure(self, say: Say) -> dict[str, Any]:
        """Train both kinds of models; measure the influence of a later word and the two losses."""
        runs = {mask: [self._run(mask, seed, say) for seed in self.seeds] for mask in self.masks}
        return {"entropy": MarkovText().entropy, "runs": runs}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """No influence, and a loss that generation confirms."""
        runs = measured["runs"]
        changes = {mask: max(run["change"] for run in runs[mask]) for mask in runs}
        losses = {mask: [Spread.of([run[name] for run in runs[mask]]) for name in LOSSES] for mask in runs}
        whole, generated = losses[self.judged]
        reason = " ".join(
            f"With {mask.replace('causal', 'the causal')}, a new last token changes earlier logits by up to "
            f"{changes[mask]:.2g}; the loss is {losses[mask][0].write()} nats where the model reads the "
            f"whole text, and {losses[mask][1].write()} where the text ends before the predicted token."
            for mask in runs
        )
        return Verdict(
            holds=changes[self.judged] == 0 and abs(generated.middle - whole.middle) <= self.tolerance,
            reason=f"{reason} No model of the past can be below {measured['entropy']:.2f}; one that is has "
            "looked ahead.",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each mask and seed."""
        rows = tuple(
            (mask, seed, *(run[name] for name in ("change", *LOSSES)))
            for mask, runs in measured["runs"].items()
            for seed, run in zip(self.seeds, runs, strict=True)
        )
        labels = (f"loss, {label}" for label in LOSSES.values())
        return [Table("Masks", ("mask", "seed", "largest change of an earlier logit", *labels), rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """The change of each position's logits, and the two losses."""
        changes, losses = [], []
        for mask, runs in measured["runs"].items():
            by_place = list(zip(*(run["changes"] for run in runs), strict=True))
            changes.append(series(mask, range(len(by_place)), by_place))
            both = [[run[name] for run in runs] for name in LOSSES]
            losses.append(series(mask, tuple(LOSSES.values()), both))
        floor = (measured["entropy"], "entropy of the text")
        return [
            Chart("The last token changes", "position", "largest change of a logit", tuple(changes)),
            Chart("Loss", "", "nats per token", tuple(losses), kind="bars", reference=floor),
        ]

    def _run(self, mask: str, seed: int, say: Say) -> dict[str, Any]:
        say(f"training, {mask}, seed {seed}")
        text = MarkovText()
        config = ModelConfig(
            family=MASKS[mask], vocabulary=text.vocabulary, context=32,
            width=64, layers=2, heads=4, feed_forward_width=128, residual="pre",
        )  # fmt: skip
        model = cast("DecoderOnly | EncoderOnly", seeded(lambda: build_model(config), seed))
        fit(NextToken(model), lambda random: language_batch(text.draw_ids(random)), self.steps, seed)
        ids = torch.as_tensor(text.draw_ids(np.random.default_rng((seed, 0))))
        with torch.no_grad():
            before, changed = model(ids), ids.clone()
            changed[:, -1] = (ids[:, -1] + 1) % text.vocabulary
            changes = (model(changed) - before).abs().amax((0, 2))
            training = _loss(before[:, :-1], ids[:, 1:])
            prefixes = [model(ids[:, :end])[:, -1] for end in range(1, ids.shape[1])]
            generation = _loss(torch.stack(prefixes, 1), ids[:, 1:])
        return {
            "change": float(changes[:-1].max()),
            "changes": changes.tolist(),
            "training": training,
            "generation": generation,
        }


def _loss(logits: Tensor, ids: Tensor) -> float:
    return float(nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()))
