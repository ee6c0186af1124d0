"""An archive that the view makes is one that numpy reads."""

from __future__ import annotations

import zipfile
from io import BytesIO

import numpy as np
import pytest

WORDS = ["le", "été", "😀 שלום", ""]
NUMBERS = [0.1, -2.5, 1e-30, 3.0]


@pytest.fixture
def archive(run):
    """What numpy reads of the arrays that an expression gives."""

    def made(expression, **asked):
        told = bytes(run("saving/npz.js", f"it.npzOf({expression})", **asked))
        assert zipfile.ZipFile(BytesIO(told)).testzip() is None
        with np.load(BytesIO(told), allow_pickle=False) as arrays:
            return dict(arrays)

    return made


def test_numbers_and_texts_come_back(archive):
    given = """{
        single: { shape: [2, 2], data: Float32Array.from(asked.numbers) },
        double: { shape: [4], data: asked.numbers },
        none: it.listOf([]), words: it.listOf(asked.words), masked: it.matrixOf([[1, -Infinity]]),
    }"""
    read = archive(given, numbers=NUMBERS, words=WORDS)
    assert read["single"].dtype == np.float32
    assert np.array_equal(read["single"], np.float32(NUMBERS).reshape(2, 2))
    assert np.array_equal(read["double"], NUMBERS)
    assert read["none"].shape == (0,)
    assert read["words"].tolist() == WORDS
    assert np.array_equal(read["masked"], [[1, -np.inf]])


def test_a_matrix_keeps_its_labels(archive):
    table = {"columns": ["word", "a", "b, c"], "rows": [["é", 0.25, ""], ["it", 1, 2]]}
    read = archive("it.arraysOf(asked)", **table)
    assert read["rows"].tolist() == ["é", "it"]
    assert read["columns"].tolist() == ["a", "b, c"]
    assert np.array_equal(read["values"], [[0.25, np.nan], [1, 2]], equal_nan=True)


def test_other_tables_are_an_array_a_column(archive):
    rows = [[0, "", None, ""], [1, "<le>", -0.5, 2]]
    read = archive("it.arraysOf(asked)", columns=["number", "text so far", "log-probability", "x"], rows=rows)
    assert list(read) == ["number", "text_so_far", "log_probability", "x"]
    assert read["text_so_far"].tolist() == ["", "<le>"]
    assert np.array_equal(read["log_probability"], [np.nan, -0.5], equal_nan=True)
    assert np.array_equal(read["x"], [np.nan, 2], equal_nan=True)


def test_many_arrays_are_one_archive(archive):
    read = archive("Object.fromEntries(asked.sizes.map((n) => [`of_${n}`, it.listOf(Array(n).fill(n))]))",
                   sizes=list(range(1, 200, 7)))  # fmt: skip
    assert all(np.array_equal(read[f"of_{n}"], np.full(n, n)) for n in range(1, 200, 7))
