"""Pictures in, words out, and sounds in, labels out: the same parts with other inputs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from regard.lessons.experiment import accuracy, classifier, fit, greedy, seeded
from regard.lessons.lesson import Chart, Lesson, Say, See, Series, Spread, Table, Verdict, heat, image
from regard.lessons.picture_tasks import SIZE, WORDS, Drawings, Sounds
from regard.model.config import ModelConfig, Patches
from regard.model.patches import cut_patches
from regard.model.transformer import EncoderDecoder, build_model
from regard.model.watch import watch
from regard.text.collate import ParallelBatch
from regard.training.objectives import Translation

SIDE = 4  # pixels on a side of a patch
PATCHES = SIZE // SIDE  # on a side of a drawing
CAPTION = 8  # words of a caption, with the end token
NAMED = {1: 0, 2: 0, 5: 1, 6: 1}  # places of colours and shapes in a caption: which thing they name
SHAPES_OF_CAPTION = (2, 6)
RELATION = 3  # its place in a caption
TESTS = 256  # drawings that training did not draw


class Captions(Lesson):
    """Captions of drawings and labels of sounds."""

    name: ClassVar = "captions"
    lecture_rows: ClassVar = ("36",)
    claim: ClassVar = (
        "The same architecture works for more than text: a picture in, words out; a sound in, a label out."
    )
    question: ClassVar = "Can the encoder-decoder describe a drawing, and the encoder classify a sound?"
    variable: ClassVar = "The input: patches of a drawing, or frames of a sound."
    measurement: ClassVar = (
        "The share of new drawings whose greedy caption is right in every word; the accuracy on 1,024 new "
        "sounds; the share of cross-attention on the named thing while its colour or shape is written."
    )
    rule: ClassVar = "The claim holds if captions and sounds are right in at least `able`, with every seed."
    control_words: ClassVar = "Each drawing has the caption, and each sound the label, of another; one seed."
    places: ClassVar = (See("Cross-attention over words in place of patches", view="tab=inspect&kind=cross"),)

    is_paired: bool = True
    """Whether answers belong to their pictures and sounds."""
    able: float = 0.9
    """Lowest share of right answers; one guess gives 0.002 of the captions and 0.25 of the sounds."""
    steps: int = 550
    """Training steps of a model that writes captions."""
    sound_steps: int = 150
    """Training steps of a model that classifies sounds."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Captions:
        """Answers of others, with one seed."""
        return self.changed(is_paired=False, seeds=self.seeds[:1])

    def measure(self, say: Say) -> dict[str, Any]:
        """Train both models with every seed."""
        captions, sounds = [], []
        for seed in self.seeds:
            say(f"training on drawings, seed {seed}")
            captions.append(self._caption(seed))
            say(f"training on sounds, seed {seed}")
            task = Sounds(is_paired=self.is_paired)
            model, _ = classifier(
                task, seed, self.sound_steps, vectors=task.width, positions="sinusoidal", pooling="mean"
            )
            sounds.append(accuracy(model, Sounds(), seed))
        return {"captions": captions, "sounds": sounds}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """Captions and sounds of every seed."""
        right = [run["right"] for run in measured["captions"]]
        on_named = Spread.of([run["on named"] for run in measured["captions"]])
        on_nothing = _share_on_nothing(**measured["captions"][0])
        return Verdict(
            holds=min(*right, *measured["sounds"]) >= self.able,
            reason=f"{Spread.of(right).write()} of the captions are right in every word, and "
            f"{Spread.of(measured['sounds']).write()} of the sounds are recognised. While a colour or shape "
            f"is written, {on_named.write()} of the cross-attention on the two things falls on the named "
            "one; 0.50 would be chance. But a large part can fall on empty patches: "
            f"{' and '.join(f'{share:.2f}' for share in on_nothing)} while the two shapes of the "
            "drawing shown are written.",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each seed, and captions of the first."""
        rows = [
            (seed, run["right"], run["on named"], sound)
            for seed, run, sound in zip(self.seeds, measured["captions"], measured["sounds"], strict=True)
        ]
        columns = ("seed", "captions right", "cross-attention on the named thing", "sounds right")
        examples = measured["captions"][0]["examples"]
        return [
            Table("New drawings and sounds", columns, tuple(rows)),
            Table("Captions", ("drawing", "caption written"), tuple(map(tuple, examples))),
        ]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Right answers, and the cross-attention of a caption."""
        first = measured["captions"][0]
        shares = [Spread.of([run["right"] for run in measured["captions"]]), Spread.of(measured["sounds"])]
        bars = Series("share right", ("captions", "sounds"), *map(tuple, zip(*shares, strict=True)))
        caption = first["examples"][0][0].split()
        return [
            Chart("New drawings and sounds", "input", "share right", (bars,), kind="bars"),
            image("A new drawing", first["picture"]),
            *(
                heat(f"While writing “{caption[place]}”", "patch", "patch", first["weights"][place], "weight")
                for place in SHAPES_OF_CAPTION
            ),
        ]

    def _caption(self, seed: int) -> dict[str, Any]:
        """Train a model and write captions of new drawings."""
        config = ModelConfig(
            patches=Patches(side=SIDE, class_token=False), target_vocabulary=len(WORDS), context=64, width=64,
            layers=2, heads=4, feed_forward_width=128, share_embeddings=False, residual="pre",
        )  # fmt: skip
        model = seeded(lambda: build_model(config), seed)
        assert isinstance(model, EncoderDecoder)
        fit(Translation(model), Drawings(is_paired=self.is_paired).draw, self.steps, seed)
        batch = Drawings(rows=TESTS).draw(np.random.default_rng((seed, 1 << 20)))
        pictures = torch.as_tensor(batch.source)
        written = greedy(model, pictures, WORDS.index("<s>"), CAPTION)
        with torch.no_grad(), watch(model, only="cross.weights") as seen:
            model(pictures, torch.as_tensor(batch.target_in))
        weights = seen[f"decoder.{config.layers - 1}.cross.weights"].mean(1).numpy()  # B T patches
        examples = zip(batch.target_out[:5], written[:5], strict=True)
        return {
            "right": float((written == batch.target_out).all(1).mean()),
            "on named": _share_on_named(batch, weights),
            "examples": [[_text(right), _text(ids)] for right, ids in examples],
            "picture": batch.source[0].transpose(1, 2, 0).tolist(),
            "weights": weights[0].reshape(CAPTION, PATCHES, PATCHES).tolist(),
        }


def _share_on_named(batch: ParallelBatch, weights: np.ndarray) -> float:
    """Of the weight on patches with a thing, the share on the thing that the next word names."""
    is_drawn = cut_patches(torch.as_tensor(batch.source), SIDE).any(-1).numpy()  # B patches
    row, column = np.divmod(np.arange(PATCHES**2), PATCHES)
    is_above = batch.target_out[:, RELATION] == WORDS.index("above")
    is_second = np.where(is_above[:, None], row >= PATCHES // 2, column >= PATCHES // 2)
    shares = []
    for place, thing in NAMED.items():
        on_things = weights[:, place] * is_drawn
        shares.append((on_things * (is_second == thing)).sum(1) / on_things.sum(1))
    return float(np.mean(shares))


def _share_on_nothing(
    picture: list[list[list[float]]], weights: list[list[list[float]]], **others: Any
) -> list[float]:
    """The weight on patches in which nothing is drawn, while each shape is written."""
    is_empty = np.reshape(picture, (PATCHES, SIDE, PATCHES, SIDE, 3)).max((1, 3, 4)) == 0
    return [float(np.sum(np.array(weights[place])[is_empty])) for place in SHAPES_OF_CAPTION]


def _text(ids: np.ndarray) -> str:
    return " ".join(WORDS[number] for number in ids if WORDS[number] != "</s>")
