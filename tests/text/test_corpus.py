"""Corpora: which examples are kept, skipped and counted, and which raise."""

from __future__ import annotations

import gzip
import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, SettingError
from regard.text.corpus import (
    Example,
    Filters,
    LabelledText,
    Location,
    Occurrences,
    Pair,
    ParallelText,
    PlainText,
    Report,
    SeenTexts,
    label_names,
)
from regard.text.lines import read_blocks, read_lines
from regard.text.running_text import CHUNK, RunningText


@pytest.fixture
def put(tmp_path):
    """Write a file and give its path."""

    def write(name: str, content: str | bytes):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def skipped(corpus) -> dict[str, list[int]]:
    return {
        reason: [location.line for location in occurrences.locations]
        for reason, occurrences in corpus.report.skipped.items()
    }


def test_pairs_come_from_two_files_or_one_table(put):
    expected = [Pair("a", "x"), Pair("b", "y")]
    assert list(ParallelText(put("1.en", "a\r\nb\r\n"), put("1.de", b"\xef\xbb\xbfx\ny"))) == expected
    assert list(ParallelText(put("2.tsv", "a\tx\nb\ty\tby someone\n"))) == expected
    assert list(ParallelText(put("3.gz", gzip.compress(b"x\ta\ny\tb\n")), columns=(1, 0))) == expected
    named = put("4.tsv", "en\tde\na\tx\nb\ty\n")
    assert list(ParallelText(named, columns=("en", "de"))) == expected
    several = [put("5.csv.GZ", gzip.compress(b'de,en\nx,"a"\n')), put("6.jsonl", '{"en": "b", "de": "y"}\n')]
    assert list(ParallelText(several, columns=("en", "de"))) == expected
    with pytest.raises(SettingError, match="keys"):
        list(ParallelText(several[1]))


def test_source_and_target_files_are_paired(put, tmp_path):
    for name, text in {"1.en": "a\n", "2.en": "b", "1.de": "x\n", "2.de": "y\n"}.items():
        put(name, text)
    assert list(ParallelText(f"{tmp_path}/*.en", f"{tmp_path}/*.de")) == [Pair("a", "x"), Pair("b", "y")]
    with pytest.raises(DataError, match="2 source files and 1 target files; give equally many"):
        ParallelText(f"{tmp_path}/*.en", tmp_path / "1.de")


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (0, 1), (1, 0)])
def test_unequal_files_are_an_error_with_both_counts(put, left, right):
    corpus = ParallelText(put("a.en", "s\n" * left), put("a.de", "t\n" * right))
    with pytest.raises(DataError, match=rf"a\.en has {left} lines but .*a\.de has {right};"):
        list(corpus)


def test_unusable_lines_are_counted_with_their_numbers(put):
    source = put("a.en", b"good\n\xff\n\nfine\nnul\n" + b"x" * 30 + b"\n")
    target = put("a.de", b"gut\nb\nc\n \t\nn\0l\nd\n")
    corpus = ParallelText(source, target, Filters(longest_line=20))
    assert list(corpus) == [Pair("good", "gut")]
    assert skipped(corpus) == {"not UTF-8": [2], "empty": [3, 4], "NUL character": [5], "over-long line": [6]}
    assert (corpus.report.read, corpus.report.kept) == (6, 1)
    assert corpus.report.skipped["NUL character"].locations == [Location(str(target), 5)]


@pytest.mark.parametrize("content", [b"ok\n\xff\n", b"ok\nn\0l\n", b"ok\n\n", b"ok\n" + b"x" * 30])
def test_unusable_lines_are_an_error_where_asked(put, content):
    path = put("a.txt", content)
    with pytest.raises(DataError, match=r"a\.txt:2: "):
        list(PlainText(path, Filters(bad="error", longest_line=20)))


def test_each_filter_is_counted(put):
    lines = ["a b\tx y", "a\tx", "a b c d e\tx y", "a b c d\tx y", "a b\tx y", "a b\tx z", "a b c\tx y"]
    corpus = ParallelText(
        put("a.tsv", "\n".join(lines)),
        filters=Filters(min_length=2, max_length=4, max_ratio=1.5, drop_duplicates=True),
    )
    assert list(corpus) == [Pair("a b", "x y"), Pair("a b", "x z"), Pair("a b c", "x y")]
    assert skipped(corpus) == {"too short": [2], "too long": [3], "length ratio": [4], "duplicate": [5]}


def test_lengths_can_be_counted_in_characters(put):
    path = put("a.txt", "一二三四五\n一二\n")
    assert list(PlainText(path, Filters(max_length=3))) == ["一二三四五", "一二"]
    assert list(PlainText(path, Filters(max_length=3, unit="characters"))) == ["一二"]


def test_every_pass_gives_the_same_and_a_fresh_report(put):
    corpus = PlainText(put("a.txt", "a\na\n\nb\n"), Filters(drop_duplicates=True))
    assert list(corpus) == list(corpus) == ["a", "b"]
    assert corpus.report.read == 4


def test_a_corpus_streams(put):
    corpus = PlainText(put("a.txt", "line\n" * 100_000))
    assert len(list(itertools.islice(corpus, 3))) == 3
    assert corpus.report.read == 3


def test_labelled_text_in_each_format(put):
    expected = [Example("good film", "1"), Example("bad", "0")]
    assert list(LabelledText(put("a.tsv", "label\ttext\n1\tgood film\n0\tbad\n"))) == expected
    assert list(LabelledText(put("b.csv", "good film,1\nbad,0\n"), text=0, label=1)) == expected
    json = '{"s": "good film", "y": 1}\n{"s": "bad", "y": 0}\n'
    assert list(LabelledText(put("c.jsonl", json), text="s", label="y")) == expected
    packed = put("d.tsv.gz", gzip.compress(b"label\ttext\n1\tgood film\n0\tbad\n"))
    assert list(LabelledText(packed)) == expected


def test_rows_without_a_label_are_counted(put):
    corpus = LabelledText(put("a.tsv", "label\ttext\n1\tgood\n2\n \tno label\n"))
    assert list(corpus) == [Example("good", "1")]
    assert skipped(corpus) == {"missing column": [3], "empty": [4]}


def test_labels_are_in_order():
    assert label_names([Example("", label) for label in ("10", "9", "-1", "9")]) == ["-1", "9", "10"]
    assert label_names([Example("", label) for label in ("pos", "neg", "9")]) == ["9", "neg", "pos"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["--5", "3", "10"], ["--5", "10", "3"]),
        (["5", "-", "10"], ["-", "10", "5"]),
        (["²", "1", "10"], ["1", "10", "²"]),
        (["٣", "10", "-2"], ["-2", "٣", "10"]),  # digits of any script
        (
            ["1", "01", "001", "-0", "0"],
            ["-0", "0", "001", "01", "1"],
        ),  # the same number in several spellings
        (["9" * 5000, "1"], ["1", "9" * 5000]),  # more digits than Python turns into a number
        (["-5-", "4"], ["-5-", "4"]),
    ],
)
def test_labels_that_look_like_numbers_are_in_order(labels, expected):
    assert label_names([Example("", label) for label in labels]) == expected


def test_either_side_of_a_pair_may_be_the_longer_one(put):
    rows = ["a b c d e\tx y", "a b\tv w x y z", "a b c d\tx y", "a b\tw x y z"]
    corpus = ParallelText(put("a.tsv", "\n".join(rows)), filters=Filters(max_ratio=2))
    assert list(corpus) == [Pair("a b c d", "x y"), Pair("a b", "w x y z")]
    assert skipped(corpus) == {"length ratio": [1, 2]}


def test_every_source_is_there_whatever_is_left_out(put):
    source, target = put("a.en", b"a b\n\nc\n\xff\nd\0\ne\n \n"), put("a.de", b"x\ny\n\nz\nv\n\xff\nw\n")
    corpus = ParallelText(source, target)
    assert list(corpus.sources()) == ["a b", "", "c", "", "", "e", ""]
    table = ParallelText(put("a.tsv", "a\tx\nb\n\tx\nc\t\n"))
    assert list(table.sources()) == ["a", "", "", "c"]


def test_identity_follows_text_and_settings(put):
    path = put("a.txt", "a\n")
    before = PlainText(path).identity()
    assert before == PlainText(path).identity() != PlainText(path, Filters(max_length=3)).identity()
    put("a.txt", "b\n")
    assert PlainText(path).identity() != before


@pytest.mark.parametrize(
    "values", [{"min_length": 0}, {"bad": "ignore"}, {"max_ratio": 0.5}, {"maxlength": 3}]
)
def test_impossible_filters_are_refused(values):
    with pytest.raises(SettingError):
        Filters(**values)


def test_the_report_reads_well_and_keeps_few_locations():
    report = Report(read=1200, kept=1190)
    for line in range(1, 11):
        report.skip("empty", Location("a.en", line))
    assert str(report).splitlines() == [
        "1,200 read, 1,190 kept, 10 skipped",
        "  empty: 10 (a.en:1, a.en:2, a.en:3, a.en:4, a.en:5, ...)",
    ]
    report.shortened = Occurrences(1, [Location("a.en", 7)])
    assert Report.from_dict(report.as_dict()) == report
    assert "shortened: 1 (a.en:7)" in str(report)


def test_running_text_keeps_blank_lines_and_splits_by_characters(put):
    path = put("a.txt", "ROMEO:\nO\n\n\nJULIET:\n")
    whole = "".join(RunningText(path))
    assert whole == "ROMEO:\nO\n\n\nJULIET:\n"
    head, tail = "".join(RunningText(path, 0, 0.5)), "".join(RunningText(path, 0.5, 1))
    assert (head + tail, len(head)) == (whole, len(whole) // 2)


def test_running_text_comes_in_chunks_that_lose_nothing(put):
    text = "some line of text\n\n" * 30_000
    chunks = list(RunningText(put("a.txt", text)))
    assert len(chunks) > 1
    assert "".join(chunks) == text


@pytest.mark.parametrize(
    "line",
    [
        "anarchism originated as a term of abuse " * 40_000,
        "语言模型" * 120_000,
        "é\r" * 300_000 + "x",
        " " * 400_000,
    ],
    ids=["words", "no spaces", "returns", "spaces"],
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n"], ids=repr)
def test_running_text_has_lines_of_any_length(put, line, end):
    for before, after in (("", ""), ("one\n\n", "last\n")):
        whole = before + line + "\n" + after
        content = before + line + (end or "\n" * bool(after)) + after
        text = RunningText(put("a.txt", content), filters=Filters(bad="error"))
        chunks = list(text)
        is_whole = "".join(chunks) == whole  # pytest would compare a megabyte sign by sign
        assert is_whole
        assert max(map(len, chunks)) < 3 * CHUNK
        parts = [RunningText(put("a.txt", content), *share) for share in ((0, 0.3), (0.3, 1))]
        is_whole = "".join(piece for part in parts for piece in part) == whole
        assert is_whole


def test_a_long_line_is_cut_between_words(put):
    line = "anarchism originated as a term of abuse " * 20_000
    assert not any(chunk[0] != " " for chunk in list(RunningText(put("a.txt", line)))[1:])


@given(st.lists(st.sampled_from(["a", "é", "語", "😀", " ", "\t", "\r", "\n", "\r\n"])), st.integers(4, 12))
def test_blocks_of_any_size_lose_nothing(tmp_path_factory, signs, size):
    path = tmp_path_factory.getbasetemp() / "blocks.txt"
    path.write_bytes("".join(signs).encode())
    expected = "".join(f"{line.text}\n" for line in read_lines(path, 1000))
    blocks = list(read_blocks(path, size))
    assert "".join(block.text for block in blocks) == expected
    assert all(block.problem is None and len(block.text) <= 2 * size for block in blocks)


def test_what_is_broken_in_a_long_line_costs_a_block(put):
    words = b"word " * 100_000
    text = RunningText(put("a.txt", b"one\n" + words + b"\xff " + words + b"\xff end\nnext\n"))
    whole = "".join(text)
    assert skipped(text) == {"not UTF-8": [2, 2]}
    assert whole.startswith("one\nword word")
    assert whole.endswith("word\nnext\n")
    assert len(words) < len(whole) < 2 * len(words)


def test_each_file_is_a_document(put):
    files = [put("a.txt", "one\ntwo"), put("b.txt", ""), put("c.txt", "three\n"), put("d.txt", "4")]
    chunks = list(RunningText(files).chunks())
    assert chunks == [(0, "one\ntwo\n"), (2, "three\n"), (3, "4\n")]
    assert "".join(RunningText(files)) == "one\ntwo\nthree\n4\n"
    assert list(RunningText(files, 0.25, 0.6).chunks()) == [(0, "two\n"), (2, "t")]
    assert RunningText(files).identity() != RunningText(files[:1]).identity()


def test_running_text_counts_what_it_cannot_use(put):
    path = put("a.txt", b"a\nn\0l\nb\n")
    text = RunningText(path)
    assert "".join(text) == "a\nb\n"
    assert skipped(text) == {"NUL character": [2]}
    with pytest.raises(DataError, match=r"a\.txt:2"):
        list(RunningText(path, filters=Filters(bad="error")))
    with pytest.raises(DataError, match="no text"):
        list(RunningText(put("b.txt", "")))


def test_a_filter_that_is_new_leaves_the_identity_of_a_corpus(tmp_path):
    class Later(Filters):
        newer: int = 0

    file = tmp_path / "a"
    file.write_text("a b\n", encoding="utf-8")
    for corpus in (PlainText, ParallelText, LabelledText, RunningText):
        identities = [
            corpus(file, filters=filters).identity()
            for filters in (Filters(max_length=3), Later(max_length=3), Later(max_length=3, newer=1))
        ]
        assert identities[0] == identities[1] != identities[2]


@given(st.lists(st.tuples(st.text(max_size=3), st.text("ab", max_size=2)), max_size=200))
def test_seen_texts_are_a_set(pairs):
    seen, known = SeenTexts(), set()
    for pair in pairs:
        assert seen.add(*pair) == (pair not in known)
        known.add(pair)


def test_many_seen_texts_are_recognised():
    seen = SeenTexts()
    assert all(seen.add(f"text {number}") for number in range(20_000))
    assert not any(seen.add(f"text {number}") for number in range(20_000))
    assert seen.add("text", "20000")


def test_dropping_duplicates_takes_at_most_16_bytes_a_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {number}\n" for number in range(60_000)), encoding="utf-8")
    corpus = iter(PlainText(path, Filters(drop_duplicates=True)))
    most = 0.0
    tracemalloc.start()
    try:
        for number, _ in enumerate(corpus, start=1):
            if number >= 20_000 and number % 500 == 0:
                most = max(most, tracemalloc.get_traced_memory()[1] / number)
                tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    assert most < 16  # including the buffer of the file
