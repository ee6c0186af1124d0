"""Attention and feed-forward network, each removed in turn; and where non-linearity comes from."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.lessons.experiment import accuracy, classifier, registered, seeded
from regard.lessons.lesson import Chart, Lesson, Say, Spread, Table, Verdict, difference, series
from regard.lessons.norms import NoNorm
from regard.lessons.similarity import Constant
from regard.lessons.tasks import LookUp
from regard.model.attention import ATTENTIONS, MultiHeadAttention, join_heads
from regard.model.blocks import FEED_FORWARDS, NORMS, FeedForward
from regard.model.config import ModelConfig
from regard.model.similarity import SIMILARITIES
from regard.model.transformer import EncoderOnly, build_model

TASK = LookUp(keys=4, values=8, pairs=2, flips=8)
# Settings that make each source of non-linearity linear.
LINEAR = {
    "softmax": {"similarity": "constant"},
    "activation": {"feed_forward": "linear"},
    "norm": {"norm": "none"},
}
SCORES = {"attention": "scores"}  # the softmax removed, but its scores kept
REMOVED = {"attention": {"attention": "none"}, "feed-forward": {"feed_forward": "none"}}


class Nothing(nn.Module):
    """Zeros in place of a sublayer: only the residual connection is left."""

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__()

    def forward(self, x: Tensor, *inputs: Any, **settings: Any) -> Tensor:
        """B Q D to zeros."""
        return torch.zeros_like(x)


class ScoresAsWeights(MultiHeadAttention):
    """Attention without softmax: the scores themselves weight the values."""

    def forward(self, x: Tensor, *inputs: Any, **settings: Any) -> Tensor:
        """B Q D to the same."""
        query, key, value = self.projections(x)
        scores = self.similarity(query, key) * self.similarity.scale / x.shape[1]
        return self.output(join_heads(scores @ value))


class FeedForwardLesson(Lesson):
    """What the two sublayers of a block contribute."""

    name: ClassVar = "feed-forward"
    lecture_rows: ClassVar = ("10", "33")
    claim: ClassVar = (
        "Attention gathers and the feed-forward network makes sense of it; non-linearity comes from the "
        "softmax, the activation and the norms."
    )
    question: ClassVar = "What is lost without each part, and when is a model linear?"
    variable: ClassVar = (
        "Attention or feed-forward network removed; softmax, activation and norm each made linear: even "
        "weights, no activation, no norm."
    )
    measurement: ClassVar = (
        "The accuracy of trained models on a look-up in which the query flips bits of the value; for "
        "untrained models of two layers, the distance of the output for the mean of two inputs from the "
        "mean of their outputs, as a share of the distance of the outputs: 0 if the model is linear."
    )
    rule: ClassVar = (
        "The claim holds if accuracy falls by at least `gap` and by more than the spread without either "
        "part, if the deviation from a linear model is at least `curved` with each of the three sources "
        "alone, and if it is at most `rounding` without all three."
    )
    control_words: ClassVar = "Only the softmax itself is removed: its scores weight the values."

    keeps_scores: bool = False
    """Whether the model without softmax keeps its scores as weights."""
    gap: float = 0.1
    """Smallest loss of accuracy without a part."""
    curved: float = 0.01
    """Smallest deviation from a linear model that counts."""
    rounding: float = 1e-5
    """Largest deviation from a linear model that counts as none."""
    trained_sources: tuple[str, ...] = ("softmax", "activation", "norm")
    """Sources of non-linearity that are made linear in a trained model as well."""
    steps: int = 250
    """Training steps."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> FeedForwardLesson:
        """Scores without softmax."""
        return self.changed(keeps_scores=True)

    def measure(self, say: Say) -> dict[str, Any]:
        """Train every variant; measure the deviation of every set of sources."""
        linear = LINEAR | ({"softmax": SCORES} if self.keeps_scores else {})
        merged = {name: setting for settings in linear.values() for name, setting in settings.items()}
        kept = {f"only {one}": _without(merged, linear[one]) for one in linear}
        trained = {
            "whole": {},
            **{f"no {part}": changes for part, changes in REMOVED.items()},
            **{f"linear {source}": linear[source] for source in self.trained_sources},
        }
        with (
            registered(ATTENTIONS, none=Nothing, scores=ScoresAsWeights),
            registered(FEED_FORWARDS, none=Nothing, linear=partial(FeedForward, activation=nn.Identity())),
            registered(SIMILARITIES, constant=Constant),
            registered(NORMS, none=NoNorm),
        ):
            return {
                "accuracy": {
                    name: [self._accuracy(name, changes, seed, say) for seed in self.seeds]
                    for name, changes in trained.items()
                },
                "deviation": {
                    name: [_deviation(changes, seed) for seed in self.seeds]
                    for name, changes in {"all": {}, **kept, "none": merged}.items()
                },
            }

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Both parts are needed, and the three sources are all."""
        reached, deviations = measured["accuracy"], measured["deviation"]
        lost = {part: difference(reached["whole"], reached[f"no {part}"]) for part in REMOVED}
        alone = {source: min(deviations[f"only {source}"]) for source in LINEAR}
        rest = max(deviations["none"])
        changes = {
            one: difference(reached[f"linear {one}"], reached["whole"]) for one in self.trained_sources
        }
        falls, rises = ([one for one in changes if sign * changes[one] > 0] for sign in (-1, 1))
        accuracies = ", ".join(f"{Spread.of(values).write()} ({name})" for name, values in reached.items())
        return Verdict(
            holds=min(lost.values()) >= self.gap
            and min(alone.values()) >= self.curved
            and rest <= self.rounding,
            reason=f"The accuracies are {accuracies}; guessing gives {1 / TASK.classes:.2f}. The deviation "
            f"from a linear model is at least {min(alone.values()):.2g} with one source alone, and at most "
            f"{rest:.2g} without all three. Where a source is made linear in training, "
            f"accuracy falls ({', '.join(falls) or 'none'}) or rises ({', '.join(rises) or 'none'})."
            + (
                " Without softmax attention still multiplies queries, keys and values, which is not linear."
                if self.keeps_scores
                else ""
            ),
            condition="the scores go with the softmax",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """Accuracies, and deviations from a linear model."""
        reached = tuple((name, Spread.of(values).write()) for name, values in measured["accuracy"].items())
        curved = tuple(
            (name, Spread.of(values).write(".2g")) for name, values in measured["deviation"].items()
        )
        return [
            Table("A look-up with flipped bits", ("model", "accuracy"), reached),
            Table("Deviation from a linear model", ("sources of non-linearity", "deviation"), curved),
        ]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Both tables as bars."""
        guess = (1 / TASK.classes, "guessing")
        return [
            _bars("A look-up", "accuracy", measured["accuracy"], reference=guess),
            _bars("Which sources are left", "deviation from linear", measured["deviation"]),
        ]

    def _accuracy(self, name: str, changes: dict[str, str], seed: int, say: Say) -> float:
        say(f"training, {name}, seed {seed}")
        model, _ = classifier(TASK, seed, self.steps, heads=1, **changes)
        return accuracy(model, TASK, seed)


def _without(changes: dict[str, str], left_out: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in changes.items() if name not in left_out}


def _bars(title: str, label: str, values: dict[str, list[float]], **settings: Any) -> Chart:
    bars = series(label, list(values), list(values.values()))
    return Chart(title, "", label, (bars,), kind="bars", **settings)


@torch.no_grad()
def _deviation(changes: dict[str, Any], seed: int) -> float:
    """How far the output for the mean of two inputs is from the mean of their outputs."""
    config = ModelConfig(
        family="encoder-only", vocabulary=1, width=64, layers=2, heads=2, feed_forward_width=128,
        positions="none", residual="pre", **changes,
    )  # fmt: skip
    model = seeded(lambda: build_model(config), seed).eval()
    assert isinstance(model, EncoderOnly)
    first, second = torch.randn(2, 8, 6, config.width)
    one, other = model.encode(first), model.encode(second)
    middle = model.encode((first + second) / 2)
    return float((middle - (one + other) / 2).norm() / (one - other).norm())
