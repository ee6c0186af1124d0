"""Parquet files, and the Arrow files and folders of `datasets`, as tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.errors import DataError, SettingError
from regard.text.columns import NOT_A_ROW, ColumnSelection, read_rows
from regard.text.corpus import LabelledText, Pair, ParallelText
from regard.text.lines import NUL, OVER_LONG, find_files, read_lines

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = {"text": ["good", None, "b\0d", "x" * 30], "label": [1, 0, 0, 1], "other": [1.5] * 4}


def write_parquet(path: Path, columns: dict) -> str:
    parquet.write_table(pa.table(columns), path)
    return str(path)


def write_stream(path: Path, columns: dict) -> str:
    """As `datasets` writes it."""
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return str(path)


def write_file(path: Path, columns: dict) -> str:
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return str(path)


WRITERS = [(write_parquet, "a.parquet"), (write_stream, "a.arrow"), (write_file, "a.arrow")]


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_columns_are_read_by_name(write, name, tmp_path):
    write(tmp_path / name, ROWS)
    rows = read_rows(tmp_path / name, ColumnSelection(("text", "label")), None, 20)
    assert [(row.number, row.problem or row.fields) for row in rows] == [
        (1, ("good", "1")), (2, NOT_A_ROW), (3, NUL), (4, OVER_LONG),
    ]  # fmt: skip
    with pytest.raises(SettingError, match="columns have no numbers"):
        list(read_rows(tmp_path / name, ColumnSelection((0, 1)), None, 20))
    with pytest.raises(DataError, match=r"no column 'words' \('text', 'label', 'other'\)"):
        list(read_rows(tmp_path / name, ColumnSelection(("words", "label")), None, 20))


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_the_pairs_of_a_column_with_two_fields(write, name, tmp_path):
    path = write(
        tmp_path / name, {"id": [1, 2], "translation": [{"en": "a", "de": "b"}, {"en": "c", "de": "d"}]}
    )
    pairs = ParallelText(path, None, None, ("translation.en", "translation.de"))
    assert [*pairs] == [Pair("a", "b"), Pair("c", "d")]


def test_a_folder_of_datasets_is_one_table(tmp_path):
    folder = tmp_path / "saved" / "train"
    folder.mkdir(parents=True)
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for number, name in enumerate(names):
        write_stream(folder / name, {"text": [f"text {number}"], "label": [number]})
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    assert [*LabelledText(str(folder))] == [("text 0", "0"), ("text 1", "1")]
    with pytest.raises(DataError, match=r"holds the splits train; name one: .*train"):
        find_files(str(tmp_path / "saved"))
    (folder / "state.json").write_text("[]")
    with pytest.raises(DataError, match="does not list the files"):
        find_files(str(folder))


def test_a_folder_of_parquet_files_is_one_table(tmp_path):
    for number in (1, 0):
        write_parquet(
            tmp_path / f"train-0000{number}-of-00002.parquet", {"text": [f"text {number}"], "label": [number]}
        )
    assert [*LabelledText(str(tmp_path))] == [("text 0", "0"), ("text 1", "1")]
    write_parquet(tmp_path / "test-00000-of-00001.parquet", {"text": ["x"], "label": [1]})
    with pytest.raises(DataError, match=r"holds the tables test, train; name those of one"):
        find_files(str(tmp_path))


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_a_damaged_file_is_one_line(write, name, tmp_path):
    path = tmp_path / name
    write(path, {"text": ["a" * 99] * 50, "label": [1] * 50})
    path.write_bytes(path.read_bytes()[:-90])
    with pytest.raises(DataError, match=r"cannot read .*a\."):
        list(read_rows(path, ColumnSelection(("text", "label")), None, 1000))


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_a_table_given_as_lines_is_refused(write, name, tmp_path):
    write(tmp_path / name, ROWS)
    with pytest.raises(DataError, match="give it with --tsv or --labelled"):
        list(read_lines(tmp_path / name, 100))
