"""A SentencePiece model file (.spm) of unigram type, as a tokenizer of the tokenizers library.

The file is a protocol buffer; only the fields that determine the segmentation are read.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unicodedata import is_normalized

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from regard.checkpoints.untrusted_files import LARGEST_OTHER, FolderFiles
from regard.errors import CheckpointError
from regard.opener import read_regular
from regard.text.tokenizer_file import as_data_error, check_character_map, parse_tokenizer

UNIGRAM = 1
NORMAL, UNKNOWN, USER_DEFINED = 1, 2, 4  # kinds of pieces
UNKNOWN_PENALTY = 10.0  # an unknown character scores so much less than the worst piece, as in SentencePiece
_SPECIAL = re.compile(r"</?\w+>")
UNKNOWN_RUN = "\ue000"  # of no piece: a run of unknown characters is one unknown piece, as in SentencePiece
_SPACES = (("^ +| +$", ""), (" {2,}", " "))  # only U+0020: other spaces are characters
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class PieceModel:
    """The pieces of a unigram model with their scores, and how a text is normalised before."""

    scores: dict[str, float]
    unknown: str
    character_map: bytes
    adds_space: bool
    joins_spaces: bool


def unigram_tokenizer(files: FolderFiles, name: str, ids: Mapping[str, int]) -> tokenizers.Tokenizer:
    """A tokenizer with the pieces of a model under the ids of a table.

    A piece of the table that the model lacks is used only where the text is unknown to the model.
    """
    model = read_pieces(files, name)
    unseen = min(model.scores.values(), default=0.0) - UNKNOWN_PENALTY
    by_id = {number: piece for piece, number in ids.items()}
    if set(by_id) != set(range(len(by_id))) or len(by_id) < len(ids) or model.unknown not in ids:
        raise CheckpointError(f"{files.folder}: the ids of the vocabulary must count from 0 without gaps")
    pieces = [by_id[number] for number in range(len(by_id))]
    scored = [(piece, model.scores.get(piece, unseen * max(1, len(piece)))) for piece in pieces]
    languages = [piece for piece in pieces if piece.startswith(">>") and piece.endswith("<<")]
    with as_data_error(f"{files.folder / name} is not a valid tokenizer"):
        inner = tokenizers.Tokenizer(models.Unigram(scored, ids[model.unknown]))
        steps = _mapping(model)
        if model.joins_spaces:
            steps += [normalizers.Replace(Regex(pattern), to) for pattern, to in _SPACES]
        known = "".join(map(re.escape, sorted({" ", *"".join(model.scores)})))
        steps.append(normalizers.Replace(Regex(f"[^{known}]{{2,}}"), UNKNOWN_RUN))
        inner.normalizer = normalizers.Sequence(steps)
        space = "always" if model.adds_space else "never"
        spelled = [re.escape(piece[1:]) for piece in pieces if _SPECIAL.fullmatch(piece)]
        apart = pre_tokenizers.Split(Regex(f"<(?={'|'.join(spelled)})"), "isolated")  # it stays text
        metaspace = pre_tokenizers.Metaspace(prepend_scheme=space)
        inner.pre_tokenizer = pre_tokenizers.Sequence([metaspace, apart]) if spelled else metaspace
        inner.decoder = decoders.Metaspace(prepend_scheme=space)
        inner.add_tokens([AddedToken(piece, normalized=False) for piece in languages])
    return parse_tokenizer(json.loads(inner.to_str()), str(files.folder / name))


def _mapping(model: PieceModel) -> list[Any]:
    """The character map, between two compositions where all pieces are composed.

    SentencePiece maps the longest sequence of characters, such as a letter with two accents to one letter.
    The map of the tokenizers library alone would drop the second accent.
    """
    if not model.character_map:
        return []
    mapped = normalizers.Precompiled(model.character_map)
    is_composed = all(is_normalized("NFC", piece) for piece in model.scores)
    return [normalizers.NFC(), mapped, normalizers.NFC()] if is_composed else [mapped]


def read_pieces(files: FolderFiles, name: str) -> PieceModel:
    """The model in a file."""
    path = files.path(name)
    try:
        return _parse(read_regular(path, LARGEST_OTHER))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, struct.error, IndexError) as error:
        raise CheckpointError(f"{path} is not a SentencePiece model that regard reads: {error}") from None


def _parse(content: bytes) -> PieceModel:
    scores: dict[str, float] = {}
    unknown, kind, character_map, adds_space, joins_spaces = "<unk>", UNIGRAM, b"", True, True
    for number, value in _fields(content):
        if number == 1:
            piece, score, piece_kind = _piece(_message(value))
            if piece_kind == UNKNOWN:
                unknown = piece
            elif piece_kind in (NORMAL, USER_DEFINED):
                scores[piece] = score
        elif number == 2:
            trained = dict(_fields(_message(value)))
            kind = trained.get(3, UNIGRAM)
            _require(trained, {35: ("byte_fallback", 0), 24: ("treat_whitespace_as_suffix", 0)})
        elif number == 3:
            rules = dict(_fields(_message(value)))
            character_map = _message(rules.get(2, b""))
            _require(rules, {5: ("escape_whitespaces", 1)})
            check_character_map(character_map)
            adds_space, joins_spaces = bool(rules.get(3, 1)), bool(rules.get(4, 1))
    if kind != UNIGRAM:
        raise ValueError("it is not of unigram type; convert it to a tokenizer.json")
    if not scores:
        raise ValueError("it has no pieces")
    return PieceModel(scores, unknown, character_map, adds_space, joins_spaces)


def _require(values: Mapping[int, int | bytes], flags: Mapping[int, tuple[str, int]]) -> None:
    """Raise if a flag has a value without a counterpart."""
    for number, (name, value) in flags.items():
        if values.get(number, value) != value:
            raise ValueError(f"{name} is not supported; convert it to a tokenizer.json")


def _piece(content: bytes) -> tuple[str, float, int]:
    values = dict(_fields(content))
    score = values.get(2, b"\0\0\0\0")
    number = struct.unpack("<f", _message(score))[0]
    kind = values.get(3, NORMAL)
    if not math.isfinite(number) or not isinstance(kind, int):
        raise ValueError("a piece has no valid score or kind")
    return _message(values.get(1, b"")).decode(), number, kind


def _message(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field has the wrong type")
    return value


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message: an integer, or the bytes of anything else."""
    position = 0
    while position < len(content):
        key, position = _varint(content, position)
        kind = key & 7
        if kind == _VARINT:
            value, position = _varint(content, position)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, position = _varint(content, position)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError("a field has an unknown type")
        if position + length > len(content):
            raise ValueError("a field is longer than the file")
        yield key >> 3, content[position : position + length]
        position += length


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("a number has too many bytes")
