"""Tables: which columns, which header, which rows cannot be used."""

from __future__ import annotations

import csv
import io
import sys
import tracemalloc

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from regard.errors import DataError, MissingPackage, SettingError
from regard.text import columns
from regard.text.columns import NOT_A_ROW, NOT_CSV, NOT_JSON, ColumnSelection, read_rows
from regard.text.lines import EMPTY, NOT_UTF8, NUL


def rows(folder, name, content, wanted=("text", "label"), header=None, kind=None):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    result = read_rows(path, ColumnSelection(wanted, header), kind, 10_000)
    return [(row.number, row.problem or row.fields) for row in result]


def test_named_columns_are_looked_up_in_the_first_line(tmp_path):
    assert rows(tmp_path, "a.tsv", "label\ttext\n1\tgood\n") == [(2, ("good", "1"))]
    assert rows(tmp_path, "b.csv", "text,label\nbad,0\n") == [(2, ("bad", "0"))]
    assert rows(tmp_path, "c.jsonl", '{"label": 1, "text": "fine"}\n') == [(1, ("fine", "1"))]


def test_numbered_columns_mean_no_header_unless_stated(tmp_path):
    content = "1\tgood\n0\tbad\n"
    assert rows(tmp_path, "a.tsv", content, (1, 0)) == [(1, ("good", "1")), (2, ("bad", "0"))]
    assert rows(tmp_path, "a.tsv", content, (1, 0), header=True) == [(2, ("bad", "0"))]


def test_a_header_without_the_column_is_an_error_that_shows_it(tmp_path):
    with pytest.raises(DataError, match=r"no column 'text'.*'1', 'good'"):
        rows(tmp_path, "a.tsv", "1\tgood\n")


@pytest.mark.parametrize(("columns", "header"), [(("text", 0), None), (("a", "b"), False), ((0, -1), None)])
def test_columns_that_contradict_are_refused(columns, header):
    with pytest.raises(SettingError):
        ColumnSelection(columns, header)


def test_quotes_are_text_in_tsv(tmp_path):
    assert rows(tmp_path, "a.tsv", '"a\t1\n"b"\t0\n', (0, 1)) == [(1, ('"a', "1")), (2, ('"b"', "0"))]


def test_csv_fields_may_hold_commas_quotes_and_lines(tmp_path):
    content = 'text,label\n"one, ""two""\nthree",1\nnext\u2028line,0\n'
    assert rows(tmp_path, "a.csv", content) == [(2, ('one, "two"\nthree', "1")), (4, ("next\u2028line", "0"))]


def test_a_broken_csv_row_costs_only_itself(tmp_path):
    content = 'text,label\n"a"b,1\ngood,1\n\nshort\n'
    assert rows(tmp_path, "a.csv", content) == [(2, NOT_CSV), (3, ("good", "1")), (4, EMPTY), (5, NOT_A_ROW)]


def test_an_unclosed_quote_does_not_hold_the_file(tmp_path):
    content = 'text,label\n"never closed,1\n' + "some line,1\n" * 30_000
    result = rows(tmp_path, "a.csv", content)
    assert result[0] == (2, NOT_CSV)
    assert len(result) == 30_001


def test_a_bad_line_inside_a_quoted_field_spoils_its_row(tmp_path):
    content = b'text,label\n"a\n\xff\nb",1\ngood,0\n'
    assert rows(tmp_path, "a.csv", content) == [(2, NOT_UTF8), (5, ("good", "0"))]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not json", NOT_JSON),
        ("[1]", NOT_JSON),
        ("[" * 5000, NOT_JSON),
        ('{"text": "a"}', NOT_A_ROW),
        ('{"text": null, "label": 1}', NOT_A_ROW),
        ('{"text": "a", "label": [1]}', NOT_A_ROW),
        ('{"text": "\\ud800", "label": 1}', NOT_UTF8),
        ('{"text": "\\u0000", "label": 1}', NUL),
        ('{"text": "a", "label": true}', ("a", "true")),
        ("", ("", "")),
    ],
)
def test_json_lines(tmp_path, line, problem):
    assert rows(tmp_path, "a.jsonl", line + "\n") == [(1, problem)]


def test_json_has_keys_not_numbers(tmp_path):
    with pytest.raises(SettingError, match="keys"):
        rows(tmp_path, "a.jsonl", "{}\n", (0, 1))


def test_the_format_follows_the_name_or_the_caller(tmp_path):
    assert rows(tmp_path, "a.txt", "a,1\n", (0, 1), kind="csv") == [(1, ("a", "1"))]
    with pytest.raises(SettingError, match=r"data\.format"):
        rows(tmp_path, "a.txt", "a,1\n", (0, 1))
    with pytest.raises(SettingError, match="did you mean jsonl"):
        rows(tmp_path, "a.txt", "a,1\n", (0, 1), kind="jsonlines")


def valid_rows(result):
    return [fields for _, fields in result if isinstance(fields, tuple)]


@pytest.mark.parametrize("broken", ['"stray,1', 'text,"1', '"closed"",1', '"a"b,1', 'a"b,"c'])
@pytest.mark.parametrize("quoted", [False, True], ids=["bare", "quoted"])
def test_a_stray_quote_costs_one_line(tmp_path, broken, quoted):
    good = [f'"row, {n}",{n % 2}' if quoted else f"row {n},{n % 2}" for n in range(3000)]
    lines = ["text,label", *good[:1000], broken, *good[1000:]]
    result = rows(tmp_path, "a.csv", "\n".join(lines) + "\n")
    assert [row for row in result if row[1] == NOT_CSV] == [(1002, NOT_CSV)]
    assert valid_rows(result) == [(f"row, {n}" if quoted else f"row {n}", str(n % 2)) for n in range(3000)]


def test_a_stray_quote_closed_by_another_far_below_swallows_no_row(tmp_path):
    lines = ["text,label", '"stray,1', *(f"row {n},1" for n in range(500)), 'wide 15",0', 'a 15" screen,0']
    result = rows(tmp_path, "a.csv", "\n".join(lines))
    assert result[0] == (2, NOT_CSV)
    assert valid_rows(result) == [
        *((f"row {n}", "1") for n in range(500)),
        ('wide 15"', "0"),
        ('a 15" screen', "0"),
    ]


@pytest.mark.parametrize("between", ["", "a,b,c,d", "only one"], ids=["blank", "wide", "narrow"])
@pytest.mark.parametrize("count", [4, 15, 5000])
@pytest.mark.parametrize("more", ["", ",more"], ids=["as the header", "wider"])
def test_two_stray_quotes_cost_one_line(tmp_path, between, count, more):
    inner = [f"row {n},{n % 2}{more}" for n in range(count)]
    lines = [
        "text,label",
        f"first,1{more}",
        f"second,1{more}",
        f'"stray,1{more}',
        *inner,
        f'wide 15",0{more}',
    ]
    lines.insert(4 + count // 2, between)
    result = rows(tmp_path, "a.csv", "\n".join(lines))
    assert [number for number, problem in result if problem == NOT_CSV] == [4]
    assert {(f"row {n}", str(n % 2)) for n in range(count)} <= {*valid_rows(result)}
    assert valid_rows(result)[-1] == ('wide 15"', "0")


def test_prose_with_a_comma_in_each_line_is_one_field(tmp_path):
    address = "12 Main Street, Apt 4\nSpringfield, Illinois\nUSA, Earth\nThe Sun, Milky Way"
    assert valid_rows(rows(tmp_path, "a.csv", f'text,label\n"{address}",1\nb,0\n')) == [
        (address, "1"),
        ("b", "0"),
    ]


def test_a_field_over_many_lines_is_one_field(tmp_path):
    poem = "\n".join(["a line", "", "another, with commas, in it", 'and ""quotes""'] * 50)
    assert valid_rows(rows(tmp_path, "a.csv", f'text,label\n"{poem}",1\nb,0\n')) == [
        (poem.replace('""', '"'), "1"),
        ("b", "0"),
    ]


@pytest.mark.parametrize("length", [10_000, 10_001])
def test_a_field_may_be_as_long_as_the_longest_line(tmp_path, length):
    text = "x" * 4999 + "\n" + "y" * (length - 5000)
    result = rows(tmp_path, "a.csv", f'"{text}",1\nb,0\n', (0, 1))
    assert valid_rows(result)[-1] == ("b", "0")
    assert ((text, "1") in valid_rows(result)) == (length == 10_000)
    assert [number for number, problem in result if problem == NOT_CSV] == ([] if length == 10_000 else [1])


@given(st.lists(st.lists(st.text('a,"\n é', min_size=1), min_size=2, max_size=2), min_size=1, max_size=8))
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory, table):
    assume(all("".join(row).count("\n") <= 3 for row in table))  # more lines may look like rows
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    result = rows(tmp_path_factory.getbasetemp(), "a.csv", text.getvalue(), (0, 1))
    assert [fields for _, fields in result] == [tuple(row) for row in table]


@pytest.mark.parametrize("line", ['a",b,"c', '"', '"x,1', '""",', 'a"b,"c', '"a""b,1', '",",",'], ids=repr)
@pytest.mark.parametrize("last", ["", 'x"y"z"', '",1'], ids=repr)
def test_many_stray_quotes_are_searched_once(tmp_path, monkeypatch, line, last):
    searched = 0

    def counting(text):
        nonlocal searched
        searched += len(text) + 1
        return split(text)

    split = columns._split_csv
    monkeypatch.setattr(columns, "_split_csv", counting)
    content = f"{line}\n" * 3000 + "plain words\n" * 1200 + last
    result = rows(tmp_path, "a.csv", content, (0, 1))
    assert result[-1][0] >= 3000
    assert searched < 8 * len(content)


def test_the_search_for_a_closing_quote_ends(tmp_path):
    content = 'a,1\n"open,1\n' + "b,1\n" * 20_000
    path = tmp_path / "a.csv"
    path.write_text(content, encoding="utf-8")
    tracemalloc.start()
    result = sum(row.problem is None for row in read_rows(path, ColumnSelection((0, 1)), None, 1000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result == 20_001
    assert peak < 300_000


def test_a_missing_pyarrow_names_its_installation(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackage, match=r"pip install 'regard\[parquet\]'"):
        rows(tmp_path, "a.parquet", "PAR1")
