"""Rows of TSV, CSV and JSONL files, with the columns a caller asks for.

Which line is a header is stated, never guessed: columns asked for by name are looked up in the first
line, which must hold them; columns asked for by number (from 0) mean a file without a header, unless
`header=True` says that its first line is to be passed over. JSONL has keys, so names only.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import DataError, SettingError
from regard.tables import Table
from regard.text.reading import EMPTY, NOT_UTF8, NUL, Line, read_lines

Column = str | int

NOT_A_ROW = "missing column"
NOT_CSV = "broken CSV quoting"
NOT_JSON = "not a JSON object"


class Row(NamedTuple):
    """The wanted fields of one row and the line where it starts; `problem` as in Line."""

    number: int
    fields: tuple[str, ...]
    problem: str | None = None


@dataclass(frozen=True)
class Wanted:
    """The columns to take, in this order, and whether the first line is a header."""

    columns: tuple[Column, ...]
    header: bool | None = None

    def __post_init__(self):
        named = [isinstance(column, str) for column in self.columns]
        if any(named) and not all(named):
            raise SettingError(f"columns {self.columns} mix names and numbers; give only one kind")
        if all(named) and self.header is False:
            raise SettingError(f"columns {self.columns} are names, which only a header has; give numbers")
        if any(isinstance(column, int) and column < 0 for column in self.columns):
            raise SettingError(f"columns {self.columns} must count from 0")

    @property
    def by_name(self) -> bool:
        """Whether the columns are asked for by name."""
        return isinstance(self.columns[0], str)

    @property
    def has_header(self) -> bool:
        """Whether the first line is a header under the rule at the top of this file."""
        return self.by_name or bool(self.header)


def read_rows(path: Path, wanted: Wanted, kind: str | None, longest: int) -> Iterator[Row]:
    """The rows of a file; its kind is a name of FORMATS, or follows from the file's name."""
    return FORMATS.find(kind or kind_of(path))(path, wanted, longest)


def kind_of(path: Path) -> str:
    """The kind of table a file's name promises."""
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    kind = {".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}.get(suffix)
    if kind is None:
        raise SettingError(f"{path.name} is neither .tsv, .csv nor .jsonl; state its format")
    return kind


def _tsv(path: Path, wanted: Wanted, longest: int) -> Iterator[Row]:
    """Every tab separates; quotes are text."""
    rows = (
        Row(line.number, tuple(line.text.split("\t")), line.problem) for line in read_lines(path, longest)
    )
    return _pick(path, rows, wanted)


def _csv(path: Path, wanted: Wanted, longest: int) -> Iterator[Row]:
    """Commas separate, a quoted field may hold commas, doubled quotes and line ends."""
    return _pick(path, _csv_rows(_Noticed(read_lines(path, longest))), wanted)


class _Noticed:
    """The texts of lines, remembering the problem of any that a record was made of."""

    def __init__(self, lines: Iterator[Line]):
        self.lines = lines
        self.number = 0
        self.problem: str | None = None

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.number = line.number
            self.problem = self.problem or line.problem
            yield line.text + "\n"


def _csv_rows(lines: _Noticed) -> Iterator[Row]:
    # Python's own limit of a field's size keeps an unclosed quote from swallowing the rest of the file.
    records = csv.reader(lines, strict=True)
    while True:
        start, lines.problem = lines.number + 1, None
        try:
            fields = tuple(next(records))
        except StopIteration:
            return
        except csv.Error:
            yield Row(start, (), lines.problem or NOT_CSV)
        else:
            yield Row(start, fields, lines.problem)


def _pick(path: Path, rows: Iterator[Row], wanted: Wanted) -> Iterator[Row]:
    first = next(rows, None) if wanted.has_header else None
    if wanted.has_header and first is None:
        return
    places = _places(path, first.fields if first else (), wanted)
    for number, fields, problem in rows:
        if problem or len(fields) <= max(places):
            yield Row(number, (), problem or (NOT_A_ROW if any(fields) else EMPTY))
        else:
            yield Row(number, tuple(fields[place] for place in places))


def _places(path: Path, header: Sequence[str], wanted: Wanted) -> list[int]:
    places: list[int] = []
    for column in wanted.columns:
        if isinstance(column, int):
            places.append(column)
        elif column in header:
            places.append(list(header).index(column))
        else:
            shown = ", ".join(repr(name[:20]) for name in header[:6])
            raise DataError(
                f"{path} has no column {column!r} in its first line ({shown}); "
                "name the columns it has, or give their numbers from 0 if it has no header"
            )
    return places


def _jsonl(path: Path, wanted: Wanted, longest: int) -> Iterator[Row]:
    """One JSON object a line; the columns are its keys."""
    if not wanted.by_name:
        raise SettingError(f"{path} is JSONL, which has keys; name the columns {wanted.columns}")
    return (_json_row(line, wanted.columns) for line in read_lines(path, longest))


def _json_row(line: Line, keys: Sequence[Column]) -> Row:
    if line.problem or not line.text.strip():
        return Row(line.number, ("",) * len(keys), line.problem)
    try:
        record = json.loads(line.text)
    except (ValueError, RecursionError):
        return Row(line.number, (), NOT_JSON)
    if not isinstance(record, dict):
        return Row(line.number, (), NOT_JSON)
    fields = tuple(_as_text(record.get(key)) for key in keys)
    if None in fields:
        return Row(line.number, (), NOT_A_ROW)
    return Row(line.number, tuple(map(str, fields)), _json_problem("".join(map(str, fields))))


def _json_problem(text: str) -> str | None:
    """JSON can spell what a line cannot hold: a NUL, or half a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return NOT_UTF8
    return NUL if "\0" in text else None


def _as_text(value: Any) -> str | None:
    """A label may be a number or true; nothing, lists and objects are no text."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int | float) else None


FORMATS: Table[Callable[[Path, Wanted, int], Iterator[Row]]] = Table(
    "table format", {"tsv": _tsv, "csv": _csv, "jsonl": _jsonl}
)
