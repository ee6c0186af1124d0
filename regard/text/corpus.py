"""Training text: parallel, plain or labelled, validated and filtered while it is read.

A corpus is iterated any number of times and is not held in memory. Each pass writes a new `report`.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from regard.errors import DataError
from regard.settings import Settings
from regard.text.columns import Column, ColumnSelection, format_of, read_rows
from regard.text.lines import EMPTY, Line, Paths, entry_numbers, files_digest, find_files, read_lines

SHOWN_LOCATIONS = 5


class Location(NamedTuple):
    """A line of a file, numbered from 1, and the entry of the list of files that the file belongs to."""

    file: str
    line: int
    entry: int = 0

    def as_list(self) -> list[str | int]:
        """The location as JSON values; the first entry is left out."""
        return [*self] if self.entry else [self.file, self.line]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Occurrences:
    """A count, with the first few locations."""

    count: int = 0
    locations: list[Location] = field(default_factory=list)

    def add(self, location: Location) -> None:
        """Count one occurrence."""
        self.count += 1
        if len(self.locations) < SHOWN_LOCATIONS:
            self.locations.append(location)

    def as_dict(self) -> dict[str, Any]:
        """The occurrences as JSON values."""
        return {"count": self.count, "places": [place.as_list() for place in self.locations]}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Occurrences:
        """The occurrences that `as_dict` wrote."""
        return cls(values["count"], [Location(*location) for location in values["places"]])

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.locations) else ""
        return f"{self.count:,} ({', '.join(map(str, self.locations))}{more})"


@dataclass
class Report:
    """The numbers of examples read, kept, skipped and truncated; `str(report)` is a short text.

    While a corpus is read, `location` is that of its latest example. `tokens` has the tokens of the first
    side, for each entry of the list of files, after the corpus was encoded.
    """

    read: int = 0
    kept: int = 0
    skipped: dict[str, Occurrences] = field(default_factory=dict)
    shortened: Occurrences = field(default_factory=Occurrences)
    location: Location = field(default=Location("", 0), compare=False)
    tokens: list[int] = field(default_factory=list, compare=False)

    def skip(self, reason: str, location: Location) -> None:
        """Count a skipped example."""
        self.skipped.setdefault(reason, Occurrences()).add(location)

    def drop(self, reason: str, location: Location) -> None:
        """Count an example as skipped that was counted as kept before."""
        self.kept -= 1
        self.skip(reason, location)

    def count(self, entry: int, tokens: int) -> None:
        """Count encoded tokens of an entry of the list of files."""
        self.tokens += [0] * (entry + 1 - len(self.tokens))
        self.tokens[entry] += tokens

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON values, for metrics and manifests."""
        several = {"tokens": self.tokens} if len(self.tokens) > 1 else {}
        return {
            **several,
            "read": self.read,
            "kept": self.kept,
            "skipped": {reason: skipped.as_dict() for reason, skipped in self.skipped.items()},
            "shortened": self.shortened.as_dict(),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Report:
        """The report that `as_dict` wrote."""
        skipped = {reason: Occurrences.from_dict(part) for reason, part in values["skipped"].items()}
        shortened = Occurrences.from_dict(values["shortened"])
        return cls(values["read"], values["kept"], skipped, shortened, tokens=list(values.get("tokens", [])))

    def __str__(self) -> str:
        count = sum(skipped.count for skipped in self.skipped.values())
        lines = [f"{self.read:,} read, {self.kept:,} kept, {count:,} skipped"]
        lines += [f"  {reason}: {skipped}" for reason, skipped in self.skipped.items()]
        if self.shortened.count:
            lines.append(f"  kept but shortened: {self.shortened}")
        return "\n".join(lines)


TOO_SHORT = "too short"
TOO_LONG = "too long"
UNEVEN = "length ratio"
DUPLICATE = "duplicate"

_BLOCK = 512  # digests in a block of SeenTexts
_INTEGER = re.compile(r"-?\d{1,4000}")  # Python converts no more than 4,300 digits


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class Example(NamedTuple):
    """A text and its label."""

    text: str
    label: str


class Filters(Settings):
    """Which training examples are left out; a validation split that is taken from them has none of these.

    Of validation and test files, only unusable lines are left out.
    """

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


class RawExample(NamedTuple):
    """An example before filtering: the two sides of a pair, a text and its label, or one line."""

    location: Location
    fields: tuple[str, ...]
    problem: str | None


class ParallelText:
    """Pairs from two sets of files that match line by line, or from one set of tables with two columns.

    `columns`, `header` and `format` apply to tables only; columns.py states the rule for headers. Without a
    format the ending of each file's name decides, and other endings mean TSV.
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
        self._source, self._entries = find_files(source), entry_numbers(source)
        self._formats = [format or format_of(path, "tsv") for path in self._source]
        self._target = find_files(target) if target is not None else None
        self._selection = ColumnSelection(columns, header)
        if self._target is not None and len(self._source) != len(self._target):
            raise DataError(
                f"{len(self._source)} source files and {len(self._target)} target files; give equally many"
            )

    def __iter__(self) -> Iterator[Pair]:
        self.report = Report()
        for source, target in _filtered(self._raw_examples(), self.filters, self.report, measured=2):
            yield Pair(source, target)

    def sources(self) -> Iterator[str]:
        """The source of every line or row, including skipped ones; "" if it is unusable."""
        for example in self._raw_examples():
            source = example.fields[0] if example.fields else ""
            yield "" if "\0" in source or not source.strip() else source

    def identity(self) -> str:
        """A digest of the files and of all settings that affect the examples."""
        files = self._source + (self._target or [])
        formats = "tsv" if self._target is not None else " ".join(sorted(set(self._formats)))
        selection, filters = self._selection.identity(), self.filters.canonical()
        return _digest("parallel", files_digest(files), len(files), selection, formats, filters)

    def _raw_examples(self) -> Iterator[RawExample]:
        longest = self.filters.longest_line
        if self._target is None:
            for path, format, entry in zip(self._source, self._formats, self._entries, strict=True):
                yield from _rows(path, self._selection, format, longest, entry)
        else:
            for source, target, entry in zip(self._source, self._target, self._entries, strict=True):
                yield from _aligned(source, target, longest, entry)


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
        self._files, self._entries = find_files(files), entry_numbers(files)
        self._selection = ColumnSelection((text, label), header)
        self._format = format

    def __iter__(self) -> Iterator[Example]:
        self.report = Report()
        for text, label in _filtered(self._raw_examples(), self.filters, self.report, measured=1):
            yield Example(text, label.strip())

    def identity(self) -> str:
        """A digest of the files and of all settings that affect the examples."""
        selection = self._selection.identity()
        return _digest(
            "labelled", files_digest(self._files), selection, self._format, self.filters.canonical()
        )

    def _raw_examples(self) -> Iterator[RawExample]:
        for path, entry in zip(self._files, self._entries, strict=True):
            yield from _rows(path, self._selection, self._format, self.filters.longest_line, entry)


class PlainText:
    """Lines of plain text, one example each; for continuous text see RunningText."""

    def __init__(self, files: Paths, filters: Filters | None = None):
        self.filters = filters or Filters()
        self.report = Report()
        self.files, self._entries = find_files(files), entry_numbers(files)

    def __iter__(self) -> Iterator[str]:
        self.report = Report()
        for (text,) in _filtered(self._raw_examples(), self.filters, self.report, measured=1):
            yield text

    def identity(self) -> str:
        """A digest of the files and of all settings that affect the examples."""
        return _digest("plain", files_digest(self.files), self.filters.canonical())

    def _raw_examples(self) -> Iterator[RawExample]:
        for path, entry in zip(self.files, self._entries, strict=True):
            for line in read_lines(path, self.filters.longest_line):
                yield RawExample(Location(str(path), line.number, entry), (line.text,), line.problem)


def label_names(examples: Iterable[Example]) -> list[str]:
    """The distinct labels, sorted by value if all are integers, otherwise alphabetically."""
    names = {example.label for example in examples}
    if all(_INTEGER.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: (int(name), name))  # 1 and 01 are two labels
    return sorted(names)


def unusable_line(location: Location, problem: str) -> DataError:
    """The error for an unusable line with `bad = "error"`."""
    return DataError(f'{location}: {problem}; correct it, or skip such lines with bad = "skip"')


def _rows(
    path: Path, selection: ColumnSelection, format: str | None, longest: int, entry: int
) -> Iterator[RawExample]:
    for number, fields, problem in read_rows(path, selection, format, longest):
        yield RawExample(Location(str(path), number, entry), fields, problem)


def _aligned(source: Path, target: Path, longest: int, entry: int) -> Iterator[RawExample]:
    sources, targets = read_lines(source, longest), read_lines(target, longest)
    count = 0
    for left in sources:
        right = next(targets, None)
        if right is None:
            raise _unequal(source, 1 + count + _count(sources), target, count)
        count += 1
        file = source if left.problem or not right.problem else target
        yield RawExample(
            Location(str(file), count, entry), (left.text, right.text), left.problem or right.problem
        )
    surplus = _count(targets)
    if surplus:
        raise _unequal(source, count, target, count + surplus)


def _count(lines: Iterator[Line]) -> int:
    return sum(1 for _ in lines)


def _unequal(source: Path, left: int, target: Path, right: int) -> DataError:
    return DataError(
        f"{source} has {left:,} lines but {target} has {right:,}; parallel files must match line by line"
    )


def _filtered(
    examples: Iterator[RawExample], filters: Filters, report: Report, measured: int
) -> Iterator[tuple[str, ...]]:
    """The fields of the examples that pass; length limits apply to the first `measured` fields."""
    seen = SeenTexts()
    for location, fields, problem in examples:
        report.read += 1
        bad = problem or (EMPTY if any(not field.strip() for field in fields) else None)
        if bad and filters.bad == "error":
            raise unusable_line(location, bad)
        reason = bad or _reason(fields[:measured], filters)
        if reason is None and filters.drop_duplicates and not seen.add(*fields):
            reason = DUPLICATE
        if reason is None:
            report.kept += 1
            report.location = location
            yield fields
        else:
            report.skip(reason, location)


class SeenTexts:
    """A set of texts, as sorted blocks of 64-bit digests: under 16 bytes per text, whatever its length.

    The probability that n different texts collide is about n^2 / 2^65: 1 in 30 million for a million texts,
    1 in 40 for a billion.
    """

    def __init__(self):
        self._blocks = [array("Q")]
        self._firsts = array("Q", [0])  # the smallest digest that each block may contain

    def add(self, *fields: str) -> bool:
        """Add a text of these fields; True if it is new."""
        digest = int.from_bytes(blake2b("\0".join(fields).encode(), digest_size=8).digest(), "big")
        block_index = bisect_right(self._firsts, digest) - 1
        block = self._blocks[block_index]
        index = bisect_left(block, digest)
        if index < len(block) and block[index] == digest:
            return False
        block.insert(index, digest)
        if len(block) == _BLOCK:
            self._split(block_index)
        return True

    def _split(self, index: int) -> None:
        block = self._blocks[index]
        upper = block[_BLOCK // 2 :]
        del block[_BLOCK // 2 :]
        self._blocks.insert(index + 1, upper)
        self._firsts.insert(index + 1, upper[0])


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
