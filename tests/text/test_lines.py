"""Lines as people's files have them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.text.lines import NOT_UTF8, NUL, OVER_LONG, files_digest, find_files, read_lines


def texts(path: Path, longest: int = 1000) -> list[str]:
    return [line.text for line in read_lines(path, longest)]


def written(folder: Path, content: bytes, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r"])
def test_only_a_newline_ends_a_line(tmp_path, mark):
    path = written(tmp_path, f"one{mark}two\nthree\n".encode())
    assert texts(path) == [f"one{mark}two", "three"]


@pytest.mark.parametrize(
    "content",
    [b"a\nb\n", b"a\nb", b"a\r\nb\r\n", b"a\r\nb", b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\r\nb"],
    ids=["usual", "no last newline", "crlf", "crlf no last", "bom", "bom crlf"],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_line_ends_bom_and_gzip_are_understood(tmp_path, content, pack):
    assert texts(written(tmp_path, pack(content))) == ["a", "b"]


def test_only_one_carriage_return_belongs_to_a_line_end(tmp_path):
    content = b"a\r\r\nb\r\r\r\n\r\r\nc \r\n\r\nd\n"
    assert texts(written(tmp_path, content)) == ["a\r", "b\r\r", "\r", "c ", "", "d"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), max_size=20)))
def test_what_is_written_line_by_line_is_read_back(tmp_path_factory, lines):
    path = written(tmp_path_factory.getbasetemp(), b"".join(f"{line}\n".encode() for line in lines))
    expected = [line.removeprefix("\ufeff") if i == 0 else line for i, line in enumerate(lines)]
    assert texts(path) == expected


def test_problems_are_named_with_their_line_numbers(tmp_path):
    path = written(tmp_path, b"good\n\xff\xfe bad\nnu\0l\n" + b"x" * 51 + b"\n" + b"y" * 50 + b"\nend")
    lines = list(read_lines(path, 50))
    assert [(line.number, line.problem) for line in lines] == [
        (1, None),
        (2, NOT_UTF8),
        (3, NUL),
        (4, OVER_LONG),
        (5, None),
        (6, None),
    ]
    assert lines[-1].text == "end"


@pytest.mark.parametrize("extra", range(1, 9))
def test_the_line_after_an_over_long_one_is_whole(tmp_path, extra):
    path = written(tmp_path, b"x" * (20 + extra) + b"\nnext\n" + b"y" * 200_000 + b"\r\nlast")
    assert [(line.text, line.problem) for line in read_lines(path, 20)] == [
        ("", OVER_LONG),
        ("next", None),
        ("", OVER_LONG),
        ("last", None),
    ]


def test_an_endless_line_is_never_held(tmp_path):
    import tracemalloc

    path = written(tmp_path, gzip.compress(b"x" * 30_000_000))
    tracemalloc.start()
    assert [line.problem for line in read_lines(path, 1000)] == [OVER_LONG]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000


def test_damaged_gzip_is_an_error_that_names_the_file(tmp_path):
    path = written(tmp_path, gzip.compress(b"line\n" * 10_000)[:-20], "cut.gz")
    with pytest.raises(DataError, match=r"cut\.gz.*cut short"):
        texts(path)


def test_utf16_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match="save it as UTF-8"):
        texts(written(tmp_path, "hello".encode("utf-16")))


def test_files_come_from_paths_patterns_and_lists(tmp_path):
    for name in ("b.en", "a.en", "c[1].en"):
        written(tmp_path, b"x", name)
    assert [path.name for path in find_files(f"{tmp_path}/[ab].en")] == ["a.en", "b.en"]
    assert [path.name for path in find_files(tmp_path / "c[1].en")] == ["c[1].en"]
    assert [path.name for path in find_files([f"{tmp_path}/b*", tmp_path / "a.en"])] == ["b.en", "a.en"]


@pytest.mark.parametrize(
    ("name", "message"), [("no.txt", "no such file"), ("*.zip", "no file matches"), ("", "folder")]
)
def test_files_that_are_not_there_are_told(tmp_path, name, message):
    with pytest.raises(DataError, match=message):
        find_files(f"{tmp_path}/{name}")


def test_the_digest_follows_the_bytes(tmp_path):
    one, two = written(tmp_path, b"one", "1"), written(tmp_path, b"two", "2")
    before = files_digest([one, two])
    assert before == files_digest([one, two]) != files_digest([two, one])
    two.write_bytes(b"twO")
    assert files_digest([one, two]) != before
