"""A contextual vector resolves a word's meaning: "bank" beside a river or a street, and "she"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import torch

from regard.demo.corpus import built_in
from regard.demo.story.contrasts import Reference, contrasts
from regard.demo.story.model_store import trained_folder
from regard.inference.loading import load_for
from regard.inference.translator import Translator
from regard.lessons.lesson import Chart, Lesson, Say, See, Spread, Table, Verdict, series
from regard.model.watch import watch

RIDGE = 10.0  # of the linear probes


class Meaning(Lesson):
    """The vectors of one word in two contexts, layer by layer, in the demo's model."""

    name: ClassVar = "meaning"
    lecture_rows: ClassVar = ("37",)
    claim: ClassVar = "Layer by layer, the vector of a word comes to hold its meaning in the sentence."
    question: ClassVar = "From which layer on can the meaning of “bank” and the name of “she” be read?"
    variable: ClassVar = (
        "The layer of the encoder of the demo's model; 0 is the sum of embedding and position."
    )
    measurement: ClassVar = (
        "The accuracy with which a linear probe tells a crossed river from a crossed street at "
        "“bank”, and the name at “she”, in sentences that did not train it, for three random divisions of "
        "the pairs of sentences; the cosine of two vectors of “bank”."
    )
    rule: ClassVar = (
        "The claim holds if, for every division, both accuracies are at least `able` after the last layer "
        "and at most `unable` at layer 0."
    )
    control_words: ClassVar = "The same vectors with the right answers in random order."
    places: ClassVar = (
        See(
            "The heads that resolve “bank”",
            command='regard inspect demo "I arrived at the bank after crossing the river"',
            view="tab=compare&text=I arrived at the bank after crossing the river"
            "&second=I arrived at the bank after crossing the street",
        ),
    )

    pairs: int = 120
    """Pairs of sentences."""
    able: float = 0.9
    """Lowest accuracy after the last layer."""
    unable: float = 0.6
    """Highest accuracy at layer 0."""
    shuffled: bool = False
    """Whether the answers are in random order."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the divisions into sentences that train a probe and others that test it."""

    def control(self) -> Meaning:
        """Answers in random order."""
        return self.changed(shuffled=True)

    def measure(self, say: Say) -> dict[str, Any]:
        """Probes of "bank" and "she", and cosines of "bank"."""
        translator = load_for("translate", trained_folder("demo"))
        say("vectors of bank")
        banks = contrasts(built_in(), "bank", self.pairs)
        pairs = [[_vectors(translator, one) for one in pair] for pair in banks]
        say("vectors of she")
        women = [one for pair in contrasts(built_in(), "she", self.pairs) for one in pair]
        names = [one.referent for one in women]
        return {
            "bank": self._probe(
                [vector for pair in pairs for vector in pair], ["water", "street"] * len(pairs)
            ),
            "she": self._probe([_vectors(translator, one) for one in women], names),
            "names": len(set(names)),
            "cosines": [_cosines(*pair) for pair in pairs],
        }

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Both words, first and last layer."""
        bank, she = (list(map(Spread.of, measured[word])) for word in ("bank", "she"))
        cosine = Spread.of([row[-1] for row in measured["cosines"]])
        able = [layer for layer, pair in enumerate(zip(bank, she, strict=True)) if _lowest(pair) >= self.able]
        return Verdict(
            holds=_lowest((bank[-1], she[-1])) >= self.able and max(bank[0].high, she[0].high) <= self.unable,
            reason=f"River or street is read from “bank” in {bank[0].write('.0%')} of the sentences at layer "
            f"0 and in {bank[-1].write('.0%')} after the last layer; the name is read from “she” in "
            f"{she[0].write('.0%')} and {she[-1].write('.0%')}, among {measured['names']} names. "
            + (f"Layer {able[0]} is the first from which both can be read. " if able else "")
            + ("One layer is enough for both. " if able[:1] == [1] else "")
            + "The cosine of the two vectors of “bank” is "
            f"still {cosine.write()}: the meaning is a small part of a vector that mostly holds the word "
            "itself.",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each layer."""
        cosines = [Spread.of(column).write() for column in np.transpose(measured["cosines"]).tolist()]
        shares = ([Spread.of(runs).write() for runs in measured[word]] for word in ("bank", "she"))
        rows = zip(range(len(cosines)), *shares, cosines, strict=True)
        columns = ("layer", "river or street read from bank", "name read from she", "cosine of two banks")
        return [Table("Layer by layer", columns, tuple(rows))]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Probes and cosine by layer."""
        layers = tuple(range(len(measured["bank"])))
        probes = (
            series("river or street, from “bank”", layers, measured["bank"]),
            series("the name, from “she”", layers, measured["she"]),
        )
        cosines = series("cosine", layers, np.transpose(measured["cosines"]).tolist())
        return [
            Chart("Read from the vector", "layer", "accuracy", probes),
            Chart("Two vectors of “bank”", "layer", "cosine", (cosines,)),
        ]

    def _probe(self, vectors: list[np.ndarray], answers: list[str]) -> list[list[float]]:
        """For each layer and division, the share of one half that a linear probe of the other answers."""
        divisions = []
        for seed in self.seeds:
            random = np.random.default_rng(seed)
            pairs = random.permutation(len(answers) // 2)  # both sentences of a pair are on one side
            order = np.stack((2 * pairs, 2 * pairs + 1), 1).ravel()
            labels = np.array(answers)[order]
            labels = random.permutation(labels) if self.shuffled else labels
            divisions.append([_share(layer[order], labels) for layer in np.stack(vectors, 1)])
        return np.transpose(divisions).tolist()


def _share(x: np.ndarray, labels: np.ndarray) -> float:
    """The share of labels in the second half that a linear probe of the first reads from x, texts x width."""
    half, known = len(labels) // 2, np.unique(labels)
    wanted = (labels[:half, None] == known).astype(float)
    x = (x - x[:half].mean(0)) / (x[:half].std(0) + 1e-6)
    x = np.c_[x, np.ones(len(x))]
    ridge = x[:half].T @ x[:half] + RIDGE * np.eye(x.shape[1])
    weights = np.linalg.solve(ridge, x[:half].T @ wanted)
    return float((known[(x[half:] @ weights).argmax(1)] == labels[half:]).mean())


def _lowest(spreads: Iterable[Spread]) -> float:
    return min(spread.low for spread in spreads)


def _vectors(translator: Translator, reference: Reference) -> np.ndarray:
    """The vector of the word before the first and after every layer of the encoder."""
    tokenizer, model = translator.tokenizers.source, translator.model
    pieces = tokenizer.tokens(reference.text)
    place = next(number for number, piece in enumerate(pieces) if piece.text == reference.word)
    ids = torch.tensor([[*(piece.id for piece in pieces), tokenizer.end]])
    with torch.no_grad(), watch(model) as seen:
        model.encode(ids)
    names = [f"encoder.{layer}.around_feed_forward.after" for layer in range(model.config.layers)]
    return np.stack([seen[name][0, place].numpy() for name in ("source.output", *names)])


def _cosines(first: np.ndarray, second: np.ndarray) -> list[float]:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return ((first * second).sum(1) / lengths).tolist()
