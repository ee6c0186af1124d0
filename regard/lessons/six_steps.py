"""Attention in six steps: the lectures' digits, the same through the model's code, and a soft dictionary."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from regard.inspection.by_hand.examples import find_example
from regard.lessons.lesson import Chart, Lesson, Say, See, Series, Table, Verdict
from regard.model.attention import attention_steps
from regard.model.masks import Mask

# What the lectures print, by example: weights and, where printed, outputs.
PRINTED: dict[str, dict[str, list[list[float]]]] = {
    "A": {"weights": [[0.8808, 0.1192]]},
    "B": {
        "weights": [[0.0634, 0.4683, 0.4683], [0.0, 0.9820, 0.0180], [0.0003, 0.8805, 0.1192]],
        "outputs": [[1.9366, 6.6831, 1.5951], [2.0, 7.9640, 0.0540], [1.9997, 7.7599, 0.3584]],
    },
    "C": {
        "weights": [
            [1.0, 0, 0, 0, 0, 0],
            [0.75, 0.25, 0, 0, 0, 0],
            [0.69, 0.08, 0.24, 0, 0, 0],
            [0.92, 0.02, 0.02, 0.04, 0, 0],
            [0.46, 0.01, 0.22, 0.06, 0.24, 0],
            [0.0, 0.46, 0.02, 0.01, 0.48, 0.03],
        ]
    },
    "D": {"outputs": [[0.4, 0.4, 0.2], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]]},
}
HALF_UNIT = {"A": 5e-5, "B": 5e-5, "C": 5e-3, "D": 5e-2}  # of the last printed digit
TEMPERATURES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class SixSteps(Lesson):
    """From a dictionary look-up to attention."""

    name: ClassVar = "six-steps"
    lecture_rows: ClassVar = ("4", "29")
    claim: ClassVar = (
        "Attention is a look-up in a dictionary, made soft: every key answers in part, in six steps."
    )
    question: ClassVar = "Do the six steps give the lectures' digits, and a dictionary's answer in the limit?"
    variable: ClassVar = "The example, and the temperature of the softmax for the look-up."
    measurement: ClassVar = (
        "The largest deviation of the weights and outputs from the printed digits, step by step in plain "
        "Python and through the model's function; the deviation of a soft look-up from a dictionary's value."
    )
    rule: ClassVar = (
        "The claim holds if no digit deviates by more than `rounding` halves of the last one, both "
        "computations agree to 1e-6, and the look-up at the lowest temperature is within `exact` of the "
        "dictionary."
    )
    control_words: ClassVar = "A dictionary whose keys are all equal, so that no query can tell them apart."
    places: ClassVar = (
        See("All steps of example B", command="regard by-hand B", view="tab=byhand&example=B"),
        See("The six steps for one word", command="regard by-hand B --row 0"),
        See("The steps of one cell in a trained model", view="tab=inspect&picture=matrix"),
    )

    rounding: float = 1.1
    """Largest deviation, in halves of the last printed digit; more than 1 for a digit that is cut, not
    rounded."""
    exact: float = 1e-3
    """Largest deviation from the dictionary at the lowest temperature."""
    distinct_keys: bool = True
    """Whether the keys of the dictionary differ."""

    def control(self) -> SixSteps:
        """Equal keys."""
        return self.changed(distinct_keys=False)

    def measure(self, say: Say) -> dict[str, Any]:
        """Compute every example twice, then the look-up at every temperature."""
        say("worked examples")
        examples = {letter: self._example(letter) for letter in PRINTED}
        say("a soft dictionary")
        look_up = [self._look_up(temperature) for temperature in TEMPERATURES]
        return {"examples": examples, "look-up": look_up, "questions": _answers()}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Digits, agreement, and the limit."""
        examples = measured["examples"].values()
        digits, agreement = (max(one[name] for one in examples) for name in ("digits", "agreement"))
        limit = measured["look-up"][0]["deviation"]
        return Verdict(
            holds=digits <= self.rounding and agreement <= 1e-6 and limit <= self.exact,
            reason=f"The largest deviation is {digits:.2f} halves of the last printed digit; the two "
            f"computations agree to {agreement:.1g}. At a temperature of {TEMPERATURES[0]} the look-up "
            f"deviates from the dictionary by {limit:.2g}, at 1 by "
            f"{measured['look-up'][TEMPERATURES.index(1.0)]['deviation']:.2g}.",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """The examples, the look-up, and the lectures' questions."""
        examples = tuple(
            (letter, one["digits"], one["agreement"]) for letter, one in measured["examples"].items()
        )
        look_up = tuple((one["temperature"], one["largest"], one["deviation"]) for one in measured["look-up"])
        return [
            Table(
                "Examples",
                ("example", "deviation, in halves of the last digit", "plain Python and model"),
                examples,
            ),
            Table("A soft dictionary", ("temperature", "weight of the right key", "deviation"), look_up),
            Table(
                "Questions of the lectures", ("question", "answer"), tuple(map(tuple, measured["questions"]))
            ),
        ]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """From the dictionary to the mean of all values."""
        rows = measured["look-up"]
        labels = {"largest": "weight of the right key", "deviation": "deviation from its value"}
        return [
            Chart(title, "temperature of the softmax", label, (
                Series(label, TEMPERATURES, tuple(one[name] for one in rows)),
            ), log_x=True)
            for title, (name, label) in zip(("A soft look-up", "Its answer"), labels.items(), strict=True)
        ]  # fmt: skip

    def _example(self, letter: str) -> dict[str, float]:
        """The deviations of one worked example."""
        q, k, v, scale = _inputs(letter)
        causal = bool(find_example(letter).rules.get("causal"))
        weights, outputs = _six_steps(q, k, v, scale, causal)
        tensors = [torch.tensor(x, dtype=torch.float64)[None, None] for x in (q, k, v)]
        steps = attention_steps(*tensors, mask=Mask(causal=causal), scale=scale)
        ours = {"weights": np.array(weights), "outputs": np.array(outputs)}
        model = {"weights": steps.weights[0, 0].numpy(), "outputs": steps.output[0, 0].numpy()}
        printed = PRINTED[letter]
        return {
            "digits": max(float(np.abs(ours[name] - np.array(printed[name])).max()) for name in printed)
            / HALF_UNIT[letter],
            "agreement": max(float(np.abs(ours[name] - model[name]).max()) for name in ours),
        }

    def _look_up(self, temperature: float) -> dict[str, float]:
        """The value of the key "deux" in {un: 1, deux: 2, trois: 9}, found by attention."""
        keys = np.eye(3) if self.distinct_keys else np.ones((3, 3))
        weights, outputs = _six_steps(
            keys[1:2].tolist(), keys.tolist(), [[1.0], [2.0], [9.0]], 1 / temperature
        )
        return {
            "temperature": temperature,
            "largest": weights[0][1],
            "deviation": abs(outputs[0][0] - 2.0),
        }


def _six_steps(
    q: list[list[float]], k: list[list[float]], v: list[list[float]], scale: float, causal: bool = False
) -> tuple[list[list[float]], list[list[float]]]:
    """Weights and outputs; step 1, the projection to queries, keys and values, is done."""
    all_weights, outputs = [], []
    for place, query in enumerate(q):
        scores = [sum(a * b for a, b in zip(query, key, strict=True)) for key in k]  # 2: dot products
        scaled = [score * scale for score in scores]  # 3: divide
        if causal:
            scaled[place + 1 :] = [-np.inf] * (len(k) - place - 1)  # later words
        shares = [np.exp(score - max(scaled)) for score in scaled]
        weights = [float(share / sum(shares)) for share in shares]  # 4: softmax
        weighted = [
            [weight * x for x in value] for weight, value in zip(weights, v, strict=True)
        ]  # 5: weight
        outputs.append([sum(column) for column in zip(*weighted, strict=True)])  # 6: sum
        all_weights.append(weights)
    return all_weights, outputs


def _inputs(letter: str) -> tuple[list[list[float]], list[list[float]], list[list[float]], float]:
    """Queries, keys, values and the factor of the scores of a worked example."""
    example = find_example(letter)
    given = {name: np.array(rows, float) for name, rows in example.given.items()}
    if "x" in given:  # step 1: project
        q, k, v = (given["x"] @ given[name] for name in ("wq", "wk", "wv"))
        return q.tolist(), k.tolist(), v.tolist(), 1.0
    if "scores" in given:  # queries are unit vectors, so that the keys are the scores
        scores, scale = given["scores"], (example.key_width or 1) ** -0.5
        return np.eye(len(scores)).tolist(), scores.T.tolist(), np.eye(scores.shape[1]).tolist(), scale
    # Weights are the softmax of their logarithms.
    return np.eye(3).tolist(), np.log(given["weights"]).T.tolist(), given["v"].tolist(), 1.0


def _answers() -> list[tuple[str, str]]:
    """The questions that a lecture asks about example B, answered from its numbers."""
    matrices = [name for name in find_example("B").given if name.startswith("w")]
    q, k, v, scale = _inputs("B")
    answers = [("How many weight matrices are learned?", str(len(matrices)))]
    for number, weights in enumerate(_six_steps(q, k, v, scale)[0], 1):
        related = [str(place) for place, weight in enumerate(weights, 1) if weight >= max(weights) - 1e-9]
        answers.append((f"To which input is input {number} most related?", " and ".join(related)))
    return answers
