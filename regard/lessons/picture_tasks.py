"""Tasks of pictures and sounds: handwritten digits, drawings with captions, and synthetic sounds.

B batch, C channels, T frames or words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from regard.errors import MissingPackage
from regard.text.collate import LabelledBatch, ParallelBatch

DIGITS_TRAINED = 1200  # of scikit-learn's 1,797 digits; the others are for the test

COLOURS = {"red": (1, 0.2, 0.2), "green": (0.2, 0.8, 0.2), "blue": (0.2, 0.4, 1), "yellow": (1, 0.9, 0.2)}
SHAPES = {
    "square": ("#####", "#...#", "#...#", "#...#", "#####"),
    "cross": ("..#..", "..#..", "#####", "..#..", "..#.."),
    "triangle": ("....#", "...##", "..###", ".####", "#####"),
    "disc": (".###.", "#####", "#####", "#####", ".###."),
}
PAINT = np.array(list(COLOURS.values()), np.float32)[:, :, None, None]
BITMAPS = np.array([[[mark == "#" for mark in line] for line in shape] for shape in SHAPES.values()])
RELATIONS = ("above", "beside")
WORDS = ("<s>", "</s>", "a", *COLOURS, *SHAPES, *RELATIONS)
SIZE, THING = 16, 5  # pixels on a side of a drawing and of a thing in it

SOUNDS = ("steady", "rising", "falling", "warbling")
FRAMES, SAMPLES = 16, 64  # frames of a sound, and samples in a frame


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Scikit-learn's handwritten digits in a fixed random order: B 1 8 8 from 0 to 1, and their labels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingPackage(
            "the lesson patches reads scikit-learn's digits, which is not installed; "
            "pip install 'regard[lessons]'"
        ) from None
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(labels))
    return (images[order].reshape(-1, 1, 8, 8) / 16).astype(np.float32), labels[order]


@dataclass(frozen=True)
class Digits:
    """Which digit is written on 8 x 8 pixels."""

    is_test: bool = False
    rows: int = 64
    vocabulary: int = 0
    classes: int = 10

    def draw(self, random: np.random.Generator) -> LabelledBatch:
        """A batch of training or test images."""
        part = slice(DIGITS_TRAINED, None) if self.is_test else slice(DIGITS_TRAINED)
        images, labels = (array[part] for array in digits())
        chosen = random.integers(len(labels), size=self.rows)
        return LabelledBatch(images[chosen], np.ones((self.rows, 1), bool), labels[chosen])


@dataclass(frozen=True)
class Drawings:
    """Two things in a drawing of 16 x 16 pixels, and its caption: "a red square above a blue cross".

    Things are at even pixels; the one on top or on the left comes first. Without `is_paired` a drawing has
    the caption of another.
    """

    rows: int = 64
    is_paired: bool = True

    def draw(self, random: np.random.Generator) -> ParallelBatch:
        """A batch of drawings with captions."""
        colours, shapes = random.integers(len(COLOURS), size=(2, self.rows, 2))
        relations = random.integers(len(RELATIONS), size=self.rows)
        across = 2 * random.integers((SIZE - THING) // 2 + 1, size=self.rows)
        along = 2 * random.integers((SIZE // 2 - THING) // 2 + 1, size=(self.rows, 2)) + [0, SIZE // 2]
        drawings = np.zeros((self.rows, 3, SIZE, SIZE), np.float32)
        for drawing, relation, other, *things in zip(
            drawings, relations, across, colours, shapes, along, strict=True
        ):
            for colour, shape, place in zip(*things, strict=True):
                row, column = (place, other) if RELATIONS[relation] == "above" else (other, place)
                drawing[:, row : row + THING, column : column + THING] = PAINT[colour] * BITMAPS[shape]
        captions = self._captions(colours, shapes, relations)
        captions = captions if self.is_paired else np.roll(captions, 1, axis=0)
        everywhere, exists = np.ones((self.rows, 1), bool), np.ones_like(captions[:, 1:], bool)
        return ParallelBatch(drawings, everywhere, captions[:, :-1], captions[:, 1:], exists)

    def _captions(self, colours: np.ndarray, shapes: np.ndarray, relations: np.ndarray) -> np.ndarray:
        """The ids of the words between start and end, B 9."""
        start, end, article = (np.full(self.rows, WORDS.index(word)) for word in ("<s>", "</s>", "a"))
        named = colours + WORDS.index("red"), shapes + WORDS.index("square")
        first, second = ((article, *(word[:, thing] for word in named)) for thing in (0, 1))
        return np.stack((start, *first, relations + WORDS.index("above"), *second, end), axis=1)


@dataclass(frozen=True)
class Sounds:
    """Whether a tone is steady, rising, falling or warbling, from the spectrum of each frame.

    Without `is_paired` a sound has the label of another.
    """

    rows: int = 64
    is_paired: bool = True
    vocabulary: int = 0
    classes: int = len(SOUNDS)
    width: int = SAMPLES // 2 + 1  # of a spectrum

    def draw(self, random: np.random.Generator) -> LabelledBatch:
        """A batch of spectra B T W."""
        labels = random.integers(len(SOUNDS), size=self.rows)
        time = np.linspace(0, 1, FRAMES * SAMPLES, endpoint=False)
        start = random.uniform(80, 240, (self.rows, 1))  # Hz, in a sound of one second
        slide = random.uniform(60, 160, (self.rows, 1))
        warble = np.sin(8 * np.pi * time) ** 2
        bend = {"steady": 0 * time, "rising": time, "falling": 1 - time, "warbling": warble}
        pitch = start + slide * np.stack([bend[SOUNDS[label]] for label in labels])
        noise = 0.3 * random.standard_normal(pitch.shape)
        waves = np.sin(2 * np.pi * np.cumsum(pitch, 1) / len(time)) + noise
        frames = waves.reshape(self.rows, FRAMES, SAMPLES) * np.hanning(SAMPLES)
        spectra = np.log1p(np.abs(np.fft.rfft(frames))).astype(np.float32)
        return LabelledBatch(
            spectra, np.ones(spectra.shape[:2], bool), labels if self.is_paired else np.roll(labels, 1)
        )
