"""Reading a tokenizer.json of unknown origin without crashing or hanging."""

from __future__ import annotations

import json
import os
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from regard.errors import DataError, RegardError
from regard.opener import read_regular

LARGEST_FILE = 1 << 26
LARGEST_ID = 1 << 24
_INSERTED = ("content", "prepend")  # texts that a step of a pipeline inserts
_PIPELINE = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_PROBE = "It's 1 test."
LARGEST_GROWTH = 1000  # times that normalisation or decoding may lengthen a text; published ones reach 33


def open_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer in a regular file that is no link; any defect is a DataError."""
    return parse_tokenizer(read_content(path), str(path))


def parse_tokenizer(content: dict[str, Any], name: str) -> tokenizers.Tokenizer:
    """The tokenizer in parsed JSON; one trial encoding shows defective parts now."""
    for part in _PIPELINE:
        for pattern in _patterns(content.get(part)):
            if backtracks_badly(pattern):
                raise DataError(
                    f"{name}: the pattern {pattern[:60]!r} can take exponential time; use another tokenizer"
                )
        with as_data_error(f"{name} is not a valid tokenizer"):
            growth = _growth(content.get(part))
        if growth > LARGEST_GROWTH:
            raise DataError(
                f"{name}: its {part} can make a text over {LARGEST_GROWTH:,} times as long; "
                "use another tokenizer"
            )
    with _quiet_panics(), as_data_error(f"{name} is not a valid tokenizer"):
        inner = tokenizers.Tokenizer.from_str(json.dumps(content))
        # A file may configure truncation and padding, which would change the ids of a text.
        inner.no_truncation()
        inner.no_padding()
        inner.decode(inner.encode(_PROBE, add_special_tokens=False).ids)
        highest = max(inner.get_vocab().values(), default=0)
    if highest >= LARGEST_ID:
        raise DataError(f"{name} has token id {highest}; ids must be below {LARGEST_ID}")
    # The library does not store this setting. Without it "</s>" in a text would be encoded as the token.
    inner.encode_special_tokens = True
    return inner


def read_content(path: Path) -> dict[str, Any]:
    """The JSON of a tokenizer in a regular file that is no link."""
    try:
        content = json.loads(read_regular(path, LARGEST_FILE))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path} is not JSON; give a tokenizer.json") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} is a JSON {type(content).__name__}, not an object; give a tokenizer.json")
    return content


def _patterns(part: Any) -> Iterator[str]:
    """All regular expressions in a part of the pipeline, at any depth."""
    for value in _tables(part):
        if isinstance(value.get("Regex"), str):
            yield value["Regex"]


def _tables(part: Any) -> Iterator[dict[str, Any]]:
    """All objects in a part of the pipeline, at any depth."""
    stack = [part]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            yield value
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


def _growth(part: Any) -> int:
    """How many times as long a text of one character can become in a part of the pipeline, at most."""
    growth = 1
    for step in _tables(part):
        if growth <= LARGEST_GROWTH:
            growth *= max([1, *(len(step[key]) for key in _INSERTED if isinstance(step.get(key), str))])
            growth *= _longest_mapped(step.get("precompiled_charsmap"))
    return growth


def _longest_mapped(character_map: Any) -> int:
    """The length of the longest text in a character map; raise a ValueError if the map is damaged."""
    if not isinstance(character_map, str):
        return 1  # there is none, or the library refuses it
    raw = b64decode(character_map, validate=True)
    check_character_map(raw)
    texts = raw[4 + int.from_bytes(raw[:4], "little") :]
    return max(1, *map(len, texts.split(b"\0")))


def check_character_map(content: bytes) -> None:
    """Raise a ValueError unless every path through the character map ends inside of it.

    It is the size of a trie, the trie (a double array, see Aoe 1989), and the texts that replace characters.
    """
    size = int.from_bytes(content[:4], "little")
    if not content:
        return
    if size % 1024 or not 0 < size <= len(content) - 4:
        raise ValueError("its character map is damaged")
    units = np.frombuffer(content, "<u4", size // 4, 4)
    inner = units >> 31 == 0
    offsets = (units >> 10) << ((units & (1 << 9)) >> 6)
    children = (np.arange(len(units), dtype=np.uint32) ^ offsets)[inner]
    if ((children | 255) >= len(units)).any():
        raise ValueError("its character map is damaged")
    leaves = units[children[(units[inner] >> 8) & 1 == 1]] & 0x7FFFFFFF
    texts = np.frombuffer(content[4 + size :], np.uint8)
    if (leaves >= len(texts)).any() or (texts[leaves] & 0xC0 == 0x80).any():
        raise ValueError("its character map is damaged")


def backtracks_badly(pattern: str) -> bool:
    """Whether a repeated group contains a repetition or an alternative, the cause of exponential matching.

    It is stricter than necessary: the patterns of known tokenizers repeat only characters and classes.
    """
    holds_loop = [False]
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if sign == "(":
            holds_loop.append(False)
        elif sign == "|":
            # An alternative matters only inside a group.
            holds_loop[-1] = len(holds_loop) > 1
        end = _end_of_atom(pattern, position)
        repeats = _repeats(pattern, end)
        if sign == ")" and len(holds_loop) > 1:
            inner = holds_loop.pop()
            if inner and repeats:
                return True
            holds_loop[-1] |= inner
        holds_loop[-1] |= repeats and sign not in "(|"
        position = end
    return False


def _end_of_atom(pattern: str, position: int) -> int:
    if pattern[position] == "\\":
        brace = pattern.startswith("{", position + 2) and pattern[position + 1] in "pPxou"
        return pattern.find("}", position) + 1 or len(pattern) if brace else position + 2
    if pattern[position] != "[":
        return position + 1
    depth, position = 1, position + 1
    while depth and position < len(pattern):
        depth += {"[": 1, "]": -1}.get(pattern[position], 0)
        position += 2 if pattern[position] == "\\" else 1
    return position


def _repeats(pattern: str, position: int) -> bool:
    """Whether the quantifier at this position is unbounded or above 20."""
    sign = pattern[position : position + 1]
    if sign != "{":
        return sign in ("*", "+")
    bounds = pattern[position + 1 : pattern.find("}", position)].split(",")
    return not bounds[-1].isdecimal() or int(bounds[-1][:6]) > 20


@contextmanager
def as_data_error(message: str) -> Iterator[None]:
    """Raise any error of the library as a DataError; a Rust panic is a BaseException."""
    try:
        yield
    except (RegardError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        visible = "".join(sign if sign.isprintable() else "?" for sign in reason)
        raise DataError(f"{message}: {visible}") from None


_stderr_lock = threading.Lock()


@contextmanager
def _quiet_panics() -> Iterator[None]:
    """Suppress the message of a Rust panic, which is written to file descriptor 2 directly."""
    with _stderr_lock:
        try:
            saved = os.dup(2)
        except OSError:
            yield
            return
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
