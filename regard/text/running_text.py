"""Running text: files as one long text with its line ends, for models that continue it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from regard.errors import DataError, SettingError
from regard.text.corpus import Filters, Place, Report, unusable
from regard.text.lines import Paths, files_digest, find_files, read_blocks

CHUNK = 1 << 17


class Chunk(NamedTuple):
    """A stretch of text, and the number of the file it is of."""

    document: int
    text: str


class RunningText:
    """The text between two shares of its characters, in chunks of about a hundred thousand characters.

    `start=0, stop=0.9` and `start=0.9, stop=1` cut it in two without overlap or gap. Each file is a document,
    and a chunk is of one document. Empty lines are text, and a line may be of any length: it is read in
    blocks. Of the filters only those of unusable text apply, to a line or a block of one.
    """

    def __init__(self, files: Paths, start: float = 0.0, stop: float = 1.0, filters: Filters | None = None):
        if not 0 <= start < stop <= 1:
            raise SettingError(f"start ({start}) must be below stop ({stop}), both between 0 and 1")
        self.files = find_files(files)
        self.start = start
        self.stop = stop
        self.filters = filters or Filters()
        self.report = Report()

    def __iter__(self) -> Iterator[str]:
        return (chunk.text for chunk in self.chunks())

    def chunks(self) -> Iterator[Chunk]:
        """The text with the documents it is of."""
        self.report = Report()
        begin, end = (int(share * self.characters) for share in (self.start, self.stop))
        for document, pieces in groupby(self._between(begin, end), key=lambda piece: piece.document):
            for text in _chunks(piece.text for piece in pieces):
                yield Chunk(document, text)

    def _between(self, begin: int, end: int) -> Iterator[Chunk]:
        position = 0
        for document, text in self._pieces(self.report):
            piece = text[max(0, begin - position) : max(0, end - position)]
            position += len(text)
            if piece:
                yield Chunk(document, piece)

    @cached_property
    def characters(self) -> int:
        """How many characters the whole text has; counting them takes a pass."""
        total = sum(len(piece.text) for piece in self._pieces(Report()))
        if not total:
            raise DataError(f"{self.files[0]} holds no text; give another file")
        return total

    def identity(self) -> str:
        """A digest of the files and of every setting that decides what is kept."""
        form = "running" if len(self.files) == 1 else "documents"
        return f"{form} {files_digest(self.files)} {self.start} {self.stop} {self.filters.canonical()}"

    def _pieces(self, report: Report) -> Iterator[Chunk]:
        for document, path in enumerate(self.files):
            open_line = 0
            for number, text, problem in read_blocks(path, CHUNK):
                report.read += 1
                if problem is None:
                    report.kept += 1
                    yield Chunk(document, text)
                    open_line = number
                    continue
                if self.filters.bad == "error":
                    raise unusable(Place(str(path), number), problem)
                report.skip(problem, Place(str(path), number))
                if number == open_line and text.endswith("\n"):
                    yield Chunk(document, "\n")  # the end of a line whose beginning was kept


def _chunks(lines: Iterator[str]) -> Iterator[str]:
    # Cut where neither neighbour is blank, so that line ends which belong together stay in one piece.
    held: list[str] = []
    size = 0
    for line in lines:
        calm = line.strip() and held and held[-1].strip()
        if size >= CHUNK and (calm or size >= 2 * CHUNK):
            yield "".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line)
    if held:
        yield "".join(held)
