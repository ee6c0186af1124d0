"""Pre-training on text without labels, then fine-tuning with few labels, against training from scratch."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from regard.demo.corpus import corpus, split_words
from regard.demo.people import MEN, WOMEN
from regard.lessons.experiment import fit, seeded
from regard.lessons.lesson import Chart, Lesson, Say, See, Spread, Table, Verdict, difference, series
from regard.model.config import ModelConfig
from regard.model.masks import Mask
from regard.model.transformer import EncoderOnly, build_model
from regard.text.collate import LabelledBatch, MaskedBatch, collate_labelled, collate_masked
from regard.text.tokenizer import Tokenizer
from regard.training.objectives import Classification, MaskedLanguageModeling

KINDS = ("pre-trained", "from scratch")
ROWS = 32
KNOWN = (*WOMEN[::2], *MEN[::2])  # names with labels
PRONOUNS = ("she", "her", "he", "his", "him")
Labelled = tuple[np.ndarray, int]  # ids of a sentence and its label


class Pretraining(Lesson):
    """Whether a person is a woman or a man, learned from few names."""

    name: ClassVar = "pretraining"
    lecture_rows: ClassVar = ("24",)
    claim: ClassVar = "Pre-training on text without labels makes few labels go further."
    question: ClassVar = (
        "What does a classifier know of words that have no label, with pre-training and without?"
    )
    variable: ClassVar = (
        "The number of labels, and the initial weights: pre-trained by masked language modelling, or random."
    )
    measurement: ClassVar = (
        "The accuracy with which sentences such as “Marc was a teacher” are assigned to a woman or a man. "
        "Eight names have labels; the test has eight others, which the model knows at most from text without "
        "labels, such as “Claire is angry because she lost her cat”."
    )
    rule: ClassVar = (
        "The claim holds if, with the most labels, the pre-trained model is more accurate by at least `gap` "
        "and by more than the spread over seeds."
    )
    control_words: ClassVar = (
        "Pre-training on the same words in random order, from which nothing can be learned."
    )
    places: ClassVar = (See("Recipes that pre-train and fine-tune", command="regard train --list"),)

    cases: ClassVar = KINDS

    sentences: int = 6000
    """Sentences of the demo's corpus; those that name one person are used."""
    labels: tuple[int, ...] = (8, 16, 32, 64)
    """Numbers of labelled sentences."""
    gap: float = 0.1
    """Smallest difference of the accuracies; guessing gives 0.5."""
    is_text: bool = True
    """Whether the unlabelled text has its order; otherwise its words are drawn at random."""
    steps: int = 600
    """Training steps of masked language modelling."""
    fine_tuning_steps: int = 60
    """Training steps with labels."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights, of the batches and of the labelled sentences."""

    def control(self) -> Pretraining:
        """Text without structure, most labels."""
        return self.changed(is_text=False, labels=self.labels[-1:])

    def measure(self, say: Say) -> dict[str, Any]:
        """Train with every number of labels, from both kinds of weights."""
        people = People(self.sentences)
        runs: dict[str, list[list[float]]] = {kind: [[] for _ in self.labels] for kind in KINDS}
        for seed in self.seeds:
            say(f"pre-training, seed {seed}")
            body = self._pretrain(people, seed)
            order = np.random.default_rng(seed).permutation(len(people.labelled))
            for number, labels in enumerate(self.labels):
                say(f"{labels} labels, seed {seed}")
                known = [people.labelled[row] for row in order[:labels]]
                for kind, weights in zip(KINDS, (body, {}), strict=True):
                    model = self._fine_tune(people, known, weights, seed)
                    runs[kind][number].append(_accuracy(model, people.batch(people.test)))
        return runs

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """The most labels decide."""
        first, last = (Spread.compare(*(measured[kind][place] for kind in KINDS)) for place in (0, -1))
        gap = difference(measured["pre-trained"][-1], measured["from scratch"][-1])
        reason = (
            f"With {self.labels[-1]} labels of other names, the accuracy for names without labels after "
            f"pre-training and from scratch is {last}."
        )
        if len(self.labels) > 1:
            reason += f" With {self.labels[0]} it is {first}."
        return Verdict(
            holds=gap >= self.gap, reason=reason, condition="the text tells what the labels are about"
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each number of labels."""
        rows = tuple(
            (labels, *(Spread.of(measured[kind][number]).write() for kind in KINDS))
            for number, labels in enumerate(self.labels)
        )
        return [Table("Names without labels", ("labels", *KINDS), rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Accuracy by number of labels."""
        lines = tuple(series(kind, self.labels, measured[kind]) for kind in KINDS)
        guess = (0.5, "guessing")
        return [Chart("Names without labels", "labels", "accuracy", lines, log_x=True, reference=guess)]

    def _pretrain(self, people: People, seed: int) -> dict[str, torch.Tensor]:
        """The weights of an encoder after masked language modelling, without its head."""
        words = np.concatenate(people.unlabelled)

        def draw(random: np.random.Generator) -> MaskedBatch:
            rows = [
                people.unlabelled[number] for number in random.integers(len(people.unlabelled), size=ROWS)
            ]
            rows = rows if self.is_text else [random.choice(words, len(row)) for row in rows]
            return collate_masked(rows, people.tokenizer, random)

        model = _build(people, seed, output="masked")
        fit(MaskedLanguageModeling(model), draw, self.steps, seed)
        return {name: weight for name, weight in model.state_dict().items() if not name.startswith("head.")}

    def _fine_tune(
        self, people: People, known: list[Labelled], weights: dict[str, torch.Tensor], seed: int
    ) -> EncoderOnly:
        """A classifier that starts from these weights, trained with these labels."""
        model = _build(people, seed, output="classes", classes=2)
        model.load_state_dict(model.state_dict() | weights)

        def draw(random: np.random.Generator) -> LabelledBatch:
            return people.batch([known[number] for number in random.integers(len(known), size=ROWS)])

        fit(Classification(model), draw, self.fine_tuning_steps, seed, learning_rate=1e-3)
        return model


class People:
    """Sentences of the demo's corpus that name one person, as ids.

    Those without a pronoun are labelled, 1 for a woman. Half of the names are in `labelled`, the others in
    `test`, and none of these sentences in `unlabelled`.
    """

    def __init__(self, sentences: int):
        found = [
            (pair.source, words) for pair in corpus(pairs=sentences).train if (words := _person(pair.source))
        ]
        self.tokenizer = Tokenizer.train([text for text, _ in found], kind="word", lowercase=True)
        self.unlabelled, self.labelled, self.test = [], [], []
        for text, (name, has_pronoun) in found:
            ids = np.array(self.tokenizer.encode(text))
            if has_pronoun:
                self.unlabelled.append(ids)
            else:
                part = self.labelled if name in KNOWN else self.test
                part.append((ids, int(name in WOMEN)))

    def batch(self, rows: list[Labelled]) -> LabelledBatch:
        """Sentences with their labels."""
        sentences, labels = zip(*rows, strict=True)
        return collate_labelled(sentences, labels, self.tokenizer)


def _person(text: str) -> tuple[str, bool] | None:
    """The only person that a sentence names, and whether a pronoun tells the gender."""
    words = split_words(text, "en")
    names = [word for word in words if word in (*WOMEN, *MEN)]
    return (names[0], any(word.lower() in PRONOUNS for word in words)) if len(names) == 1 else None


def _build(people: People, seed: int, **output: Any) -> EncoderOnly:
    config = ModelConfig(
        family="encoder-only", vocabulary=people.tokenizer.vocabulary, context=64, width=64, layers=2,
        heads=4, feed_forward_width=128, residual="pre", pooling="mean", **output,
    )  # fmt: skip
    model = seeded(lambda: build_model(config), seed)
    assert isinstance(model, EncoderOnly)
    return model


@torch.no_grad()
def _accuracy(model: EncoderOnly, batch: LabelledBatch) -> float:
    """The share of right labels."""
    logits = model(torch.as_tensor(batch.input), Mask(keys=torch.as_tensor(batch.keys)))
    return float((logits.argmax(-1).numpy() == batch.labels).mean())
