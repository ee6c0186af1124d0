"""Running text: files as one continuous text with its line ends, for language models."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from regard.errors import DataError, SettingError
from regard.text.corpus import Filters, Location, Report, unusable_line
from regard.text.lines import Paths, entry_numbers, files_digest, find_files, read_blocks

CHUNK = 1 << 17


class Chunk(NamedTuple):
    """A part of a document; documents are numbered by file."""

    document: int
    text: str


class RunningText:
    """The text between two fractions of its characters, in chunks of about 130,000 characters.

    `start=0, stop=0.9` and `start=0.9, stop=1` divide the text without overlap or gap. Each file is a
    document, and a chunk belongs to one document. Empty lines are text. Lines may have any length, since they
    are read in blocks. Of the filters only those for unusable text apply, to each line or block.
    """

    def __init__(self, files: Paths, start: float = 0.0, stop: float = 1.0, filters: Filters | None = None):
        if not 0 <= start < stop <= 1:
            raise SettingError(f"start ({start}) must be below stop ({stop}), and both between 0 and 1")
        self.files, self.entries = find_files(files), entry_numbers(files)
        self.start = start
        self.stop = stop
        self.filters = filters or Filters()
        self.report = Report()

    def __iter__(self) -> Iterator[str]:
        return (chunk.text for chunk in self.chunks())

    def chunks(self) -> Iterator[Chunk]:
        """The text in chunks, with their documents."""
        self.report = Report()
        begin, end = 0, sys.maxsize
        if (self.start, self.stop) != (0, 1):  # else no pass is needed to count the characters
            begin, end = (int(fraction * self.characters) for fraction in (self.start, self.stop))
        for document, blocks in groupby(self._between(begin, end), key=lambda block: block.document):
            for text in _chunks(block.text for block in blocks):
                yield Chunk(document, text)

    def _between(self, begin: int, end: int) -> Iterator[Chunk]:
        position = 0
        for document, text in self._blocks(self.report):
            included = text[max(0, begin - position) : max(0, end - position)]
            position += len(text)
            if included:
                yield Chunk(document, included)
        if not position:
            raise self._no_text()

    @cached_property
    def characters(self) -> int:
        """The number of characters of the whole text; counting them takes one pass."""
        total = sum(len(block.text) for block in self._blocks(Report()))
        if not total:
            raise self._no_text()
        return total

    def _no_text(self) -> DataError:
        return DataError(f"{self.files[0]} contains no text; give another file")

    def identity(self) -> str:
        """A digest of the files and all settings that affect the text."""
        form = "running" if len(self.files) == 1 else "documents"
        return f"{form} {files_digest(self.files)} {self.start} {self.stop} {self.filters.canonical()}"

    def _blocks(self, report: Report) -> Iterator[Chunk]:
        for document, path in enumerate(self.files):
            open_line = 0  # the latest line of which a block was kept
            for number, text, problem in read_blocks(path, CHUNK):
                report.read += 1
                if problem is None:
                    report.kept += 1
                    yield Chunk(document, text)
                    open_line = number
                    continue
                if self.filters.bad == "error":
                    raise unusable_line(Location(str(path), number), problem)
                report.skip(problem, Location(str(path), number))
                if number == open_line and text.endswith("\n"):
                    yield Chunk(document, "\n")  # ends the line whose earlier blocks were kept


def _chunks(lines: Iterator[str]) -> Iterator[str]:
    # A chunk ends between two lines that are not blank, so that consecutive line ends stay together.
    chunk: list[str] = []
    size = 0
    for line in lines:
        may_end = line.strip() and chunk and chunk[-1].strip()
        if size >= CHUNK and (may_end or size >= 2 * CHUNK):
            yield "".join(chunk)
            chunk, size = [], 0
        chunk.append(line)
        size += len(line)
    if chunk:
        yield "".join(chunk)
