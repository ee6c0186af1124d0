"""Selected columns of TSV, CSV, JSONL, Parquet and Arrow files.

Headers are not guessed. If columns are selected by name, the first line is a header that contains the names.
If columns are selected by number, from 0, the file has no header, unless `header=True` skips the first line.
The columns of JSONL, Parquet and Arrow files are selected by name only.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import DataError, SettingError
from regard.registry import Registry
from regard.text.arrow_tables import read_columns
from regard.text.lines import EMPTY, NOT_UTF8, NUL, OVER_LONG, Line, read_lines

Column = str | int

NOT_A_ROW = "missing column"
NOT_CSV = "broken CSV quoting"
NOT_JSON = "not a JSON object"

_SUFFIXES = {
    ".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".parquet": "parquet", ".arrow": "arrow",
}  # fmt: skip
# A quoted field, in which a quote is doubled, or a field that does not begin with a quote.
_FIELD = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"|([^",][^,]*+)?+)(?=,|\Z)')
_UNCLOSED = re.compile(r'"[^"]*+(?:""[^"]*+)*+')
_COMPLETE, _OPEN, _INVALID = "complete", "open", "invalid"
_LONG_FIELDS = 2  # a record over several lines may be as long as this many fields of the maximum length
_ROWS_IN_A_FIELD = 3  # from this many lines, of which most look like rows, a quoted field is taken for rows


class Row(NamedTuple):
    """The selected fields of one row and the number of its first line; `problem` as in Line."""

    number: int
    fields: tuple[str, ...]
    problem: str | None = None


@dataclass(frozen=True)
class ColumnSelection:
    """The columns to read, in this order, and whether the first line is a header."""

    columns: tuple[Column, ...]
    header: bool | None = None

    def __post_init__(self):
        named = [isinstance(column, str) for column in self.columns]
        if any(named) and not all(named):
            raise SettingError(f"columns {self.columns} mix names and numbers; give one or the other")
        if all(named) and self.header is False:
            raise SettingError(f"columns {self.columns} are names and need a header; give numbers")
        if any(isinstance(column, int) and column < 0 for column in self.columns):
            raise SettingError(f"columns {self.columns} are numbered from 0; give no negative number")

    @property
    def by_name(self) -> bool:
        """Whether the columns are selected by name."""
        return isinstance(self.columns[0], str)

    @property
    def has_header(self) -> bool:
        """Whether the first line is a header."""
        return self.by_name or bool(self.header)

    def identity(self) -> str:
        """The selection as part of a corpus's digest; the text is that of format 1, so digests stay equal."""
        return f"Wanted(columns={self.columns!r}, header={self.header!r})"


def read_rows(path: Path, selection: ColumnSelection, format: str | None, longest: int) -> Iterator[Row]:
    """The rows of a file; `format` is a name of FORMATS, by default that of the file's ending."""
    return FORMATS.find(format or format_of(path))(path, selection, longest)


def format_of(path: Path, default: str | None = None) -> str:
    """The format that the ending of a file's name implies; other endings give the default or an error."""
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    format = _SUFFIXES.get(suffix, default)
    if format is None:
        raise SettingError(
            f'{path.name} does not end in .tsv, .csv, .jsonl, .parquet or .arrow; set data.format to "tsv", '
            '"csv", "jsonl", "parquet" or "arrow"'
        )
    return format


def _tsv(path: Path, selection: ColumnSelection, longest: int) -> Iterator[Row]:
    """Tabs separate fields; quotes are text."""
    rows = (
        Row(line.number, tuple(line.text.split("\t")), line.problem) for line in read_lines(path, longest)
    )
    return _select(path, rows, selection)


def _csv(path: Path, selection: ColumnSelection, longest: int) -> Iterator[Row]:
    """Commas separate fields; a quoted field may contain commas, doubled quotes and line ends.

    If a quote is never closed, only its own line is lost.
    """
    return _select(path, _csv_rows(_LookAhead(read_lines(path, longest)), longest), selection)


def _csv_rows(ahead: _LookAhead, longest: int) -> Iterator[Row]:
    shapes: Counter[tuple[int, bool]] = Counter()  # of the records so far
    while (line := ahead.take()) is not None:
        fields, state = _split_csv(line.text)
        problem = NOT_CSV if state == _INVALID else line.problem
        if state == _OPEN:
            fields, problem = _multiline_fields(line, ahead, shapes, longest)
        if not problem:
            shapes[_shape(fields)] += 1
        yield Row(line.number, () if problem else tuple(fields), problem)


def _multiline_fields(
    line: Line, ahead: _LookAhead, shapes: Counter[tuple[int, bool]], longest: int
) -> tuple[list[str], str | None]:
    """The fields of a record over several lines, or its problem."""
    following = ahead.until_closed(_LONG_FIELDS * longest)
    if following is None:
        return [], NOT_CSV
    fields, _ = _split_csv("\n".join([line.text, *(other.text for other in following)]))
    if any(len(field.encode()) > longest for field in fields) or _are_rows(following[:-1], shapes):
        ahead.mark_invalid()
        return [], NOT_CSV
    for _ in following:
        ahead.take()
    return fields, next((other.problem for other in following if other.problem), None)


def _are_rows(lines: Sequence[Line], shapes: Counter[tuple[int, bool]]) -> bool:
    """Whether the lines of a quoted field are rows between two stray quotes.

    Then most of them, blank ones aside, are complete rows with the usual shape of the table.
    """
    usual = shapes.most_common(1)[0][0] if shapes else (0, False)
    texts = [line.text for line in lines if line.text.strip(" ,")]
    if usual[0] < 2 or len(texts) < _ROWS_IN_A_FIELD:
        return False
    rows = (_split_csv(text) for text in texts)
    return 2 * sum(state == _COMPLETE and _shape(fields) == usual for fields, state in rows) > len(texts)


def _shape(fields: Sequence[str]) -> tuple[int, bool]:
    """The number of fields, and whether a space follows a comma, as it does in prose."""
    return len(fields), any(field.startswith(" ") for field in fields[1:])


class _LookAhead:
    """Lines with lookahead for the quote that closes a field.

    The first `_inside` lines of the buffer do not close a quoted field that is open before them. `_next` is
    the state after the line that follows them. Each line is searched once, however many stray quotes precede
    it.
    """

    def __init__(self, lines: Iterator[Line]):
        self._lines = lines
        self._buffer: deque[Line] = deque()
        self._inside = 0
        self._size = 0
        self._next: str | None = None

    def take(self) -> Line | None:
        """The next line; None at the end of the file."""
        if not self._buffer:
            return next(self._lines, None)
        line = self._buffer.popleft()
        if self._inside:
            self._inside -= 1
            self._size -= len(line.text) + 1
        else:
            self._next = None
        return line

    def until_closed(self, limit: int) -> list[Line] | None:
        """The lines up to the one that closes the open field; None if more than `limit` characters do not."""
        while self._next_state() == _OPEN:
            if self._size > limit:
                return None
            self._size += len(self._buffer[self._inside].text) + 1
            self._inside += 1
            self._next = None
        return list(self._buffer) if self._next == _COMPLETE else None

    def mark_invalid(self) -> None:
        """Treat the closing quote that was found as invalid, also for fields that begin in later lines."""
        self._next = _INVALID

    def _next_state(self) -> str:
        if self._next is None:
            if self._inside == len(self._buffer):
                self._buffer.extend(islice(self._lines, 1))
            has_line = self._inside < len(self._buffer)
            self._next = _split_csv(f'"{self._buffer[self._inside].text}')[1] if has_line else _INVALID
        return self._next


def _split_csv(text: str) -> tuple[list[str], str]:
    """The fields of a text, and whether it is a complete record, has an open quote, or is invalid."""
    if '"' not in text:
        return text.split(","), _COMPLETE
    fields: list[str] = []
    end = -1
    while end < len(text) and (match := _FIELD.match(text, end + 1)):
        quoted, bare = match.groups()
        fields.append((bare or "") if quoted is None else quoted.replace('""', '"'))
        end = match.end()
    if end == len(text):
        return fields, _COMPLETE
    return fields, _OPEN if _UNCLOSED.fullmatch(text, end + 1) else _INVALID


def _select(path: Path, rows: Iterator[Row], selection: ColumnSelection) -> Iterator[Row]:
    first = next(rows, None) if selection.has_header else None
    if selection.has_header and first is None:
        return
    indices = _indices(path, first.fields if first else (), selection)
    for number, fields, problem in rows:
        if problem or len(fields) <= max(indices):
            yield Row(number, (), problem or (NOT_A_ROW if any(fields) else EMPTY))
        else:
            yield Row(number, tuple(fields[index] for index in indices))


def _indices(path: Path, header: Sequence[str], selection: ColumnSelection) -> list[int]:
    indices: list[int] = []
    for column in selection.columns:
        if isinstance(column, int):
            indices.append(column)
        elif column in header:
            indices.append(list(header).index(column))
        else:
            shown = ", ".join(repr(name[:20]) for name in header[:6])
            raise DataError(
                f"{path} has no column {column!r} in its first line ({shown}); "
                "give the names of its columns, or their numbers from 0 if it has no header"
            )
    return indices


def _jsonl(path: Path, selection: ColumnSelection, longest: int) -> Iterator[Row]:
    """One JSON object per line; the columns are its keys."""
    _check_by_name(path, selection, "JSONL", "keys")
    return (_json_row(line, selection.columns, longest) for line in read_lines(path, longest))


def _arrow(path: Path, selection: ColumnSelection, longest: int) -> Iterator[Row]:
    """Rows of typed columns: strings, numbers and booleans."""
    _check_by_name(path, selection, "Parquet or Arrow", "names")
    rows = read_columns(path, [str(name) for name in selection.columns])
    return (_typed_row(number, values, longest) for number, values in enumerate(rows, start=1))


def _check_by_name(path: Path, selection: ColumnSelection, kind: str, what: str) -> None:
    if not selection.by_name:
        raise SettingError(
            f"{path} is {kind}, whose columns have no numbers {selection.columns}; give their {what} as "
            "data.columns, or as data.text_column and data.label_column"
        )


def _typed_row(number: int, values: Sequence[Any], longest: int) -> Row:
    """A row of strings, numbers and booleans."""
    fields = tuple(_as_text(value) for value in values)
    if None in fields:
        return Row(number, (), NOT_A_ROW)
    texts = tuple(map(str, fields))
    is_long = any(len(text) > longest or len(text.encode(errors="replace")) > longest for text in texts)
    return Row(number, texts, OVER_LONG if is_long else _json_problem("".join(texts)))


def _json_row(line: Line, keys: Sequence[Column], longest: int) -> Row:
    if line.problem or not line.text.strip():
        return Row(line.number, ("",) * len(keys), line.problem)
    try:
        record = json.loads(line.text)
    except (ValueError, RecursionError):
        return Row(line.number, (), NOT_JSON)
    if not isinstance(record, dict):
        return Row(line.number, (), NOT_JSON)
    return _typed_row(line.number, [record.get(key) for key in keys], longest)


def _json_problem(text: str) -> str | None:
    """Why a JSON string is unusable: its escapes can encode a NUL or half a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return NOT_UTF8
    return NUL if "\0" in text else None


def _as_text(value: Any) -> str | None:
    """A string, number or boolean as text; None for other values."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int | float) else None


FORMATS: Registry[Callable[[Path, ColumnSelection, int], Iterator[Row]]] = Registry(
    "table format", {"tsv": _tsv, "csv": _csv, "jsonl": _jsonl, "parquet": _arrow, "arrow": _arrow}
)
