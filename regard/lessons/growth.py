"""Growth: the loss of language models by their size and by the amount of text, with the fitted slopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from regard.lessons.demo_text import DemoText, demo_text, draw_sentences
from regard.lessons.experiment import fit, seeded
from regard.lessons.lesson import Chart, Lesson, Say, Series, Spread, Table, Verdict, series
from regard.model.transformer import DecoderOnly, build_model, count_parameters
from regard.text.collate import TextBatch
from regard.training.events import Validation
from regard.training.objectives import LanguageModeling

ROWS = 32
KINDS = {"size": "parameters", "data": "sentences"}
VALIDATIONS, MEASURED = 10, 300  # in a training, and sentences of each


class Growth(Lesson):
    """Validation loss by parameters and by sentences."""

    name: ClassVar = "growth"
    lecture_rows: ClassVar = ("35",)
    claim: ClassVar = "The Transformer scales: larger models and more text lower the loss."
    question: ClassVar = "How does the loss of a language model change with its size and with its text?"
    variable: ClassVar = (
        "The width of the model, with all sentences; the number of sentences, with one model."
    )
    measurement: ClassVar = (
        "The lowest validation loss in training, per word, and the slope of its logarithm against that of "
        "the number of parameters or sentences."
    )
    rule: ClassVar = (
        "The claim holds if both slopes are at most -`slope` with every seed, and a straight line explains "
        "at least `straight` of the variance of the mean."
    )
    control_words: ClassVar = "The same words in random order, in which there is nothing to learn; one seed."

    cases: ClassVar = ("x", "loss")

    widths: tuple[int, ...] = (8, 16, 32, 64)
    """Widths of the models; the widest is trained on every number of sentences."""
    sentences: tuple[int, ...] = (250, 500, 1000, 2000)
    """Numbers of training sentences; models of all widths read the most."""
    slope: float = 0.05
    """Smallest fall: a slope of -0.05 lowers the loss by 3.4 % for each doubling."""
    straight: float = 0.8
    """Smallest share of the variance that a straight line explains."""
    is_text: bool = True
    """Whether words are in the order of sentences."""
    steps: int = 250
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Growth:
        """Words in random order, at the ends of both ranges, with one seed."""
        ends = {
            name: getattr(self, name)[:: len(getattr(self, name)) - 1] for name in ("widths", "sentences")
        }
        return self.changed(is_text=False, seeds=self.seeds[:1], **ends)

    def measure(self, say: Say) -> dict[str, Any]:
        """Train every size and every amount with every seed."""
        most, widest = max(self.sentences), max(self.widths)
        text = demo_text(sentences=most)
        cases = {(width, most) for width in self.widths} | {(widest, count) for count in self.sentences}
        losses = {case: [self._run(text, *case, seed, say) for seed in self.seeds] for case in sorted(cases)}
        sizes = [count_parameters(_build(text, width, 1)) for width in self.widths]
        return {
            "size": {"x": sizes, "loss": [losses[width, most] for width in self.widths]},
            "data": {"x": self.sentences, "loss": [losses[widest, count] for count in self.sentences]},
        }

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """The slope of every seed, and how straight the line of the means is."""
        slopes = {kind: Spread.of(_slopes(measured[kind])) for kind in KINDS}
        straight = {kind: _straightness(measured[kind]) for kind in KINDS}
        losses = np.mean(measured["data"]["loss"], 1)
        has_line = len(losses) > 2  # a line through two points explains everything
        reason = " ".join(
            f"Ten times the {label} multiply the loss by {10 ** slopes[kind].middle:.2f}: the slope is "
            f"{slopes[kind].write('.3f')}"
            + (f", and a straight line explains {straight[kind]:.0%} of the variance." if has_line else ".")
            for kind, label in KINDS.items()
        )
        if has_line:
            reason += (
                f" The line of sentences bends: from {self.sentences[0]:,} to {self.sentences[1]:,} the loss "
                f"falls by {1 - losses[1] / losses[0]:.0%}, and from {self.sentences[-2]:,} to "
                f"{self.sentences[-1]:,} by {1 - losses[-1] / losses[-2]:.0%}, with the same {self.steps} "
                "training steps."
            )
        return Verdict(
            holds=max(slope.high for slope in slopes.values()) <= -self.slope
            and min(straight.values()) >= self.straight,
            reason=reason,
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each size and amount."""
        return [
            Table(
                f"Loss by {KINDS[kind]}",
                (KINDS[kind], "loss, in nats per word"),
                tuple(
                    (x, Spread.of(losses).write("0.3f"))
                    for x, losses in zip(measured[kind]["x"], measured[kind]["loss"], strict=True)
                ),
            )
            for kind in KINDS
        ]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Losses with the fitted lines, on logarithmic axes."""
        charts = []
        for kind, label in KINDS.items():
            x, losses = measured[kind]["x"], measured[kind]["loss"]
            slope, start = np.polyfit(np.log(x), np.log(np.mean(losses, 1)), 1)
            line = Series(
                f"fitted, slope {slope:.3f}", tuple(x), tuple(np.exp(start + slope * np.log(x)).tolist())
            )
            lines = (series("measured", x, losses), line)
            charts.append(Chart(f"More {label}", label, "nats per word", lines, log_x=True, log_y=True))
        return charts

    def _run(self, text: DemoText, width: int, sentences: int, seed: int, say: Say) -> float:
        """The lowest validation loss of a model in training."""
        say(f"training, width {width}, {sentences:,} sentences, seed {seed}")
        model, losses, random = _build(text, width, seed), [], np.random.default_rng(seed)
        known, new = (
            self._ordered(part, random) for part in (text.train[:sentences], text.held_out[:MEASURED])
        )

        @torch.no_grad()
        def validate(module: torch.nn.Module) -> Validation:
            total, count = module(text.language_batch(new))
            losses.append(float(total / count))
            return Validation({"loss": losses[-1]})

        def draw(random: np.random.Generator) -> TextBatch:
            return text.language_batch(draw_sentences(known, ROWS, random))

        schedule = {"validate_every": max(1, self.steps // VALIDATIONS)}
        fit(LanguageModeling(model), draw, self.steps, seed, validate=validate, validation=schedule)
        return min(losses)

    def _ordered(self, sentences: Sequence[np.ndarray], random: np.random.Generator) -> list[np.ndarray]:
        """The sentences, or as many sentences of random words of the text."""
        if self.is_text:
            return list(sentences)
        words = random.permutation(np.concatenate(sentences))
        return np.split(words, np.cumsum([len(sentence) for sentence in sentences])[:-1])


def _build(text: DemoText, width: int, seed: int) -> DecoderOnly:
    config = text.config(width=width, heads=2, context=64)
    model = seeded(lambda: build_model(config), seed)
    assert isinstance(model, DecoderOnly)
    return model


def _slopes(measured: dict[str, Any]) -> list[float]:
    """For each seed, the slope of ln loss against ln x."""
    return np.polyfit(np.log(measured["x"]), np.log(measured["loss"]), 1)[0].tolist()


def _straightness(measured: dict[str, Any]) -> float:
    """The share of the variance of ln loss that a straight line explains: the squared correlation."""
    return float(np.corrcoef(np.log(measured["x"]), np.log(np.mean(measured["loss"], 1)))[0, 1] ** 2)
