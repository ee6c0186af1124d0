"""Text to learn from: parallel, plain or labelled, checked and filtered as it streams by.

A corpus can be iterated again and again and is never held in memory. Each pass fills a fresh `report`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from regard.errors import DataError
from regard.settings import Settings
from regard.text.columns import Column, Wanted, kind_of, read_rows
from regard.text.duplicates import SeenTexts
from regard.text.lines import EMPTY, Line, Paths, files_digest, find_files, read_lines

SHOWN_PLACES = 5


class Place(NamedTuple):
    """A line of a file, counted from 1 as editors do."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Mentions:
    """How often something happened, and where first."""

    count: int = 0
    places: list[Place] = field(default_factory=list)

    def add(self, place: Place) -> None:
        """Count one more, remembering the place while there is room."""
        self.count += 1
        if len(self.places) < SHOWN_PLACES:
            self.places.append(place)

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.places) else ""
        return f"{self.count:,} ({', '.join(map(str, self.places))}{more})"


@dataclass
class Report:
    """Examples read, kept, skipped and shortened; `str(report)` is a short text for people.

    While a corpus is read, `place` is where its latest example stands.
    """

    read: int = 0
    kept: int = 0
    skipped: dict[str, Mentions] = field(default_factory=dict)
    shortened: Mentions = field(default_factory=Mentions)
    place: Place = field(default=Place("", 0), compare=False)

    def skip(self, reason: str, place: Place) -> None:
        """Count an example that was left out."""
        self.skipped.setdefault(reason, Mentions()).add(place)

    def drop(self, reason: str, place: Place) -> None:
        """Count an example as left out after all, though it was kept before."""
        self.kept -= 1
        self.skip(reason, place)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values, for metrics and manifests."""
        return {
            "read": self.read,
            "kept": self.kept,
            "skipped": {reason: _plain(mentions) for reason, mentions in self.skipped.items()},
            "shortened": _plain(self.shortened),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Report:
        """The report that `to_json` wrote."""
        skipped = {reason: _mentions(plain) for reason, plain in values["skipped"].items()}
        return cls(values["read"], values["kept"], skipped, _mentions(values["shortened"]))

    def __str__(self) -> str:
        left_out = sum(mentions.count for mentions in self.skipped.values())
        lines = [f"{self.read:,} read, {self.kept:,} kept, {left_out:,} skipped"]
        lines += [f"  {reason}: {mentions}" for reason, mentions in self.skipped.items()]
        if self.shortened.count:
            lines.append(f"  kept but shortened: {self.shortened}")
        return "\n".join(lines)


def _plain(mentions: Mentions) -> dict[str, Any]:
    return {"count": mentions.count, "places": [list(place) for place in mentions.places]}


def _mentions(values: dict[str, Any]) -> Mentions:
    return Mentions(values["count"], [Place(*place) for place in values["places"]])


TOO_SHORT = "too short"
TOO_LONG = "too long"
UNEVEN = "length ratio"
DUPLICATE = "duplicate"

_WHOLE_NUMBER = re.compile(r"-?\d{1,4000}")  # Python converts no more than 4,300 digits


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class Example(NamedTuple):
    """A text and its label."""

    text: str
    label: str


class Filters(Settings):
    """Which training examples are left out. Of validation and test text, only unusable lines are left out."""

    bad: Literal["skip", "error"] = "skip"
    """What happens at an unusable line: not UTF-8, NUL, empty, too long, or a broken row.

    `skip` leaves it out and counts it. `error` stops with its file and line number. Empty lines of running
    text are text.
    """
    longest_line: int = Field(default=1_000_000, ge=1)
    """Longest usable line, and longest field of a CSV file, in bytes. Running text may have longer lines."""
    unit: Literal["words", "characters"] = "words"
    """What `min_length`, `max_length` and `max_ratio` count: words between spaces, or characters.

    Characters are for scripts without spaces.
    """
    min_length: int | None = Field(default=None, ge=1)
    """Examples with a shorter text are left out."""
    max_length: int | None = Field(default=None, ge=1)
    """Examples with a longer text are left out."""
    max_ratio: float | None = Field(default=None, ge=1)
    """Pairs are left out if one side, either one, is more than this many times longer than the other."""
    drop_duplicates: bool = False
    """Whether an example that occurred before is left out: the same pair, or the same text and label."""


class Record(NamedTuple):
    """Texts to be judged together: the two sides of a pair, a text and its label, or one line."""

    place: Place
    fields: tuple[str, ...]
    problem: str | None


class ParallelText:
    """Pairs from two sets of files that match line by line, or from one set of tables with two columns.

    `columns`, `header` and `format` concern tables only; columns.py states the rule for headers. Without a
    format each file's name decides, and a name that does not say it is that of a TSV file.
    """

    def __init__(
        self,
        source: Paths,
        target: Paths | None = None,
        filters: Filters | None = None,
        columns: tuple[Column, Column] = (0, 1),
        header: bool | None = None,
        format: str | None = None,
    ):
        self.filters = filters or Filters()
        self.report = Report()
        self._source = find_files(source)
        self._formats = [format or kind_of(path, "tsv") for path in self._source]
        self._target = find_files(target) if target is not None else None
        self._wanted = Wanted(columns, header)
        if self._target is not None and len(self._source) != len(self._target):
            raise DataError(
                f"{len(self._source)} source files but {len(self._target)} target files; they go in pairs"
            )

    def __iter__(self) -> Iterator[Pair]:
        self.report = Report()
        for source, target in _judged(self._records(), self.filters, self.report, measured=2):
            yield Pair(source, target)

    def sources(self) -> Iterator[str]:
        """The source of every line or row, also of those that are left out; "" where it cannot be used."""
        for record in self._records():
            source = record.fields[0] if record.fields else ""
            yield "" if "\0" in source or not source.strip() else source

    def identity(self) -> str:
        """A digest of the files and of every setting that decides what is kept."""
        files = self._source + (self._target or [])
        kinds = "tsv" if self._target is not None else " ".join(sorted(set(self._formats)))
        return _digest(
            "parallel", files_digest(files), len(files), self._wanted, kinds, self.filters.canonical()
        )

    def _records(self) -> Iterator[Record]:
        longest = self.filters.longest_line
        if self._target is None:
            tables = zip(self._source, self._formats, strict=True)
            return chain.from_iterable(_rows(path, self._wanted, kind, longest) for path, kind in tables)
        files = zip(self._source, self._target, strict=True)
        return chain.from_iterable(_side_by_side(source, target, longest) for source, target in files)


class LabelledText:
    """Labelled texts from TSV, CSV or JSONL files; columns.py states the rule for headers."""

    def __init__(
        self,
        files: Paths,
        text: Column = "text",
        label: Column = "label",
        header: bool | None = None,
        format: str | None = None,
        filters: Filters | None = None,
    ):
        self.filters = filters or Filters()
        self.report = Report()
        self._files = find_files(files)
        self._wanted = Wanted((text, label), header)
        self._format = format

    def __iter__(self) -> Iterator[Example]:
        self.report = Report()
        for text, label in _judged(self._records(), self.filters, self.report, measured=1):
            yield Example(text, label.strip())

    def identity(self) -> str:
        """A digest of the files and of every setting that decides what is kept."""
        return _digest(
            "labelled", files_digest(self._files), self._wanted, self._format, self.filters.canonical()
        )

    def _records(self) -> Iterator[Record]:
        longest = self.filters.longest_line
        return chain.from_iterable(_rows(path, self._wanted, self._format, longest) for path in self._files)


class PlainText:
    """Lines of plain text, each an example of its own; RunningText is for text that runs on."""

    def __init__(self, files: Paths, filters: Filters | None = None):
        self.filters = filters or Filters()
        self.report = Report()
        self.files = find_files(files)

    def __iter__(self) -> Iterator[str]:
        self.report = Report()
        for (text,) in _judged(self._records(), self.filters, self.report, measured=1):
            yield text

    def identity(self) -> str:
        """A digest of the files and of every setting that decides what is kept."""
        return _digest("plain", files_digest(self.files), self.filters.canonical())

    def _records(self) -> Iterator[Record]:
        for path in self.files:
            for line in read_lines(path, self.filters.longest_line):
                yield Record(Place(str(path), line.number), (line.text,), line.problem)


def label_names(examples: Iterable[Example]) -> list[str]:
    """The different labels in order: by value where all are whole numbers, else by letters."""
    names = {example.label for example in examples}
    if all(_WHOLE_NUMBER.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: (int(name), name))  # 1 and 01 are two labels
    return sorted(names)


def unusable(place: Place, problem: str) -> DataError:
    """The error for a line that cannot be used, where the caller asked for one."""
    return DataError(f'{place}: {problem}; mend it, or leave such lines out with bad = "skip"')


def _rows(path: Path, wanted: Wanted, kind: str | None, longest: int) -> Iterator[Record]:
    for number, fields, problem in read_rows(path, wanted, kind, longest):
        yield Record(Place(str(path), number), fields, problem)


def _side_by_side(source: Path, target: Path, longest: int) -> Iterator[Record]:
    lefts, rights = read_lines(source, longest), read_lines(target, longest)
    count = 0
    for left in lefts:
        right = next(rights, None)
        if right is None:
            raise _unequal(source, 1 + count + _count(lefts), target, count)
        count += 1
        blamed = source if left.problem or not right.problem else target
        yield Record(Place(str(blamed), count), (left.text, right.text), left.problem or right.problem)
    surplus = _count(rights)
    if surplus:
        raise _unequal(source, count, target, count + surplus)


def _count(lines: Iterator[Line]) -> int:
    return sum(1 for _ in lines)


def _unequal(source: Path, left: int, target: Path, right: int) -> DataError:
    return DataError(
        f"{source} has {left:,} lines but {target} has {right:,}; parallel files must match line by line"
    )


def _judged(
    records: Iterator[Record], filters: Filters, report: Report, measured: int
) -> Iterator[tuple[str, ...]]:
    """The fields of the records that pass; the first `measured` of them are text with a length."""
    seen = SeenTexts()
    for place, fields, problem in records:
        report.read += 1
        bad = problem or (EMPTY if any(not field.strip() for field in fields) else None)
        if bad and filters.bad == "error":
            raise unusable(place, bad)
        reason = bad or _reason(fields[:measured], filters)
        if reason is None and filters.drop_duplicates and not seen.add(*fields):
            reason = DUPLICATE
        if reason is None:
            report.kept += 1
            report.place = place
            yield fields
        else:
            report.skip(reason, place)


def _reason(texts: tuple[str, ...], filters: Filters) -> str | None:
    if filters.min_length is None and filters.max_length is None and filters.max_ratio is None:
        return None
    lengths = [len(text.split()) if filters.unit == "words" else len(text) for text in texts]
    shortest, longest = min(lengths), max(lengths)
    if filters.min_length is not None and shortest < filters.min_length:
        return TOO_SHORT
    if filters.max_length is not None and longest > filters.max_length:
        return TOO_LONG
    if filters.max_ratio is not None and longest > filters.max_ratio * shortest:
        return UNEVEN
    return None


def _digest(*parts: object) -> str:
    return sha256("\n".join(map(str, parts)).encode()).hexdigest()
