"""Drawings, sounds and digits of lessons: what is drawn is what the caption or label says."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from regard.errors import MissingPackage
from regard.lessons.picture_tasks import COLOURS, SOUNDS, WORDS, Drawings, Sounds, digits


def test_a_caption_names_the_colours_in_the_drawing():
    batch = Drawings(rows=50).draw(np.random.default_rng(1))
    for picture, ids in zip(batch.source, batch.target_out, strict=True):
        words = [WORDS[number] for number in ids]
        first, second = (words[place] for place in (1, 5))
        middle = picture.shape[1] // 2
        halves = (
            (picture[:, :middle], picture[:, middle:])
            if words[3] == "above"
            else (picture[..., :middle], picture[..., middle:])
        )
        for half, colour in zip(halves, (first, second), strict=True):
            assert half.reshape(3, -1).max(1).tolist() == pytest.approx(COLOURS[colour])


def test_rows_of_others_are_unpaired():
    right, other = (Drawings(is_paired=paired).draw(np.random.default_rng(1)) for paired in (True, False))
    assert np.array_equal(right.source, other.source)
    assert np.array_equal(right.target_out, np.roll(other.target_out, -1, axis=0))


def test_a_rising_tone_ends_higher_than_it_begins():
    batch = Sounds(rows=200).draw(np.random.default_rng(1))
    pitch = batch.input.argmax(-1)
    change = {name: (pitch[:, -1] - pitch[:, 0])[batch.labels == SOUNDS.index(name)] for name in SOUNDS}
    assert change["rising"].min() > 1
    assert change["falling"].max() < -1
    assert abs(change["steady"]).max() <= 1


def test_digits_without_scikit_learn_are_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    digits.cache_clear()
    with pytest.raises(MissingPackage, match=r"scikit-learn.*pip install 'regard\[lessons\]'"):
        digits()
