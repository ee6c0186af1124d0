"""The two halves of the Transformer: an encoder and a decoder of one size, in understanding and writing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.demo.sentences import Pair
from regard.lessons.demo_text import DemoText, demo_corpus, demo_text, draw_sentences
from regard.lessons.experiment import fit, seeded
from regard.lessons.lesson import Chart, Lesson, Say, See, Spread, Table, Verdict, difference, series
from regard.model.masks import Mask
from regard.model.transformer import DecoderOnly, EncoderOnly, build_model, count_parameters
from regard.text.collate import LabelledBatch, collate_labelled, collate_masked
from regard.training.loss import CrossEntropyLoss
from regard.training.objectives import LanguageModeling, MaskedLanguageModeling

MODELS = {"encoder": "encoder-only", "decoder": "decoder-only"}
TESTS = {"meaning": "what “it” is", "next": "the next word"}


OneStack = EncoderOnly | DecoderOnly


class ReadWord(nn.Module):
    """Tells from the vector of one word, or of the end of the text, whether "it" is the first noun."""

    def __init__(self, model: OneStack, word: int | None):
        super().__init__()
        self.model, self.word, self.classify = model, word, nn.Linear(model.config.width, 2)

    def logits(self, ids: Tensor, keys: Tensor) -> Tensor:
        """B Q ids to B 2. Texts are padded on the right, where a decoder does not look."""
        read = self.model.encode if isinstance(self.model, EncoderOnly) else self.model.decode
        places = keys.sum(1) - 1 if self.word is None else (ids == self.word).long().argmax(1)
        return self.classify(read(ids, Mask(keys=keys))[torch.arange(len(ids)), places])

    def forward(self, batch: LabelledBatch) -> tuple[Tensor, int]:
        """The summed loss and the number of texts."""
        logits = self.logits(torch.as_tensor(batch.input), torch.as_tensor(batch.keys))
        return CrossEntropyLoss().of_logits(logits, torch.as_tensor(batch.labels)), batch.rows


class Families(Lesson):
    """An encoder and a decoder with equal parameters, trained on the same sentences."""

    name: ClassVar = "families"
    lecture_rows: ClassVar = ("19", "20", "38")
    claim: ClassVar = "An encoder is better at understanding a text, a decoder at generating one."
    question: ClassVar = "Which of two models of one size tells what a word means, and which writes better?"
    variable: ClassVar = "The family, with equal sentences, training steps and parameters of the stack."
    measurement: ClassVar = (
        "The accuracy on new sentences such as “The animal did not cross the street because it was tired”: "
        "which noun “it” is, read from the vector of `read_at` by a trained classifier; and the next word of "
        "a beginning, for which the decoder was trained to continue and the encoder to fill masked words, "
        "so that it fills a mask at the end."
    )
    rule: ClassVar = (
        "The claim holds if the encoder is better at the meaning and the decoder at the next word, each by "
        "at least `gap` and by more than the spread over seeds."
    )
    control_words: ClassVar = "The meaning is read from the end of the sentence, which a decoder reads too."
    places: ClassVar = (
        See(
            "A decoder that writes", command='regard complete demo-language-model "My cat"', view="tab=write"
        ),
    )

    read_at: Literal["it", "end"] = "it"
    """The word whose vector is read: "it" or "end"."""
    gap: float = 0.05
    """Smallest difference of the accuracies."""
    width: int = 64
    """Width of both models; they have two layers."""
    steps: int = 100
    """Training steps of each model and task."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights, of the batches and of the beginnings."""

    def control(self) -> Families:
        """Read at the end."""
        return self.changed(read_at="end")

    def measure(self, say: Say) -> dict[str, Any]:
        """Train both models for both tasks with every seed."""
        text = demo_text("it")
        known, new = (_references(text, pairs) for pairs in (demo_corpus().train, _held_out()))
        runs: dict[str, Any] = {test: {model: [] for model in MODELS} for test in TESTS}
        for model in MODELS:
            for seed in self.seeds:
                say(f"training, {model}, seed {seed}")
                runs["meaning"][model].append(
                    self._meaning(self._build(model, text, seed), text, known, new, seed)
                )
                runs["next"][model].append(self._next(self._build(model, text, seed), text, seed))
        sizes = {model: count_parameters(self._build(model, text, 1)) for model in MODELS}
        return {**runs, "parameters": sizes}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Both differences."""
        reads, writes = (difference(*(measured[test][model] for model in MODELS)) for test in TESTS)
        spreads = {
            test: " and ".join(f"{Spread.of(measured[test][model]).write()} ({model})" for model in MODELS)
            for test in TESTS
        }
        return Verdict(
            holds=reads >= self.gap and -writes >= self.gap,
            reason=f"What “it” is, is read from the vector of {self.read_at!r} with an accuracy of "
            f"{spreads['meaning']}. The accuracy of the next word is {spreads['next']}. Both models have "
            f"{measured['parameters']['encoder']:,} parameters.",
            condition="the meaning is read from the vector of the word itself",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each test."""
        rows = tuple(
            (label, *(Spread.of(measured[test][model]).write() for model in MODELS))
            for test, label in TESTS.items()
        )
        return [Table("Accuracy on new sentences", ("test", *MODELS), rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """The accuracies as bars."""
        bars = tuple(
            series(model, tuple(TESTS.values()), [measured[test][model] for test in TESTS])
            for model in MODELS
        )
        return [Chart("Two models of one size", "", "accuracy", bars, kind="bars")]

    def _build(self, model: str, text: DemoText, seed: int) -> OneStack:
        config = text.config(width=self.width, family=MODELS[model])
        return seeded(lambda: build_model(config), seed)  # pyright: ignore[reportReturnType]

    def _meaning(self, model: OneStack, text: DemoText, known: Labelled, new: Labelled, seed: int) -> float:
        """The accuracy of a classifier on the vector of one word."""
        reader = ReadWord(model, text.tokenizer.encode("it")[0] if self.read_at == "it" else None)

        def draw(random: np.random.Generator) -> LabelledBatch:
            chosen = random.integers(len(known), size=32)
            return _labelled(text, [known[number] for number in chosen])

        fit(reader, draw, self.steps, seed)
        batch = _labelled(text, new)
        with torch.no_grad():
            logits = reader.logits(torch.as_tensor(batch.input), torch.as_tensor(batch.keys))
        return float((logits.argmax(-1).numpy() == batch.labels).mean())

    def _next(self, model: OneStack, text: DemoText, seed: int) -> float:
        """The accuracy of the next word after a beginning of every new sentence."""

        def draw(random: np.random.Generator) -> Any:
            drawn = draw_sentences(text.train, 32, random)
            if isinstance(model, EncoderOnly):
                return collate_masked(drawn, text.tokenizer, random)
            return text.language_batch(drawn)

        is_encoder = isinstance(model, EncoderOnly)
        objective = MaskedLanguageModeling(model) if is_encoder else LanguageModeling(model)
        fit(objective, draw, self.steps, seed)
        random, right = np.random.default_rng((seed, 1)), []
        for ids in text.held_out[:300]:
            cut = int(random.integers(1, len(ids)))
            read = [text.tokenizer.start, *ids[:cut], *([text.tokenizer.mask] if is_encoder else [])]
            with torch.no_grad():
                right.append(int(model(torch.tensor([read]))[0, -1].argmax()) == ids[cut])
        return float(np.mean(right))


Labelled = list[tuple[np.ndarray, int]]


def _held_out() -> tuple[Pair, ...]:
    return demo_corpus().valid + demo_corpus().test


def _references(text: DemoText, pairs: Sequence[Pair]) -> Labelled:
    """Sentences with "it", and whether it is the first noun (0) or the second (1)."""
    found = []
    for pair in pairs:
        if pair.family == "it" and " it " in pair.source and len(pair.combinations) == 2:
            (_, _, second), (_, _, meant) = (
                pair.combinations[0].partition("/"),
                pair.combinations[1].partition(" "),
            )
            found.append((np.array(text.tokenizer.encode(pair.source)), int(meant == second)))
    return found


def _labelled(text: DemoText, sentences: Labelled) -> LabelledBatch:
    ids, labels = zip(*sentences, strict=True)
    return collate_labelled(ids, labels, text.tokenizer)
