"""Tokenizer files from strangers: one line, and the process lives."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from base64 import b64encode
from typing import Any

import pytest

from regard.errors import DataError
from regard.text import tokenizer_file
from regard.text.tokenizer import Tokenizer
from regard.text.tokenizer_file import backtracks_badly

CATASTROPHIC = ["(a+)+$", "(a|aa)+$", "(?:.*)*x", "((a*)b)*c", "(\\s{2,})*", "(a|b|ab){3,}", "([ab]+c?)+"]
PUBLISHED = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re)?|\p{N}{1,3}",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r"[\p{Han}]+|[!-/:-~\]\[]+",
]


def split(pattern: str) -> dict:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def replace(text: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": text}, "content": content}


def long_character_map() -> str:
    """A map in which the text of a character has 2,000 bytes."""
    trie = struct.pack("<I", 1024) + bytes(1024)
    return b64encode(trie + b"a" * 2000 + b"\0").decode()


BROKEN_PARTS = {
    "panic": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "panic in use": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "empty replace": {"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "x"}},
    "catastrophe": {"pre_tokenizer": split("(a+)+$")},
    "deep catastrophe": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split("(a|aa)+$")]}},
    "bad pattern": {"pre_tokenizer": split("(")},
    "no model": {"model": None},
    "ids": {"model": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 4_000_000_000}, "unk_token": "<unk>"}},
    "no unknown": {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "u"}},
    "types": {"added_tokens": 5},
    "foreign key": {"auto_map": {"AutoTokenizer": "evil.py"}},
}
GROWING = {
    "a letter becomes a thousand, four times": {
        "normalizer": {"type": "Sequence", "normalizers": [replace("l", "l" * 1000)] * 4}
    },
    "a long prefix": {"normalizer": {"type": "Prepend", "prepend": "a" * 10_000}},
    "a long text in a character map": {
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": long_character_map()}
    },
    "decoding that repeats": {"decoder": {"type": "Sequence", "decoders": [replace("l", "l" * 1000)] * 4}},
}
BROKEN_FILES = {
    "empty": b"",
    "list": b"[]",
    "deep": b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
    "not text": b"\xff\xfe\x00",
    "object": b"{}",
    "numbers": b'{"version": 1' + b"0" * 10_000 + b"}",
}


@pytest.mark.parametrize("name", [*BROKEN_PARTS, *BROKEN_FILES])
def test_a_malformed_file_is_one_line_and_the_process_lives(bpe, tmp_path, capfd, name):
    path = tmp_path / "tokenizer.json"
    bpe.save(path)
    whole = json.loads(path.read_bytes())
    path.write_bytes(BROKEN_FILES.get(name) or json.dumps({**whole, **BROKEN_PARTS.get(name, {})}).encode())
    if name == "empty":
        path.write_bytes(b"")
    with pytest.raises(DataError) as caught:
        Tokenizer.load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert capfd.readouterr().err == ""


def test_a_damaged_character_map_is_not_given_to_the_library(bpe, tmp_path):
    """Its trie would have 4 GB, and the library would end the process where they are not to be had."""
    normalizer = {"type": "Precompiled", "precompiled_charsmap": "/" * 16}
    (tmp_path / "t.json").write_text(json.dumps(json.loads(bpe.to_json()) | {"normalizer": normalizer}))
    with pytest.raises(DataError, match="its character map is damaged"):
        Tokenizer.load(tmp_path / "t.json")


def test_a_text_of_the_library_is_printable(bpe, tmp_path):
    (tmp_path / "t.json").write_text(json.dumps(json.loads(bpe.to_json()) | {"version": "\x1b[31m"}))
    with pytest.raises(DataError, match=r"\?\[31m") as caught:
        Tokenizer.load(tmp_path / "t.json")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", GROWING)
def test_a_file_that_makes_a_text_huge_is_refused(bpe, tmp_path, name):
    whole = json.loads(bpe.to_json())
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole | GROWING[name]), encoding="utf-8")
    with pytest.raises(DataError, match="can make a text over 1,000 times as long"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_missing_or_huge_file_is_told_before_it_is_read(bpe, tmp_path, monkeypatch):
    with pytest.raises(DataError, match="cannot read"):
        Tokenizer.load(tmp_path / "none.json")
    bpe.save(tmp_path / "t.json")
    monkeypatch.setattr(tokenizer_file, "LARGEST_FILE", 1000)
    with pytest.raises(DataError, match="bytes"):
        Tokenizer.load(tmp_path / "t.json")


def test_stored_cutting_and_padding_are_dropped(bpe, tmp_path):
    inner = Tokenizer.train(["a b"] * 5, vocabulary=300)._inner
    inner.enable_truncation(2)
    inner.enable_padding(length=9)
    inner.save(str(tmp_path / "t.json"))
    assert len(Tokenizer.load(tmp_path / "t.json").encode("abcdef")) == 6


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_patterns_that_run_for_ever_are_known(pattern):
    assert backtracks_badly(pattern)


@pytest.mark.parametrize("pattern", PUBLISHED)
def test_patterns_of_published_tokenizers_pass(pattern):
    assert not backtracks_badly(pattern)


def test_our_own_patterns_pass(any_kind, tmp_path):
    any_kind.save(tmp_path / "t.json")
    Tokenizer.load(tmp_path / "t.json")


def test_a_pattern_that_slips_through_costs_one_text(bpe, tmp_path, monkeypatch):
    """The library's own limit stops it with a panic, which is an error like any other here."""
    monkeypatch.setattr(tokenizer_file, "backtracks_badly", lambda pattern: False)
    bpe.save(tmp_path / "t.json")
    content = json.loads((tmp_path / "t.json").read_bytes())
    (tmp_path / "t.json").write_text(
        json.dumps({**content, "pre_tokenizer": split("(a+)+$")}), encoding="utf-8"
    )
    tokenizer = Tokenizer.load(tmp_path / "t.json")
    with pytest.raises(DataError, match="cannot encode"):
        tokenizer.encode("a" * 40 + "b")
    assert tokenizer.decode(tokenizer.encode("ab")) == "ab"


def test_text_needs_no_torch():
    program = (
        "import sys, regard.text.tokenizer, regard.text.running_text, regard.text.splitting\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=300).returncode == 0
