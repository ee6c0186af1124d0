"""NativeReader gives what the torch model gives."""

from __future__ import annotations

import numpy as np
import pytest

from regard.engine.native_reader import NativeReader
from regard.inference.scoring import TorchReader
from tests.engine.test_choice import READERS
from tests.engine.test_native_stepper import models, needs_engine

pytestmark = needs_engine
ROWS = [np.random.default_rng(seed).integers(0, 97, length) for seed, length in enumerate((3, 41, 17, 1))]


def readers(**changes):
    model, native = models(family="encoder-only", **changes)
    return TorchReader(model), NativeReader(native)


@pytest.mark.parametrize("case", READERS)
def test_vectors_are_those_of_torch(case):
    expected, given = (reader.vectors(ROWS) for reader in readers(**READERS[case]))
    for theirs, ours in zip(expected, given, strict=True):
        assert ours == pytest.approx(theirs, abs=2e-5)


@pytest.mark.parametrize("case", ["masked", "words"])
@pytest.mark.parametrize("feed_forward", ["relu", "gelu", "gelu-tanh", "silu", "swiglu"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_words_are_those_of_torch(case, feed_forward, norm):
    positions = [np.arange(0, len(row), 2) for row in ROWS]
    both = readers(**READERS[case], feed_forward=feed_forward, norm=norm)
    expected, given = (reader.word_probabilities(ROWS, positions) for reader in both)
    for theirs, ours in zip(expected, given, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "mean", "bert", "distilbert"])
def test_classes_are_those_of_torch(pooling):
    both = readers(output="classes", classes=5, pooling=pooling)
    expected, given = (reader.class_probabilities(ROWS) for reader in both)
    assert given == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("case", ["masked", "bert"])
def test_a_text_does_not_depend_on_the_others(case):
    _, reader = readers(**READERS[case], threads=2)
    if case == "bert":
        together = reader.class_probabilities(ROWS)
        alone = np.concatenate([reader.class_probabilities([row]) for row in ROWS])
        assert (together == alone).all()
        return
    positions = [np.array([0])] * len(ROWS)
    together = reader.word_probabilities(ROWS, positions)
    for row, given in zip(ROWS, together, strict=True):
        assert (reader.word_probabilities([row], positions[:1])[0] == given).all()
