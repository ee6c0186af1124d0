"""Rows of TSV, CSV and JSONL files, with the columns a caller asks for.

Which line is a header is stated, never guessed: columns asked for by name are looked up in the first
line, which must hold them; columns asked for by number (from 0) mean a file without a header, unless
`header=True` says that its first line is to be passed over. JSONL has keys, so names only.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import DataError, SettingError
from regard.registry import Registry
from regard.text.lines import EMPTY, NOT_UTF8, NUL, Line, read_lines

Column = str | int

NOT_A_ROW = "missing column"
NOT_CSV = "broken CSV quoting"
NOT_JSON = "not a JSON object"

_SUFFIXES = {".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
# A field between quotes, in which a quote is doubled, or one that does not begin with a quote.
_FIELD = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"|([^",][^,]*+)?+)(?=,|\Z)')
_UNCLOSED = re.compile(r'"[^"]*+(?:""[^"]*+)*+')
_WHOLE, _OPEN, _BROKEN = "whole", "open", "broken"
_LONG_FIELDS = 2  # fields of the longest allowed length that a record over several lines may have
_ROWS_IN_A_FIELD = 20  # lines of a field that each look like a row, from which on they are taken for rows


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


def kind_of(path: Path, otherwise: str | None = None) -> str:
    """The kind of table a file's name promises; without a promise the other one, or an error."""
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    kind = _SUFFIXES.get(suffix, otherwise)
    if kind is None:
        raise SettingError(
            f"{path.name} is named neither .tsv, .csv nor .jsonl; say what it is with data.format = "
            '"tsv", "csv" or "jsonl"'
        )
    return kind


def _tsv(path: Path, wanted: Wanted, longest: int) -> Iterator[Row]:
    """Every tab separates; quotes are text."""
    rows = (
        Row(line.number, tuple(line.text.split("\t")), line.problem) for line in read_lines(path, longest)
    )
    return _pick(path, rows, wanted)


def _csv(path: Path, wanted: Wanted, longest: int) -> Iterator[Row]:
    """Commas separate; a field in quotes may hold commas, doubled quotes and line ends.

    A quote that opens a field and does not close it costs its own line: the next line is read on its own.
    """
    return _pick(path, _csv_rows(_Ahead(read_lines(path, longest)), longest), wanted)


def _csv_rows(ahead: _Ahead, longest: int) -> Iterator[Row]:
    width = 0  # fields of the first record
    while (line := ahead.take()) is not None:
        fields, state = _split_csv(line.text)
        problem = NOT_CSV if state == _BROKEN else line.problem
        if state == _OPEN:
            fields, problem = _over_lines(line, ahead, width, longest)
        width = width or (0 if problem else len(fields))
        yield Row(line.number, () if problem else tuple(fields), problem)


def _over_lines(line: Line, ahead: _Ahead, width: int, longest: int) -> tuple[list[str], str | None]:
    """The fields of a record that ends in a later line than it begins, or why it is none."""
    more = ahead.until_closed(_LONG_FIELDS * longest)
    if more is None:
        return [], NOT_CSV
    fields, _ = _split_csv("\n".join(each.text for each in (line, *more)))
    if any(len(field.encode()) > longest for field in fields) or _are_rows(more[:-1], width):
        ahead.refuse()
        return [], NOT_CSV
    for _ in more:
        ahead.take()
    return fields, next((each.problem for each in more if each.problem), None)


def _are_rows(lines: Sequence[Line], width: int) -> bool:
    """Whether the lines of a field are rows: two stray quotes far apart look like one long field."""
    if width < 2 or len(lines) < _ROWS_IN_A_FIELD:
        return False
    found = (_split_csv(line.text) for line in lines)
    return all(state == _WHOLE and len(fields) == width for fields, state in found)


class _Ahead:
    """Lines, some of them read ahead in search of the quote that closes a field.

    Of those held, the first `_inside` do not leave a quoted field that is open before them, wherever it
    began, and `_next` is what the line behind them does. So each line is searched once, not once for every
    stray quote before it.
    """

    def __init__(self, lines: Iterator[Line]):
        self._lines = lines
        self._held: deque[Line] = deque()
        self._inside = 0
        self._size = 0
        self._next: str | None = None

    def take(self) -> Line | None:
        """The next line, or None at the end of the file."""
        if not self._held:
            return next(self._lines, None)
        line = self._held.popleft()
        if self._inside:
            self._inside -= 1
            self._size -= len(line.text) + 1
        else:
            self._next = None
        return line

    def until_closed(self, room: int) -> list[Line] | None:
        """The lines up to the one that closes the open field; None where none does within so much text."""
        while self._look() == _OPEN:
            if self._size > room:
                return None
            self._size += len(self._held[self._inside].text) + 1
            self._inside += 1
            self._next = None
        return list(self._held) if self._next == _WHOLE else None

    def refuse(self) -> None:
        """Take the field that was closed for a broken one, whichever line it begins in."""
        self._next = _BROKEN

    def _look(self) -> str:
        if self._next is None:
            if self._inside == len(self._held):
                self._held.extend(islice(self._lines, 1))
            there = self._inside < len(self._held)
            self._next = _split_csv(f'"{self._held[self._inside].text}')[1] if there else _BROKEN
        return self._next


def _split_csv(text: str) -> tuple[list[str], str]:
    """The fields of a text, and whether it is a whole record, ends in an open quote, or is broken."""
    if '"' not in text:
        return text.split(","), _WHOLE
    fields: list[str] = []
    end = -1
    while end < len(text) and (match := _FIELD.match(text, end + 1)):
        quoted, bare = match.groups()
        fields.append((bare or "") if quoted is None else quoted.replace('""', '"'))
        end = match.end()
    if end == len(text):
        return fields, _WHOLE
    return fields, _OPEN if _UNCLOSED.fullmatch(text, end + 1) else _BROKEN


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
        raise SettingError(
            f"{path} is JSONL, which has keys and no columns {wanted.columns}; name the keys with "
            "data.columns, or with data.text_column and data.label_column"
        )
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


FORMATS: Registry[Callable[[Path, Wanted, int], Iterator[Row]]] = Registry(
    "table format", {"tsv": _tsv, "csv": _csv, "jsonl": _jsonl}
)
