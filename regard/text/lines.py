"""Lines of text files as people have them: plain or gzip, with or without a BOM, ending in \\n or \\r\\n."""

from __future__ import annotations

import codecs
import glob
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from regard.errors import DataError

Paths = str | Path | Sequence[str | Path]

NOT_UTF8 = "not UTF-8"
NUL = "NUL character"
EMPTY = "empty"
OVER_LONG = "over-long line"

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_BLOCK = 1 << 16


class Line(NamedTuple):
    """One line without its end; `problem` says why the text cannot be used, or is None."""

    number: int
    text: str
    problem: str | None


class Block(NamedTuple):
    """A line with its end, or a piece of a long one, of which only the last has an end; see Line."""

    number: int
    text: str
    problem: str | None


def find_files(paths: Paths) -> list[Path]:
    """The files meant by a path, a glob pattern or a list of them; a pattern's files come sorted."""
    several = [paths] if isinstance(paths, str | Path) else list(paths)
    found = [file for path in several for file in _expand(str(path))]
    if not found:
        raise DataError("no file was given; name at least one")
    return found


def _expand(path: str) -> list[Path]:
    # A file whose own name holds [ or * is itself before it is a pattern.
    if Path(path).is_file():
        return [Path(path)]
    # Path.glob refuses patterns that start at the root.
    names = sorted(glob.glob(path, recursive=True))  # noqa: PTH207
    matches = [Path(name) for name in names if Path(name).is_file()]
    if matches:
        return matches
    if Path(path).is_dir():
        raise DataError(f"{path} is a folder; name a file, or a pattern such as {path}/*.txt")
    rule = "no file matches" if glob.has_magic(path) else "no such file:"
    raise DataError(f"{rule} {path}; check the path")


def read_lines(path: Path, longest: int) -> Iterator[Line]:
    """The lines of a file one by one; memory holds one line, however long the file.

    Only \\n ends a line (U+2028, U+0085, \\x0b and \\x0c are text); one \\r before it belongs to the end.
    A line of more than `longest` bytes is reported, not held.
    """
    with _opened(path) as handle:
        yield from read_stream(handle, str(path), longest)


def read_stream(handle: BinaryIO, name: str, longest: int) -> Iterator[Line]:
    """The same from something open already, such as stdin; `name` is what an error calls it."""
    for number, raw in enumerate(_raw_lines(handle, name, longest), start=1):
        yield _understood(number, raw, longest)


def one_line(text: str) -> str:
    """A text without line ends, so that it can be a line of a file."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def read_blocks(path: Path, size: int) -> Iterator[Block]:
    """The text of a file in lines, and a line of more than `size` bytes in blocks of about that size.

    A block of a line ends before white space or, where it has none, behind any character. A line that ends
    with the file counts as ended, too.
    """
    number = 1
    with _opened(path) as handle:
        for raw, is_last in _raw_blocks(handle, str(path), size):
            text, problem = _decoded(_without_end(raw) if is_last else raw)
            yield Block(number, text + "\n" if is_last else text, problem)
            number += is_last


def _opened(path: Path) -> BinaryIO:
    try:
        # The magic number decides, not the name: .gz files come under many names.
        with path.open("rb") as probe:
            start = probe.read(2)
        if start in _UTF16_BOMS:
            raise DataError(f"{path} is UTF-16; save it as UTF-8")
        if start == b"\x1f\x8b":
            return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, gzip.open(path, "rb")), _BLOCK))
        return path.open("rb", buffering=_BLOCK)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None


def _raw_lines(handle: BinaryIO, name: str, longest: int) -> Iterator[bytes]:
    room = longest + len(_BOM) + 2
    try:
        raw = handle.readline(room).removeprefix(_BOM)
        while raw:
            yield raw
            if len(raw) > longest and not raw.endswith(b"\n"):
                _skip_rest(handle)
            raw = handle.readline(room)
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(name, error) from None


def _damaged(name: str, error: Exception) -> DataError:
    return DataError(f"cannot read {name}: {error}; the file may be damaged or cut short")


def _raw_blocks(handle: BinaryIO, name: str, size: int) -> Iterator[tuple[bytes, bool]]:
    """Bytes, and whether a line ends with them."""
    held, bom, is_last = b"", _BOM, True
    try:
        while raw := handle.readline(size):
            is_last = raw.endswith(b"\n") or len(raw) < size
            raw, bom = held + raw.removeprefix(bom), b""
            border = len(raw) if is_last else _border(raw)
            yield raw[:border], is_last
            held = raw[border:]
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(name, error) from None
    if not is_last:
        yield held, True


def _border(raw: bytes) -> int:
    """Where a piece of a line may end: before its last white space, or behind its last whole character."""
    words = raw[: max(raw.rfind(b" "), raw.rfind(b"\t")) + 1].rstrip()
    _, characters = codecs.utf_8_decode(raw, "ignore", False)
    # A \r may be half of a line's end.
    return len(words) or len(raw[:characters].removesuffix(b"\r"))


def _skip_rest(handle: BinaryIO) -> None:
    rest = handle.readline(_BLOCK)
    while rest and not rest.endswith(b"\n"):
        rest = handle.readline(_BLOCK)


def _understood(number: int, raw: bytes, longest: int) -> Line:
    raw = _without_end(raw)
    return Line(number, "", OVER_LONG) if len(raw) > longest else Line(number, *_decoded(raw))


def _without_end(raw: bytes) -> bytes:
    return raw.removesuffix(b"\n").removesuffix(b"\r")


def _decoded(raw: bytes) -> tuple[str, str | None]:
    """The text, and why it cannot be used."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return "", NOT_UTF8
    return text, NUL if "\0" in text else None


def files_digest(files: Iterable[Path]) -> str:
    """sha256 over the bytes of the files in their order; the names do not count."""
    whole = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as handle:
                whole.update(hashlib.file_digest(handle, "sha256").digest())
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    return whole.hexdigest()
