"""From a corpus to ids, in memory or on disk."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from regard.errors import DataError
from regard.text import token_files
from regard.text.batches import parallel_batches
from regard.text.corpus import Filters, LabelledText, ParallelText, PlainText
from regard.text.encoding import encode_labelled, encode_lines, encode_parallel, encode_running
from regard.text.running_text import RunningText
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizers
from tests.text.conftest import SENTENCES


@pytest.fixture
def tsv(tmp_path) -> Path:
    path = tmp_path / "pairs.tsv"
    rows = [f"{text}\t{text.lower()}" for text in SENTENCES[:5]]
    path.write_text("\n".join([*rows, "\tno source", "a " * 300 + "\tlong"]), encoding="utf-8")
    return path


def lists(column: Sequences) -> list[list[int]]:
    return [ids.tolist() for ids in column]


@pytest.fixture(params=["memory", "disk"])
def cache(request, tmp_path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "cache"


def test_pairs_are_encoded_and_long_ones_counted(tsv, bpe, word, cache):
    data = encode_parallel(ParallelText(tsv), Tokenizers(bpe, word), longest=60, cache=cache)
    assert lists(data["source"]) == [bpe.encode(text) for text in SENTENCES[:5]]
    assert lists(data["target"]) == [word.encode(text.lower()) for text in SENTENCES[:5]]
    assert (data.report.read, data.report.kept) == (7, 5)
    assert [location.line for location in data.report.skipped["too many tokens"].locations] == [7]
    assert [location.line for location in data.report.skipped["empty"].locations] == [6]


def test_a_side_has_room_for_its_start_or_end(tmp_path, character):
    path = tmp_path / "a.tsv"
    path.write_text("aaaa\ta\naaa\taaa\n", encoding="utf-8")
    data = encode_parallel(ParallelText(path), Tokenizers.joint(character), longest=4)
    assert len(data) == 1
    batch = parallel_batches(data, Tokenizers.joint(character)).next()
    assert batch.source.shape == batch.target_in.shape == (1, 4)


def test_labelled_texts_are_shortened_and_not_lost(tmp_path, character, cache):
    path = tmp_path / "a.tsv"
    path.write_text("label\ttext\nneg\tbad\npos\tgood fox\n", encoding="utf-8")
    data = encode_labelled(LabelledText(path), character, ["neg", "pos"], longest=6, cache=cache)
    assert [character.decode(ids) for ids in data["text"]] == ["bad", "good"]
    assert lists(data["label"]) == [[0], [1]]
    assert [location.line for location in data.report.shortened.locations] == [3]
    with pytest.raises(DataError, match=r"a\.tsv:3: unknown label 'pos'"):
        encode_labelled(LabelledText(path), character, ["neg", "positive"], longest=6, cache=cache)


def test_lines_and_running_text(tmp_path, bpe, cache):
    path = tmp_path / "a.txt"
    path.write_text("The animal\n\nThe fox\n", encoding="utf-8")
    lines = encode_lines(PlainText(path), bpe, longest=100, cache=cache)
    assert lists(lines["text"]) == [bpe.encode("The animal"), bpe.encode("The fox")]
    running = encode_running(RunningText(path), bpe, cache=cache)
    assert running["text"].ids.tolist() == bpe.encode("The animal\n\nThe fox\n")
    cut = Sequences.cut(running["text"].ids, 4)
    assert np.array_equal(np.concatenate(list(cut)), running["text"].ids)
    assert set(cut.lengths[:-1]) == {4}


def test_an_end_token_stands_between_documents(tmp_path, any_kind, cache):
    texts = ["The animal </s>\n", "The quick brown fox\n", "The dog\n"]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
    encode = any_kind.encode
    whole = encode_running(RunningText(f"{tmp_path}/*.txt"), any_kind, cache=cache)["text"].ids.tolist()
    first, second, third = map(encode, texts)
    assert whole == [*first, any_kind.end, *second, any_kind.end, *third]
    border = (len(texts[0]) + 4) / len("".join(texts))  # within the second text
    parts = [RunningText(f"{tmp_path}/*.txt", *share) for share in ((0, border), (border, 1))]
    train, valid = (encode_running(part, any_kind, cache=cache)["text"].ids.tolist() for part in parts)
    assert train == [*first, any_kind.end, *encode(texts[1][:4])]
    assert valid == [*encode(texts[1][4:]), any_kind.end, *third]


def test_one_long_line_has_the_ids_of_its_words(tmp_path, bpe):
    line = "The quick brown fox jumps over the lazy dog! " * 12_000
    (tmp_path / "a.txt").write_text(line, encoding="utf-8")
    assert encode_running(RunningText(tmp_path / "a.txt"), bpe)["text"].ids.tolist() == bpe.encode(
        line + "\n"
    )


def test_nothing_left_is_an_error_with_the_reasons(tsv, bpe):
    with pytest.raises(DataError, match=r"7 read, 0 kept.*too many tokens"):
        encode_parallel(ParallelText(tsv), Tokenizers.joint(bpe), longest=2)


def test_columns_must_match():
    with pytest.raises(DataError, match="equally many sequences"):
        Data({"source": Sequences.of([[1]]), "target": Sequences.of([[1], [2]])})


@pytest.mark.parametrize(("size", "dtype"), [(65_536, "uint16"), (65_537, "int32")])
def test_ids_take_no_more_room_than_they_need(size, dtype):
    def fill(columns):
        columns["text"].add([size - 1])
        return token_files.Report()

    data = token_files.build_in_memory(fill, {"text": size}, "key")
    assert data["text"].ids.dtype == dtype
    assert data["text"].ids[0] == size - 1


def test_many_ids_are_written_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(token_files, "_BUFFERED_IDS", 7)
    sequences = [[i, i + 1, i + 2][: i % 4] for i in range(50)]

    def fill(columns):
        for ids in sequences:
            columns["text"].add(ids)
        return token_files.Report(50, 50)

    assert lists(token_files.open_or_build(tmp_path, fill, {"text": 100}, "k" * 64)["text"]) == sequences
    assert lists(token_files.build_in_memory(fill, {"text": 100}, "k")["text"]) == sequences


class Counting:
    """How often a corpus is read."""

    def __init__(self, corpus):
        self.corpus = corpus
        self.passes = 0

    @property
    def report(self):
        return self.corpus.report

    def __iter__(self):
        self.passes += 1
        return iter(self.corpus)

    def identity(self):
        return self.corpus.identity()


@pytest.fixture
def cached(tsv, bpe, tmp_path):
    """Encode the pairs with a cache; give the data and the number of passes over the corpus it took."""

    def encode(filters=None, tokenizer=bpe, longest=60):
        corpus = Counting(ParallelText(tsv, filters=filters))
        data = encode_parallel(corpus, Tokenizers.joint(tokenizer), longest, tmp_path / "cache")
        return data, corpus.passes

    return encode


def test_token_files_are_built_once(cached, tmp_path):
    first, passes = cached()
    again, none = cached()
    assert (passes, none) == (1, 0)
    assert lists(first["source"]) == lists(again["source"])
    assert (first.report, first.identity) == (again.report, again.identity)
    assert isinstance(again["source"].ids, np.memmap)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [first.identity[:32]]


def test_any_change_of_text_or_settings_builds_new_files(cached, word, tsv):
    cached()
    assert cached(filters=Filters(max_length=50))[1] == 1
    assert cached(tokenizer=word)[1] == 1
    assert cached(longest=50)[1] == 1
    tsv.write_text("The fox\tle renard\n", encoding="utf-8")
    data, passes = cached()
    assert (len(data), passes) == (1, 1)


@pytest.mark.parametrize("name", ["source.ids", "target.offsets", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "swap"])
def test_damaged_files_are_detected_and_rebuilt(cached, tmp_path, caplog, name, damage):
    whole, _ = cached()
    path = tmp_path / "cache" / whole.identity[:32] / name
    content = bytearray(path.read_bytes())
    expected = lists(whole["source"])
    content[len(content) // 2] ^= 4
    path.unlink()
    if damage != "remove":
        path.write_bytes({"flip": bytes(content), "cut": bytes(content[:-8]), "swap": b"{}"}[damage])
    with caplog.at_level(logging.WARNING):
        data, passes = cached()
    assert "damaged" in caplog.text
    assert passes == 1
    assert lists(data["source"]) == expected
    assert cached()[1] == 0


@pytest.mark.parametrize(
    "change", [{"key": "other"}, {"format": 99}, {"report": 3}, {"columns": {"source": "object"}}]
)
def test_a_manifest_of_another_format_is_refused(cached, tmp_path, change):
    whole, _ = cached()
    path = tmp_path / "cache" / whole.identity[:32] / "manifest.json"
    manifest = {**json.loads(path.read_bytes())["manifest"], **change}
    path.write_text(
        json.dumps({"manifest": manifest, "sha256": token_files._manifest_digest(manifest)}), encoding="utf-8"
    )
    assert cached()[1] == 1
    for content in ("[]", "3", '{"manifest": {}}', '{"manifest": null, "sha256": ""}'):
        path.write_text(content, encoding="utf-8")
        assert cached()[1] == 1


def test_a_changed_count_in_the_manifest_is_detected(cached, tmp_path):
    whole, _ = cached()
    path = tmp_path / "cache" / whole.identity[:32] / "manifest.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"kept": 5', '"kept": 6'), encoding="utf-8")
    data, passes = cached()
    assert (data.report.kept, passes) == (5, 1)


def test_a_build_that_fails_leaves_nothing(tsv, bpe, tmp_path):
    corpus = ParallelText(tsv, filters=Filters(bad="error"))
    with pytest.raises(DataError, match="empty"):
        encode_parallel(corpus, Tokenizers.joint(bpe), 60, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(tsv, bpe, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="cannot write token files"):
        encode_parallel(ParallelText(tsv), Tokenizers.joint(bpe), 60, tmp_path / "file")
