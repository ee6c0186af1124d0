"""The causal mask: what a later word can change, and what a model learns that can look ahead."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.lessons.experiment import fit, language_batch, seeded
from regard.lessons.lesson import Chart, Lesson, Say, See, Spread, Table, Verdict, series
from regard.lessons.tasks import MarkovText
from regard.model.config import ModelConfig
from regard.model.transformer import DecoderOnly, EncoderOnly, build_model
from regard.text.collate import TextBatch
from regard.training.loss import CrossEntropyLoss


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
        "The claim holds if the largest change is exactly 0 and the loss in generation is within "
        "`tolerance` of the loss in training."
    )
    control_words: ClassVar = "The same model without the causal mask."
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

    causal: bool = True
    """Whether the model has the causal mask."""
    tolerance: float = 0.1
    """Largest difference of the losses in training and in generation, in nats per token."""
    steps: int = 300
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Masking:
        """No mask."""
        return self.changed(causal=False)

    def measure(self, say: Say) -> dict[str, Any]:
        """Train both kinds of models; measure the influence of a later word and the two losses."""
        return {"entropy": MarkovText().entropy, "runs": [self._run(seed, say) for seed in self.seeds]}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """No influence, and a loss that generation confirms."""
        runs = measured["runs"]
        change = max(run["change"] for run in runs)
        training, generation = (Spread.of([run[name] for run in runs]) for name in ("training", "generation"))
        return Verdict(
            holds=change == 0 and abs(generation.middle - training.middle) <= self.tolerance,
            reason=f"A new last token changes earlier logits by at most {change:.2g}. The loss is "
            f"{training.write()} nats where the model reads the whole text, and {generation.write()} where "
            f"the text ends before the predicted token. No model of the past can be below "
            f"{measured['entropy']:.2f}.",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each seed."""
        names = ("change", "training", "generation")
        rows = tuple(
            (seed, *(run[name] for name in names))
            for seed, run in zip(self.seeds, measured["runs"], strict=True)
        )
        columns = ("seed", "largest change of an earlier logit", "loss, whole text", "loss, in generation")
        return [Table("Causal mask" if self.causal else "No mask", columns, rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """The change of each position's logits, and the two losses."""
        runs = measured["runs"]
        places = range(len(runs[0]["changes"]))
        changes = series("change", places, [[run["changes"][place] for run in runs] for place in places])
        losses = [[run[name] for run in runs] for name in ("training", "generation")]
        bars = series("loss", ("whole text", "in generation"), losses)
        floor = (measured["entropy"], "entropy of the text")
        return [
            Chart("The last token changes", "position", "largest change of a logit", (changes,)),
            Chart("Loss", "", "nats per token", (bars,), kind="bars", reference=floor),
        ]

    def _run(self, seed: int, say: Say) -> dict[str, Any]:
        say(f"training, {'causal mask' if self.causal else 'no mask'}, seed {seed}")
        text = MarkovText()
        config = ModelConfig(
            family="decoder-only" if self.causal else "encoder-only", vocabulary=text.vocabulary, context=32,
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
