"""Lines of text files: plain or gzip, with or without a BOM, ending in \\n or \\r\\n."""

from __future__ import annotations

import codecs
import glob
import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from regard.errors import DataError
from regard.opener import read_regular

Paths = str | Path | Sequence[str | Path]

NOT_UTF8 = "not UTF-8"
NUL = "NUL character"
EMPTY = "empty"
OVER_LONG = "over-long line"

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_TABLES = (b"PAR1", b"ARRO", b"\xff\xff\xff\xff")  # how Parquet files, and Arrow files and streams begin
_BLOCK = 1 << 16
_STATE = "state.json"  # in a folder of `datasets`
_LARGEST_STATE = 1 << 24
_SHARD = re.compile(r"-\d+-of-\d+.*")


class Line(NamedTuple):
    """A line or a block of one, numbered from 1; `problem` states why its text is unusable, or is None."""

    number: int
    text: str
    problem: str | None


def find_files(paths: Paths) -> list[Path]:
    """The files of a path, a glob pattern or a list of both; files that match a pattern are sorted."""
    files = [file for entry in find_entries(paths) for file in entry]
    if not files:
        raise DataError("the list of files is empty; name at least one")
    return files


def find_entries(paths: Paths) -> list[list[Path]]:
    """The files of each path or pattern of a list."""
    patterns = [paths] if isinstance(paths, str | Path) else list(paths)
    return [_expand(str(pattern)) for pattern in patterns]


def entry_numbers(paths: Paths) -> list[int]:
    """For each file of `find_files` the number of its entry in the list."""
    return [number for number, entry in enumerate(find_entries(paths)) for _ in entry]


def _expand(path: str) -> list[Path]:
    # An existing file takes precedence: its name may contain [ or *.
    if Path(path).is_file():
        return [Path(path)]
    # Path.glob does not accept absolute patterns.
    names = sorted(glob.glob(path, recursive=True))  # noqa: PTH207
    matches = [Path(name) for name in names if Path(name).is_file()]
    if matches:
        return matches
    if Path(path).is_dir():
        if tables := _tables_of(Path(path)):
            return tables
        raise DataError(f"{path} is a folder; name a file, or a pattern such as {path}/*.txt")
    rule = "no file matches" if glob.has_magic(path) else "no such file:"
    raise DataError(f"{rule} {path}; check the path")


def _tables_of(folder: Path) -> list[Path]:
    """The files of a folder that `datasets` of Hugging Face has saved, or of a folder of Parquet files."""
    state = folder / _STATE
    if state.is_file():
        try:
            values = json.loads(read_regular(state, _LARGEST_STATE))
            return [folder / Path(entry["filename"]).name for entry in values["_data_files"]]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            raise DataError(f"{state} does not list the files of a data set; save it again") from None
    tables = sorted(folder.glob("*.parquet"))
    splits = {_SHARD.sub("", path.stem) for path in tables}
    if len(splits) > 1:
        raise DataError(
            f"{folder} holds the tables {', '.join(sorted(splits)[:6])}; name those of one, such as "
            f"{folder}/{min(splits)}*.parquet"
        )
    inner = sorted(path.parent.name for path in folder.glob(f"*/{_STATE}"))
    if not tables and inner:
        raise DataError(f"{folder} holds the splits {', '.join(inner[:6])}; name one: {folder / inner[0]}")
    return tables


def is_packed(path: Path) -> bool:
    """Whether the name of a file says that it is compressed."""
    return path.suffix.lower() in (".gz", ".parquet")


def read_lines(path: Path, longest: int) -> Iterator[Line]:
    """The lines of a file without their ends, one at a time.

    Only \\n ends a line (U+2028, U+0085, \\x0b and \\x0c are text); one \\r before it is part of the end.
    A line of more than `longest` bytes has a problem instead of a text.
    """
    with _opened(path) as handle:
        yield from read_stream(handle, str(path), longest)


def read_stream(handle: BinaryIO, name: str, longest: int) -> Iterator[Line]:
    """The lines of an open stream, such as stdin; `name` is its name in error messages."""
    for number, raw in enumerate(_raw_lines(handle, name, longest), start=1):
        raw = _without_end(raw)
        yield Line(number, "", OVER_LONG) if len(raw) > longest else Line(number, *_decoded(raw))


def one_line(text: str) -> str:
    """A text with its line ends replaced by spaces."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def read_blocks(path: Path, size: int) -> Iterator[Line]:
    """The lines of a file with their ends; a line of more than `size` bytes is several blocks.

    A block ends before white space or, if it has none, after any character. Only the last block of a line
    ends with \\n. The end of the file also ends a line.
    """
    number = 1
    with _opened(path) as handle:
        for raw, is_last in _raw_blocks(handle, str(path), size):
            text, problem = _decoded(_without_end(raw) if is_last else raw)
            yield Line(number, text + "\n" if is_last else text, problem)
            number += is_last


def _opened(path: Path) -> BinaryIO:
    try:
        # Gzip is recognised by its magic number, since file names vary.
        with path.open("rb") as probe:
            start = probe.read(4)
        if start in _TABLES:
            raise DataError(f"{path} is a Parquet or Arrow table; give it with --tsv or --labelled")
        if start[:2] in _UTF16_BOMS:
            raise DataError(f"{path} is UTF-16; save it as UTF-8")
        if start[:2] == b"\x1f\x8b":
            return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, gzip.open(path, "rb")), _BLOCK))
        return path.open("rb", buffering=_BLOCK)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None


def _raw_lines(handle: BinaryIO, name: str, longest: int) -> Iterator[bytes]:
    limit = longest + len(_BOM) + 2
    try:
        raw = handle.readline(limit).removeprefix(_BOM)
        while raw:
            yield raw
            if len(raw) > longest and not raw.endswith(b"\n"):
                _skip_rest(handle)
            raw = handle.readline(limit)
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(name, error) from None


def _damaged(name: str, error: Exception) -> DataError:
    return DataError(f"cannot read {name}: {error}; the file may be damaged or cut short")


def _raw_blocks(handle: BinaryIO, name: str, size: int) -> Iterator[tuple[bytes, bool]]:
    """Blocks of bytes; True for the last block of a line."""
    rest, bom, is_last = b"", _BOM, True
    try:
        while raw := handle.readline(size):
            is_last = raw.endswith(b"\n") or len(raw) < size
            raw, bom = rest + raw.removeprefix(bom), b""
            end = len(raw) if is_last else _block_end(raw)
            yield raw[:end], is_last
            rest = raw[end:]
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(name, error) from None
    if not is_last:
        yield rest, True


def _block_end(raw: bytes) -> int:
    """The end of a block: before its last white space, or after its last complete character."""
    words = raw[: max(raw.rfind(b" "), raw.rfind(b"\t")) + 1].rstrip()
    _, characters = codecs.utf_8_decode(raw, "ignore", False)
    # A \r may belong to \r\n.
    return len(words) or len(raw[:characters].removesuffix(b"\r"))


def _skip_rest(handle: BinaryIO) -> None:
    rest = handle.readline(_BLOCK)
    while rest and not rest.endswith(b"\n"):
        rest = handle.readline(_BLOCK)


def _without_end(raw: bytes) -> bytes:
    return raw.removesuffix(b"\n").removesuffix(b"\r")


def _decoded(raw: bytes) -> tuple[str, str | None]:
    """The text, and why it is unusable."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return "", NOT_UTF8
    return text, NUL if "\0" in text else None


def files_digest(files: Iterable[Path]) -> str:
    """sha256 of the contents of the files, in their order."""
    digest = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as handle:
                digest.update(hashlib.file_digest(handle, "sha256").digest())
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    return digest.hexdigest()
