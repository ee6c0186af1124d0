"""Running text: files as one long text with its line ends, for models that continue it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from regard.errors import DataError, SettingError
from regard.text.corpus import Filters, unusable
from regard.text.reading import Paths, files_digest, find_files, read_lines
from regard.text.report import Place, Report

CHUNK = 1 << 17


class RunningText:
    """The text between two shares of its characters, in chunks of about a hundred thousand characters.

    `start=0, stop=0.9` and `start=0.9, stop=1` cut it in two without overlap or gap. Empty lines are
    text; of the filters only those of unusable lines apply. A chunk ends with a line; files run on.
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
        self.report = Report()
        return _chunks(self._between(int(self.start * self.characters), int(self.stop * self.characters)))

    def _between(self, begin: int, end: int) -> Iterator[str]:
        position = 0
        for line in self._lines(self.report):
            piece = line[max(0, begin - position) : max(0, end - position)]
            position += len(line)
            if piece:
                yield piece

    @cached_property
    def characters(self) -> int:
        """How many characters the whole text has; counting them takes a pass."""
        total = sum(map(len, self._lines(Report())))
        if not total:
            raise DataError(f"{self.files[0]} holds no text; give another file")
        return total

    def identity(self) -> str:
        """A digest of the files and of every setting that decides what is kept."""
        return f"running {files_digest(self.files)} {self.start} {self.stop} {self.filters.canonical()}"

    def _lines(self, report: Report) -> Iterator[str]:
        for path in self.files:
            for line in read_lines(path, self.filters.longest_line):
                report.read += 1
                place = Place(str(path), line.number)
                if line.problem is None:
                    report.kept += 1
                    yield line.text + "\n"
                elif self.filters.bad == "error":
                    raise unusable(place, line.problem)
                else:
                    report.skip(line.problem, place)


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
