"""The temperature of sampling: entropy, variety and repetition of what a language model writes."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import model_validator

from regard.demo.corpus import built_in, split_words
from regard.demo.story.language_model import PROMPTS
from regard.demo.story.model_store import trained_folder
from regard.inference.loading import load_for
from regard.inference.search.sampling import SamplingParameters, SamplingSettings, weights
from regard.inference.tokens import entropy
from regard.inference.writer import Writer
from regard.lessons.lesson import Chart, Lesson, Say, See, Spread, Table, Verdict, difference, series

MEASURES = ("entropy", "variety", "repetition", "sense")


class Temperature(Lesson):
    """softmax(u / T) in the demo's language model."""

    name: ClassVar = "temperature"
    lecture_rows: ClassVar = ("22",)
    claim: ClassVar = "Plain softmax is rigid; a softmax with a higher temperature is creative."
    question: ClassVar = "How do completions change with the temperature T of softmax(u / T)?"
    variable: ClassVar = "The temperature; beside it, top-k and top-p at a temperature of 1."
    measurement: ClassVar = (
        "For the demo's language model and four prompts: the entropy of the next token; the share of "
        "completions that are distinct (variety), and of those that are the most frequent one of their "
        "prompt (repetition); the share of pairs of neighbouring words that occur in the training text."
    )
    rule: ClassVar = (
        "The claim holds if the entropy rises with every temperature, and if variety at the highest is at "
        "least `factor` times that of plain softmax, which has a temperature of 1, and differs by more than "
        "the spread over seeds."
    )
    control_words: ClassVar = "Top-k with k = 1: the likeliest token at every temperature."
    places: ClassVar = (
        See(
            "A completion at a high temperature",
            command='regard complete demo-language-model "My cat" --temperature 1.5',
            view="tab=write&temperature=1.5",
        ),
    )

    temperatures: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
    """Temperatures of sampling, in rising order; 1 is one of them."""
    top_k: int | None = None
    """Number of likeliest tokens from which the next one is drawn; None draws from all."""
    samples: int = 40
    """Completions of each prompt and seed."""
    factor: float = 2.0
    """Variety at the highest temperature, as a multiple of that of plain softmax."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of sampling."""

    @model_validator(mode="after")
    def _check_temperatures(self) -> Self:
        """Refuse temperatures without that of plain softmax."""
        if 1.0 not in self.temperatures:
            raise ValueError("temperatures must contain 1, which is plain softmax; add it")
        return self

    def control(self) -> Temperature:
        """Only the likeliest token."""
        return self.changed(top_k=1)

    def measure(self, say: Say) -> dict[str, Any]:
        """Complete every prompt at every temperature, and with top-k and top-p."""
        writer = load_for("complete", trained_folder("demo-language-model"))
        runs = {}
        for temperature in self.temperatures:
            say(f"temperature {temperature:g}")
            runs[f"{temperature:g}"] = self._runs(writer, temperature=temperature, top_k=self.top_k)
        say("top-k and top-p")
        cut = {
            f"{name} {value:g}": self._runs(writer, temperature=1.0, **{name.replace("-", "_"): value})
            for name, value in (("top-k", 2), ("top-k", 10), ("top-p", 0.5), ("top-p", 0.9))
        }
        return {"temperatures": runs, "cut": cut}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Entropy at every temperature, variety at 1 and at the highest."""
        runs = list(measured["temperatures"].values())
        entropies = [np.mean(_column(run, "entropy")) for run in runs]
        low, plain, high = (
            _column(run, "variety") for run in (runs[0], measured["temperatures"]["1"], runs[-1])
        )
        rises = all(np.diff(entropies) > 0)
        holds = rises and np.mean(high) >= self.factor * np.mean(plain) and difference(high, plain) > 0
        reason = (
            f"From a temperature of {self.temperatures[0]:g} to {self.temperatures[-1]:g} the entropy of the "
            f"next token goes from {entropies[0]:.2f} to {entropies[-1]:.2f} nats and variety from "
            f"{Spread.of(low).write()} to {Spread.of(high).write()}; plain softmax, a temperature of 1, has "
            f"a variety of {Spread.of(plain).write()}."
        )
        if holds:
            sense = [np.mean(_column(run, "sense")) for run in (measured["temperatures"]["1"], runs[-1])]
            reason += (
                f" It is rigid only in comparison. Variety has a price: {sense[0]:.0%} of the pairs of "
                f"neighbouring words occur in the training text at 1, and {sense[1]:.0%} at "
                f"{self.temperatures[-1]:g}."
            )
        return Verdict(bool(holds), reason, condition="creative means varied")

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each temperature, and one for each cut."""
        columns = ("entropy in nats", "distinct completions", "most frequent completion", "known word pairs")
        titles = {"temperatures": "temperature", "cut": "at a temperature of 1"}
        return [
            Table("Completions" if part == "temperatures" else "Top-k and top-p", (title, *columns), tuple(
                (name, *(Spread.of(_column(run, measure)).write() for measure in MEASURES))
                for name, run in measured[part].items()
            ))
            for part, title in titles.items()
        ]  # fmt: skip

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Entropy, and the three shares, by temperature; the shares with top-k and top-p."""
        runs, cut = list(measured["temperatures"].values()), measured["cut"]
        labels = {
            "variety": "distinct completions",
            "repetition": "most frequent one",
            "sense": "known word pairs",
        }
        entropies = series("entropy", self.temperatures, [_column(run, "entropy") for run in runs])
        shares = tuple(
            series(label, self.temperatures, [_column(run, name) for run in runs])
            for name, label in labels.items()
        )
        bars = tuple(
            series(label, tuple(cut), [_column(run, name) for run in cut.values()])
            for name, label in labels.items()
        )
        return [
            Chart("The next token", "temperature", "entropy in nats", (entropies,)),
            Chart("Completions", "temperature", "share", shares),
            Chart("Completions at a temperature of 1", "", "share", bars, kind="bars"),
        ]

    def _runs(self, writer: Writer, **settings: Any) -> list[dict[str, float]]:
        """The measures of every seed."""
        spread = float(np.mean([_entropy(writer, prompt, **settings) for prompt in PROMPTS]))
        return [{"entropy": spread, **self._sample(writer, seed, **settings)} for seed in self.seeds]

    def _sample(self, writer: Writer, seed: int, **settings: Any) -> dict[str, float]:
        variety, repetition, known = [], [], []
        for number, prompt in enumerate(PROMPTS):
            first = 10_000 * seed + self.samples * number  # completion i draws from this seed + i
            written = writer.complete(
                [prompt] * self.samples, max_tokens=24, stop="\n", seed=first, **settings
            )
            given = len(_pairs(prompt))
            texts = [completion.text for completion in written]
            variety.append(len(set(texts)) / len(texts))
            repetition.append(max(map(texts.count, texts)) / len(texts))
            known += [pair in _known_pairs() for text in texts for pair in _pairs(prompt + text)[given:]]
        return {
            "variety": float(np.mean(variety)),
            "repetition": float(np.mean(repetition)),
            "sense": float(np.mean(known)),
        }


def _column(runs: list[dict[str, float]], name: str) -> list[float]:
    return [run[name] for run in runs]


def _pairs(text: str) -> list[tuple[str, str]]:
    return list(pairwise(split_words(text.lower(), "en")))


@cache
def _known_pairs() -> frozenset[tuple[str, str]]:
    return frozenset(pair for sentence in built_in().train for pair in _pairs(sentence.english))


def _entropy(writer: Writer, prompt: str, **settings: Any) -> float:
    """The entropy of the token after a prompt, as it is sampled, in nats."""
    scores = np.log(writer.next_words(prompt).probabilities)[None]
    parameters = SamplingParameters.of(SamplingSettings(max_length=1, **settings), 1)
    weight = weights(scores, parameters)[0]
    return float(entropy(weight / weight.sum()))
