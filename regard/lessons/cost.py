"""The cost of a model: parameters, FLOPs, time and energy, predicted from its shape and measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.lessons.experiment import alternate, ratios, seeded
from regard.lessons.lesson import Chart, Lesson, Say, See, Series, Spread, Table, Verdict, series
from regard.model.config import ModelConfig
from regard.model.transformer import build_model, count_parameters

KNOWN = {"llama-2-7b": 2e12, "gpt-3": 3e11}  # tokens of their training, from their papers
YEAR = 365.25 * 24 * 3600
SQUARE = 1024  # rows and columns of the matrices that measure the machine


class Cost(Lesson):
    """What a training step costs, by the size of the model."""

    name: ClassVar = "cost"
    lecture_rows: ClassVar = ("35",)
    claim: ClassVar = (
        "The compute, time and energy of training follow from the number of parameters and of tokens."
    )
    question: ClassVar = "Can the cost of a training step be predicted before the model exists?"
    variable: ClassVar = "The width of a decoder of `layers` layers."
    measurement: ClassVar = (
        "Parameters and floating-point operations (FLOPs) of a step, forward and backward, counted by torch; "
        "its time; its energy, estimated as the time at `watts` of power. They are predicted from the shape: "
        "12 x layers x width^2 parameters and the embedding; 6 FLOPs for each parameter and token, and "
        "12 x layers x width x length for each token in attention; the time of as many FLOPs in a product of "
        "two large matrices."
    )
    rule: ClassVar = (
        "The claim holds if, for every size, parameters and FLOPs are within `share` of the prediction, and "
        "if the largest model takes at most `slower` times the predicted time."
    )
    control_words: ClassVar = "One text of one token, so that a step has little to compute."
    is_timed: ClassVar = True
    places: ClassVar = (See("The parameters of GPT-3, part by part", command="regard describe gpt-3"),)

    widths: tuple[int, ...] = (64, 128, 256, 512)
    """Widths of the models; a head has 64."""
    layers: int = 4
    """Number of layers."""
    vocabulary: int = 1000
    """Number of token ids."""
    texts: int = 4
    """Texts of a step."""
    length: int = 128
    """Tokens of a text."""
    share: float = 0.05
    """Largest deviation of parameters and FLOPs from the prediction."""
    slower: float = 4.0
    """Highest time of the largest model, as a multiple of the prediction."""
    watts: float = 10.0
    """Assumed power of one busy core, with its share of memory and cooling."""
    rounds: int = 5
    """Rounds of timing."""

    def control(self) -> Cost:
        """One token."""
        return self.changed(texts=1, length=1)

    def measure(self, say: Say) -> dict[str, Any]:
        """Count and time a step of every size, in turn with a product of two matrices."""
        torch.manual_seed(1)
        square = torch.randn(SQUARE, SQUARE)
        works: dict[str, Callable[[], object]] = {"matrices": lambda: square @ square}
        parameters, operations = [], []
        for width in self.widths:
            say(f"width {width}")
            config = self._config(width)
            step = _step(config, self.texts, self.length)
            parameters.append(count_parameters(build_model(config, device="meta")))
            operations.append(_count(step))
            works[str(width)] = step
        say("timing")
        seconds = alternate(works, self.rounds)
        matrices = seconds.pop("matrices")
        threads, steps = torch.get_num_threads(), list(seconds.values())
        counts = {"parameters": parameters, "operations": operations}
        return {**counts, "seconds": steps, "matrices": matrices, "threads": threads}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Counts of every size, time of the largest."""
        predicted = [self.predicted(width) for width in self.widths]
        off = {
            name: max(abs(a / b[name] - 1) for a, b in zip(measured[name], predicted, strict=True))
            for name in ("parameters", "operations")
        }
        products = predicted[-1]["operations"] / (2 * SQUARE**3)  # of two matrices, in the largest model
        expected = [products * seconds for seconds in measured["matrices"]]
        slower = Spread.of_times(ratios(measured["seconds"][-1], expected))
        holds = max(off.values()) <= self.share and slower.middle <= self.slower
        reason = (
            f"Parameters are within {off['parameters']:.1%} of the prediction and FLOPs within "
            f"{off['operations']:.1%}. A step of the largest model takes {slower.write('.2g')} times the "
            "predicted time."
        )
        if holds:
            (flops, years, energy), cores = self._known("gpt-3", measured), measured["threads"]
            reason += (
                f" By the same rule GPT-3's training took {flops} FLOPs; on {cores} of its cores this "
                f"machine would need {years} years and, at {self.watts:g} W a core, {energy} GWh."
            )
        return Verdict(holds, reason)

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each size, and one for each known model."""
        counts, times, power = [], [], self.watts * measured["threads"]
        for number, width in enumerate(self.widths):
            predicted, taken = self.predicted(width), Spread.of_times(measured["seconds"][number])
            counts.append((
                width, predicted["parameters"], measured["parameters"][number],
                predicted["operations"] / 1e9, measured["operations"][number] / 1e9,
            ))  # fmt: skip
            expected = 1e3 * predicted["operations"] / self._rate(measured)
            spread = Spread(*(1e3 * one for one in taken)).write(".0f")
            times.append((width, f"{expected:.0f}", spread, power * expected / 1e3, power * taken.middle))
        known = [(name, f"{tokens:.0e}", *self._known(name, measured)) for name, tokens in KNOWN.items()]
        step = f"a step of {self.texts * self.length:,} tokens"
        columns = ("width", "parameters, predicted", "counted", "GFLOPs, predicted", "counted")
        energy = ("width", "ms, predicted", "measured", "joules, predicted", "from the measured time")
        heads = ("model", "tokens", "FLOPs", "years on this machine", "GWh on this machine")
        return [
            Table(f"Counts, {step}", columns, tuple(counts)),
            Table(f"Time and energy, {step}", energy, tuple(times)),
            Table("Known models, predicted by the same rule", heads, tuple(known)),
        ]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """FLOPs and time by width."""
        predicted = [self.predicted(width)["operations"] for width in self.widths]
        flops = tuple(
            Series(label, self.widths, tuple(one / 1e9 for one in values))
            for label, values in {"predicted": predicted, "counted": measured["operations"]}.items()
        )
        times = (
            Series("predicted", self.widths, tuple(one / self._rate(measured) for one in predicted)),
            series("measured", self.widths, measured["seconds"], Spread.of_times),
        )
        return [
            Chart("Compute of a step", "width", "GFLOPs", flops, log_x=True, log_y=True),
            Chart("Time of a step", "width", "seconds", times, log_x=True, log_y=True),
        ]

    def predicted(self, width: int) -> dict[str, int]:
        """Parameters, and FLOPs of a step, from the shape."""
        parameters = _parameters(width, self.layers, self.vocabulary)
        per_token = 6 * parameters + 12 * self.layers * width * self.length
        return {"parameters": parameters, "operations": per_token * self.texts * self.length}

    def _config(self, width: int) -> ModelConfig:
        return ModelConfig(
            family="decoder-only", vocabulary=self.vocabulary, width=width, layers=self.layers,
            heads=width // 64, feed_forward_width=4 * width, context=self.length + 1, residual="pre",
        )  # fmt: skip

    def _rate(self, measured: dict[str, Any]) -> float:
        """FLOPs per second of this machine in a product of two large matrices."""
        return 2 * SQUARE**3 / Spread.of_times(measured["matrices"]).middle

    def _known(self, name: str, measured: dict[str, Any]) -> list[str]:
        """FLOPs of the training of a known model; years and GWh that this machine would need."""
        config = ModelConfig.named(name)
        operations = 6 * _parameters(config.width, config.layers, config.vocabulary) * KNOWN[name]
        seconds = operations / self._rate(measured)
        energy = seconds * self.watts * measured["threads"]
        return [f"{float(f'{one:.2g}'):,g}" for one in (operations, seconds / YEAR, energy / 3.6e12)]


def _parameters(width: int, layers: int, vocabulary: int) -> int:
    return 12 * layers * width**2 + vocabulary * width


def _step(config: ModelConfig, texts: int, length: int) -> Callable[[], object]:
    """Forward and backward of a language model."""
    model = seeded(lambda: build_model(config), 1)
    ids = torch.randint(config.vocabulary, (texts, length))

    def step() -> None:
        model.zero_grad()
        logits = model(ids).flatten(0, 1)
        torch.nn.functional.cross_entropy(logits, ids.flatten()).backward()

    return step


def _count(step: Callable[[], object]) -> int:
    """FLOPs of the matrix products, with attention in explicit products, which torch can count."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()
