"""Recurrent networks and additive attention beside the Transformer, with equal parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch

from regard.lessons.demo_pairs import DemoPairs
from regard.lessons.experiment import fit, ratios, seeded
from regard.lessons.lesson import Chart, Lesson, Say, See, Spread, Table, Verdict, difference, heat, series
from regard.lessons.recurrent import ROWS, alignment, models_of_equal_size, time_steps, translate
from regard.lessons.tasks import Recall
from regard.model.transformer import EncoderDecoder, count_parameters
from regard.training.objectives import Translation

PLAIN = ("GRU", "LSTM")
ATTENDING = ("GRU with attention", "LSTM with attention", "Transformer")
MODELS = (*PLAIN, *ATTENDING)
TIMED = ("GRU", "GRU with attention", "Transformer")
ALIGNED = {"GRU with attention": "Alignment, GRU", "Transformer": "Cross-attention, Transformer"}
TESTS, RATE = 200, 8e-3  # new sentences to translate, and the learning rate of this training
SHOWN = (
    "the animal didn't cross the street because it was too tired",
    "l'animal n'a pas traversé la rue parce qu'il était trop fatigué",
)


class Recurrence(Lesson):
    """Recall by distance, translation and training time of five models."""

    name: ClassVar = "recurrence"
    lecture_rows: ClassVar = ("25",)
    claim: ClassVar = (
        "Recurrent models hold a text in one state and lose distant links; attention keeps them."
    )
    question: ClassVar = "What do GRU and LSTM recall of a text, with attention and without?"
    variable: ClassVar = (
        "The model, with about the same number of parameters: GRU and LSTM, plain or with additive "
        "attention, and a Transformer."
    )
    measurement: ClassVar = (
        "The recall of the first token of a text by its length, after `steps` training steps; the share of "
        "new sentences of a reduced demo corpus that are translated exactly; the time of a training step."
    )
    rule: ClassVar = (
        "The claim holds if, at the largest distance, each model with attention recalls the token more often "
        "than each plain one, by at least `gap` and by more than the spread over seeds."
    )
    control_words: ClassVar = "A distance of one token, over which a state is kept."
    places: ClassVar = (See("The cross-attention of a trained Transformer", view="tab=inspect&kind=cross"),)
    is_timed: ClassVar = True

    distances: tuple[int, ...] = (8, 64)
    """Tokens between the one to recall and the end of the text; models are trained for each distance."""
    gap: float = 0.2
    """Smallest difference of the recall."""
    steps: int = 100
    """Training steps on such texts."""
    parts: tuple[Literal["recall", "translation", "time"], ...] = ("recall", "translation", "time")
    """What is measured; always the recall."""
    sentences: int = 1500
    """Sentences of the reduced demo corpus."""
    translation_steps: int = 300
    """Training steps on these sentences."""
    lengths: tuple[int, ...] = (8, 16, 32, 64)
    """Lengths of source and target for the time of a training step."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Recurrence:
        """A short distance, and no other part."""
        return self.changed(distances=(1,), parts=("recall",))

    def measure(self, say: Say) -> dict[str, Any]:
        """The chosen parts."""
        parts = {"recall": self._recall, "translation": self._translation, "time": self._times}
        return {part: parts[part](say) for part in dict.fromkeys(("recall", *self.parts))}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """The recall at the largest distance."""
        far = {name: [run[-1] for run in measured["recall"][name]] for name in MODELS}
        gap = min(difference(far[one], far[other]) for one in ATTENDING for other in PLAIN)
        reason = f"After {self.steps} steps the recall at distance {self.distances[-1]} is {_listed(far)}."
        near = {name: [run[0] for run in measured["recall"][name]] for name in PLAIN}
        if max(difference(near[name], far[name]) for name in PLAIN) > 0:
            reason += (
                f" At distance {self.distances[0]} the plain models reach {_listed(near)}: a state can hold "
                "one token; what falls with distance is what is learned in these steps."
            )
        if "translation" in measured:
            exact = measured["translation"]["exact"]
            equal = [name for name in ATTENDING[:2] if not difference(exact[name], exact["Transformer"])]
            reason += f" The share of exact translations is {_listed(exact)}."
            reason += f" No difference from the Transformer above the spread: {', '.join(equal) or 'none'}."
        if "time" in measured:
            last = {name: measured["time"][name][-1] for name in TIMED}
            times = {name: Spread.of_times(ratios(last[name], last["Transformer"])) for name in TIMED[:2]}
            reason += (
                f" With {self.lengths[-1]} tokens, a training step of the GRU with attention, which computes "
                f"one token after the other, takes {times['GRU with attention'].write('.1f')} times as long "
                f"as one of the Transformer; that of the plain GRU {times['GRU'].write('.1f')} times."
            )
        return Verdict(holds=gap >= self.gap, reason=reason)

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """Recall, translation and time of every model."""
        recall = measured["recall"]
        rows = [
            (name, *(Spread.of(runs).write() for runs in zip(*recall[name], strict=True))) for name in MODELS
        ]
        columns = ("model", *(f"{distance} tokens" for distance in self.distances))
        tables = [Table("Recall by distance", columns, tuple(rows))]
        if found := measured.get("translation"):
            rows = [
                (name, found["parameters"][name], Spread.of(found["exact"][name]).write()) for name in MODELS
            ]
            tables.append(Table("A reduced demo corpus", ("model", "parameters", "exact"), tuple(rows)))
        if found := measured.get("time"):
            columns = ("model", *(f"{length} tokens" for length in self.lengths))
            rows = [(name, *(float(np.median(times)) for times in found[name])) for name in TIMED]
            tables.append(Table(f"A training step of {ROWS} sentences, in ms", columns, tuple(rows)))
        return tables

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Recall and time, and alignments of one sentence."""
        distances = tuple(f"{distance} tokens" for distance in self.distances)
        recall = tuple(
            series(name, distances, list(zip(*measured["recall"][name], strict=True))) for name in MODELS
        )
        guess = (1 / Recall(1).values, "guessing")
        charts = [Chart("Recall", "distance", "recall", recall, kind="bars", reference=guess)]
        if found := measured.get("time"):
            times = tuple(series(name, self.lengths, found[name], Spread.of_times) for name in TIMED)
            charts.append(Chart("A training step", "tokens", "ms", times, log_x=True, log_y=True))
        if found := measured.get("translation"):
            text = found["alignment"]
            charts += [
                heat(title, "English", "French", text[name], "weight", text["target"], text["source"])
                for name, title in ALIGNED.items()
            ]
        return charts

    def _recall(self, say: Say) -> dict[str, list[list[float]]]:
        """For every model and seed, the recall by distance."""
        recall = {name: [[] for _ in self.seeds] for name in MODELS}
        for distance in self.distances:
            task, test = Recall(distance), Recall(distance, rows=256)
            for name, seed, model in self._models(task.vocabulary):
                say(f"recall over {distance} tokens, {name}, seed {seed}")
                fit(Translation(model), task.draw, self.steps, seed)
                batch = test.draw(np.random.default_rng((seed, 1 << 20)))
                share = float((translate(model, batch) == batch.target_out).mean())
                recall[name][self.seeds.index(seed)].append(share)
        return recall

    def _translation(self, say: Say) -> dict[str, Any]:
        """Exact translations of new sentences, and the alignment of one."""
        text = DemoPairs(self.sentences)
        test = text.batch([(pair.source, pair.target) for pair in text.corpus.test[:TESTS]])
        shown = text.batch([SHOWN])
        found: dict[str, Any] = {"exact": {name: [] for name in MODELS}, "parameters": {}}
        aligned: dict[str, Any] = {
            "source": text.words(shown.source[0]),
            "target": text.words(shown.target_out[0]),
        }
        for name, seed, model in self._models(text.tokenizer.vocabulary):
            say(f"translation, {name}, seed {seed}")
            fit(Translation(model), text.draw, self.translation_steps, seed, RATE)
            is_right = (translate(model, test) == test.target_out) | ~test.target_keys
            found["exact"][name].append(float(is_right.all(1).mean()))
            found["parameters"][name] = count_parameters(model)
            if name in ALIGNED and seed == self.seeds[0]:
                ids = torch.as_tensor(shown.source), torch.as_tensor(shown.target_in)
                aligned[name] = alignment(model, *ids)[0].tolist()
        return found | {"alignment": aligned}

    def _times(self, say: Say) -> dict[str, list[list[float]]]:
        """Milliseconds of training steps, for every model, length and round."""
        models = {name: model for name, seed, model in self._models(100) if seed == self.seeds[0]}
        found: dict[str, list[list[float]]] = {name: [] for name in TIMED}
        for length in self.lengths:
            say(f"time, {length} tokens")
            for name, seconds in time_steps({name: models[name] for name in TIMED}, length).items():
                found[name].append([1000 * one for one in seconds])
        return found

    def _models(self, vocabulary: int) -> Iterator[tuple[str, int, EncoderDecoder]]:
        """Every model with every seed, untrained."""
        for name, build in models_of_equal_size(vocabulary).items():
            for seed in self.seeds:
                yield name, seed, cast(EncoderDecoder, seeded(build, seed))


def _listed(values: dict[str, list[float]]) -> str:
    return ", ".join(f"{Spread.of(runs).write()} ({name})" for name, runs in values.items())
