"""Tables for a spreadsheet: text is never a formula, and numbers stay numbers, in Python and on the page."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

from regard.inspection.inspection import Inspection
from regard.inspection.record.tokens import Side
from regard.inspection.render.export import as_text_cell

FORMULAS = [
    "=1+1", "+1-2", "-", "--", "@SUM(A1)", "\t=1", "\r=1", "\n=1", '=HYPERLINK("http://x.example")', "-1,5",
    "+", "＝1", "-e5", "+.", "-.e1", "=-1",
]  # fmt: skip
PLAIN = ["", "it", "a=b", "'=1", " =1", "é", "␣=", "1", "-1", "+2.5", "-.5", "-1e-7", "3.", "1E5"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_becomes_text(text):
    assert as_text_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", PLAIN)
def test_other_texts_and_numbers_stay_as_they_are(text):
    assert as_text_cell(text) == text


def test_the_page_has_the_same_rule(run):
    texts = [*FORMULAS, *PLAIN]
    assert run("saving/save.js", "asked.texts.map(it.asTextCell)", texts=texts) == [*map(as_text_cell, texts)]


def test_a_table_of_the_page(run):
    table = {"columns": ["word", "=cmd"], "rows": [["=1+1", -0.25], ["-", -1e-7], ["@a,b", None], ["it", 3]]}
    rows = list(csv.reader(StringIO(run("saving/save.js", "it.asCsv(asked)", **table))))
    assert rows == [["word", "'=cmd"], ["'=1+1", "-0.25"], ["'-", "-1e-7"], ["'@a,b", ""], ["it", "3"]]


def test_a_table_of_python(translator, tmp_path):
    """The tokens of the sentence, which may be anybody's text."""
    tokenizer = translator.tokenizers.source
    source = Side.of_text("source", tokenizer, "=1+1 @a -", last=[tokenizer.end])
    target = Side.of_ids("target", translator.tokenizers.target, [], [translator.tokenizers.target.start])
    path = Inspection(translator.model, source, target).save(tmp_path / "a.csv", kind="encoder", words=True)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    labels = source.labels(words=True)
    assert {row["key_token"] for row in rows} == {as_text_cell(label) for label in labels}
    assert any(row["key_token"].startswith("'") for row in rows)
    assert not any(row[name].startswith(tuple("=+-@")) for row in rows for name in row)
