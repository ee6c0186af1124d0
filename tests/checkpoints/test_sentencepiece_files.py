"""SentencePiece files: pieces and scores from the bytes, ids from Marian's table, damage in one line."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from unicodedata import normalize

import pytest

from regard.checkpoints.sentencepiece_files import read_pieces, unigram_tokenizer
from regard.checkpoints.untrusted_files import FolderFiles
from regard.errors import RegardError
from tests.checkpoints.test_huggingface import TEXTS, strings

SOURCE, TARGET = "source.spm", "target.spm"

PIECES = {"▁the": -2.0, "▁": -4.0, "t": -6.0, "h": -6.5, "e": -5.0, "▁cat": -3.0, "s": -4.5, "th": -5.5}
IDS = {"</s>": 0, "<unk>": 1, "▁cat": 2, "s": 3, "▁the": 4, "▁": 5, "e": 6, "h": 7, "t": 8, "th": 9, "ß": 10,
       "▁chat": 11, ">>fra<<": 12, "<pad>": 13}  # fmt: skip


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def piece(text: str, score: float, kind: int = 1) -> bytes:
    scored = message(1, text.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score)
    return message(1, scored + varint(3 << 3) + varint(kind))


def model(kind: int = 1, character_map: bytes = b"", flag: int = 0) -> bytes:
    special = piece("<unk>", 0.0, 2) + piece("<s>", 0.0, 3)
    words = b"".join(piece(text, score) for text, score in PIECES.items())
    rules = varint(3 << 3) + b"\x01" + varint(4 << 3) + b"\x01"
    flags = varint(flag << 3) + b"\x01" if flag else b""
    mapped = message(2, character_map) if character_map else b""
    return special + words + message(2, varint(3 << 3) + varint(kind) + flags) + message(3, rules + mapped)


def trie(*units: int) -> bytes:
    """A character map of 256 places, without texts."""
    return struct.pack("<I", 1024) + struct.pack("<256I", *units, *[0] * (256 - len(units)))


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "source.spm").write_bytes(model())
    return tmp_path


def test_pieces_and_rules_are_read(folder) -> None:
    read = read_pieces(FolderFiles(folder), "source.spm")
    assert read.scores == PIECES
    assert (read.unknown, read.adds_space, read.joins_spaces, read.character_map) == (
        "<unk>",
        True,
        True,
        b"",
    )


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("the cats", ["▁the", "▁cat", "s"]),
        ("  the   cat ", ["▁the", "▁cat"]),
        ("thes", ["▁the", "s"]),
        ("hß", ["▁", "h", "ß"]),  # unknown to the model and known to the table
        ("theж", ["▁the", "<unk>"]),
        ("theжßя s", ["▁the", "<unk>", "▁", "s"]),  # a run of unknown characters is one piece
        ("the<pad>", ["▁the", "<unk>"]),  # a special token in a text is text
        (">>fra<< the", [">>fra<<", "▁the"]),
        ("chat", ["▁chat"]),
        (" \tthe ", ["▁", "<unk>", "th", "e"]),  # a tab is a character, as in SentencePiece
    ],
)
def test_the_best_segmentation_has_the_ids_of_the_table(folder, text, tokens) -> None:
    inner = unigram_tokenizer(FolderFiles(folder), "source.spm", IDS)
    assert inner.encode(text, add_special_tokens=False).ids == [IDS[token] for token in tokens]


COMPOSED = ["Tiếng Việt rất đẹp", "한국어를 공부", "L'été à Noël", "ガギグ パン"]
DECOMPOSED = [*(normalize("NFD", text) for text in COMPOSED), "ｶﾞｷﾞｸﾞ ﾊﾟﾝ", "\ta \u3000b\t "]


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")
def test_ids_are_those_of_transformers(tmp_path) -> None:
    trainer = pytest.importorskip("sentencepiece", reason="needs sentencepiece").SentencePieceTrainer
    transformers = pytest.importorskip("transformers")
    for name, texts in ((SOURCE, TEXTS + COMPOSED), (TARGET, TEXTS[2:])):
        trainer.train(
            sentence_iterator=iter(texts * 9), model_prefix=str(tmp_path / name), vocab_size=160, bos_id=-1,
            model_type="unigram", character_coverage=0.99, hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
        (tmp_path / f"{name}.model").rename(tmp_path / name)
    scores = [read_pieces(FolderFiles(tmp_path), name).scores for name in (SOURCE, TARGET)]
    pieces = ["</s>", "<unk>", ">>fra<<", *dict.fromkeys([*scores[0], *scores[1], "ж"]), "<pad>"]
    ids = {token: number for number, token in enumerate(pieces)}
    (tmp_path / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    settings = '{"source_lang": "eng", "target_lang": "fra"}'
    (tmp_path / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path)
    ours = unigram_tokenizer(FolderFiles(tmp_path), SOURCE, ids)
    for text in [*strings(200), *COMPOSED, *DECOMPOSED, ">>fra<< the animal", "жж Жab", "", "  ", "▁a"]:
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode(text, add_special_tokens=False).ids == expected, text


def test_decoding_restores_the_text(folder) -> None:
    inner = unigram_tokenizer(FolderFiles(folder), "source.spm", IDS)
    assert inner.decode([IDS["▁the"], IDS["▁cat"], IDS["s"]]) == "the cats"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it has no pieces"),
        (model(kind=2), "it is not of unigram type"),
        (model()[:-3], "longer than the file|not a SentencePiece"),
        (b"\xff" * 30, "is not a SentencePiece model"),
        (b"\x0a\xff\xff\xff\xff\x7f", "a field is longer than the file"),
        (piece("a", float("nan")), "no valid score"),
        (model(flag=35), "byte_fallback is not supported"),
        (model(flag=24), "treat_whitespace_as_suffix is not supported"),
        (model(character_map=b"abc"), "its character map is damaged"),
        (model(character_map=struct.pack("<I", 1 << 30)), "its character map is damaged"),
        (model(character_map=trie(1 << 20)), "its character map is damaged"),  # beyond the trie
        (model(character_map=trie(0, 1 << 8)), "its character map is damaged"),  # beyond the texts
    ],
)
def test_damage_is_one_line(folder, content, message) -> None:
    (folder / "source.spm").write_bytes(content)
    with pytest.raises(RegardError, match=message) as caught:
        unigram_tokenizer(FolderFiles(folder), "source.spm", IDS)
    assert "\n" not in str(caught.value)


def test_ids_with_a_gap_are_refused(folder) -> None:
    with pytest.raises(RegardError, match="must count from 0 without gaps"):
        unigram_tokenizer(FolderFiles(folder), "source.spm", IDS | {"x": 99})
