"""Opening a tokenizer.json that anybody may have written, in a process that goes on living."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tokenizers

from regard.errors import DataError, RegardError
from regard.opener import read_regular

LARGEST_FILE = 1 << 26
LARGEST_ID = 1 << 24
_PIPELINE = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_PROBE = "It's 1 test."


def open_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer in a regular file, no link; whatever is wrong with it is one DataError."""
    return parse_tokenizer(_read(path), str(path))


def parse_tokenizer(content: dict[str, Any], name: str) -> tokenizers.Tokenizer:
    """The tokenizer in parsed JSON, tried once so that a broken part shows now and not in use."""
    for part in _PIPELINE:
        for pattern in _patterns(content.get(part)):
            if backtracks_badly(pattern):
                raise DataError(f"{name}: the pattern {pattern[:60]!r} could run for ever; it is refused")
    with _quiet_panics(), surviving(f"{name} is no usable tokenizer"):
        inner = tokenizers.Tokenizer.from_str(json.dumps(content))
        # Cutting and padding stored in a file would change a text's ids behind the caller's back.
        inner.no_truncation()
        inner.no_padding()
        inner.decode(inner.encode(_PROBE, add_special_tokens=False).ids)
        highest = max(inner.get_vocab().values(), default=0)
    if highest >= LARGEST_ID:
        raise DataError(f"{name} has a token numbered {highest}; ids must be below {LARGEST_ID}")
    # The library does not store this: without it "</s>" in a text would become the token.
    inner.encode_special_tokens = True
    return inner


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_regular(path, LARGEST_FILE))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path} is not JSON; a tokenizer file is") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} is no tokenizer: it holds a {type(content).__name__}, not an object")
    return content


def _patterns(part: Any) -> Iterator[str]:
    """Every regular expression in a part of the pipeline, at any depth."""
    waiting = [part]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            pattern = value.get("Regex")
            if isinstance(pattern, str):
                yield pattern
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def backtracks_badly(pattern: str) -> bool:
    """Whether a repeated group itself holds a repetition or a choice, the cause of endless matching.

    Stricter than need be: the patterns of known tokenizers repeat single characters and classes only.
    """
    holds_loop = [False]
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if sign == "(":
            holds_loop.append(False)
        elif sign == "|":
            # A choice matters only inside a group.
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
    """Whether the quantifier at this place has no bound, or a large one."""
    sign = pattern[position : position + 1]
    if sign != "{":
        return sign in ("*", "+")
    bounds = pattern[position + 1 : pattern.find("}", position)].split(",")
    return not bounds[-1].isdecimal() or int(bounds[-1][:6]) > 20


@contextmanager
def surviving(what: str) -> Iterator[None]:
    """Turn any failure inside the library into a DataError, a Rust panic too, which is no Exception."""
    try:
        yield
    except (RegardError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{what}: {reason[:200]}") from None


_stderr_lock = threading.Lock()


@contextmanager
def _quiet_panics() -> Iterator[None]:
    """Keep a Rust panic from printing its own story beside our one line.

    The panic writes to file descriptor 2 directly, so that is what must look away for the moment.
    """
    with _stderr_lock:
        try:
            kept = os.dup(2)
        except OSError:
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
