"""Tables: which columns, which header, which rows cannot be used."""

from __future__ import annotations

import pytest

from regard.errors import DataError, SettingError
from regard.text.columns import NOT_A_ROW, NOT_CSV, NOT_JSON, Wanted, read_rows
from regard.text.reading import EMPTY, NOT_UTF8, NUL


def rows(folder, name, content, columns=("text", "label"), header=None, kind=None):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    found = read_rows(path, Wanted(columns, header), kind, 10_000)
    return [(row.number, row.problem or row.fields) for row in found]


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
        Wanted(columns, header)


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
    found = rows(tmp_path, "a.csv", content)
    assert found[0] == (2, NOT_CSV)
    assert len(found) > 10_000


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
    with pytest.raises(SettingError, match="state its format"):
        rows(tmp_path, "a.txt", "a,1\n", (0, 1))
    with pytest.raises(SettingError, match="did you mean jsonl"):
        rows(tmp_path, "a.txt", "a,1\n", (0, 1), kind="jsonlines")
