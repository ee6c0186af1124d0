"""Matrices as people write them: inline and in files, right and wrong."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UsageError
from regard.inspection.by_hand.problem import read_mask, read_matrix

WANTED = [[1.0, -2.5], [0.0, 3.0]]


@pytest.mark.parametrize(
    "written", ["1 -2.5; 0 3", "1,-2.5;0,3", "1, -2.5\n0, 3", " 1\t-2.5 ;\n 0 3 ;", "[[1, -2.5], [0, 3]]"]
)
def test_inline(written):
    assert read_matrix("X", written).tolist() == WANTED


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "1,-2.5\n0,3\n"),
        ("a.CSV", "\ufeff1, -2.5\r\n0, 3\r\n"),
        ("a.tsv", "1\t-2.5\n0\t3"),
        ("a.txt", "1 -2.5\n\n0 3\n"),
        ("b.txt", "1 -2.5; 0 3"),
        ("a.json", "[[1, -2.5], [0, 3]]"),
    ],
)
def test_files(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_matrix("X", str(tmp_path / name)).tolist() == WANTED


@pytest.mark.parametrize("kind", ["float32", "int8", "bool"])
def test_npy(tmp_path, kind):
    np.save(tmp_path / "a.npy", np.eye(2).astype(kind))
    assert read_matrix("X", str(tmp_path / "a.npy")).tolist() == [[1, 0], [0, 1]]


def test_one_row():
    assert read_matrix("X", "1 2 3").tolist() == [[1, 2, 3]]
    assert read_matrix("X", "[1, 2]").tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("1 2; 3", "2 numbers in row 0 and 1 in row 1"),
        ("[[1, 2], [3]]", "2 numbers in row 0 and 1 in row 1"),
        ("[[1, 2], 3]", "mixes rows and numbers"),
        ("1 two", "'two', which is not a number"),
        ("1,,2", "'', which is not a number"),
        ("nan 1", "holds nan"),
        ("1 inf", "holds inf"),
        ("1 -inf", "holds -inf"),
        ("1e31", "none beyond 1e"),
        ("", "at least one"),
        ("[]", "at least one"),
        ("[[[1]]]", "a matrix has rows and columns"),
        ('[["a"]]', "other than real numbers"),
        ("[[null]]", "other than real numbers"),
        ("[1, 2", "is not JSON"),
        ("[" * 20_000, "is not JSON"),
        ("[[1" + "0" * 400 + "]]", "other than real numbers"),
        ("; ".join(["1"] * 65), "65 x 1; give at most 64"),
        (" ".join(["1"] * 65), "1 x 65; give at most 64"),
        ("missing.csv", "no file missing.csv"),
        ("missing.npy", "no file missing.npy"),
        ("data.xlsx", "'data.xlsx', which is not a number; .* a file that ends in .csv"),
    ],
)
def test_a_wrong_matrix(written, message):
    with pytest.raises(UsageError, match=message) as error:
        read_matrix("X", written)
    assert str(error.value).startswith("X")
    assert "\n" not in str(error.value)


def test_wrong_files(tmp_path):
    cases: dict[str, tuple[bytes, str]] = {
        "semicolons.csv": (b"1;2\n3;4", "'1;2', which is not a number"),
        "latin.csv": (b"1,\xe92", "not a readable .csv"),
        "garbage.npy": (b"not a numpy file", "not a readable .npy"),
        "empty.npy": (b"", "not a readable .npy"),
        "zip.npy": (b"PK\x03\x04" + b"0" * 50, "not a readable .npy"),
        "large.txt": (b"1 " * 600_000, "over 1,000,000 bytes"),
        "empty.csv": (b"", "at least one"),
    }
    for name, (content, message) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match=message):
            read_matrix("X", str(tmp_path / name))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        read_matrix("X", str(tmp_path / "folder.csv"))


def test_npy_is_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    np.save(tmp_path / "trap.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(UsageError, match="not a readable"):
        read_matrix("X", str(tmp_path / "trap.npy"))


def test_npy_of_other_numbers(tmp_path):
    np.save(tmp_path / "complex.npy", np.eye(2) * 1j)
    with pytest.raises(UsageError, match="real numbers"):
        read_matrix("X", str(tmp_path / "complex.npy"))


def test_npy_that_claims_more_than_it_holds(tmp_path):
    np.save(tmp_path / "short.npy", np.zeros(4))
    content = (tmp_path / "short.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(content.replace(b"(4,), }        ", b"(999999999,), }"))
    assert (tmp_path / "short.npy").read_bytes() != content
    with pytest.raises(UsageError, match="not a readable"):
        read_matrix("X", str(tmp_path / "short.npy"))


@pytest.mark.parametrize("written", ["1 0; 1 1", "0 -inf; 0 0", "0 −∞; 0 0", "[[true, false], [true, true]]"])
def test_a_mask_as_ones_and_zeros_or_as_the_lectures_write_it(written):
    assert read_mask(written).tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("0 0; 0 0", "zeros alone"),
        ("1 2", "mask holds 2"),
        ("1 -inf", "mask holds 1;"),
        ("0 nan", "mask holds nan"),
    ],
)
def test_a_wrong_mask(written, message):
    with pytest.raises(UsageError, match=message):
        read_mask(written)


@given(st.lists(st.lists(st.floats(-1e30, 1e30), min_size=3, max_size=3), min_size=1, max_size=5))
def test_what_is_written_is_what_is_read(rows):
    assert read_matrix("X", "; ".join(" ".join(map(repr, row)) for row in rows)).tolist() == rows
    assert read_matrix("X", json.dumps(rows)).tolist() == rows


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(written):
    with suppress(UsageError):
        assert read_matrix("X", written).ndim == 2
