"""Input and output of the commands that use a model: one text, or a stream of lines."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from regard import ranks

if TYPE_CHECKING:
    from regard.text.lines import Line

LONGEST_LINE = 1 << 26  # bytes
REPORT_EVERY = 10.0  # seconds between two progress lines without a terminal


class Lines:
    """The input of a command that uses a model, and its output.

    The answer to one text is printed as it is, one column per line. The answer to a line is one line: its
    columns separated by tabs, its line breaks replaced by spaces.
    """

    def __init__(self, text: str | None, file: Path | None, out: Path | None, window: int | None = None):
        from regard.errors import UsageError

        if (text is None) == (file is None):
            raise UsageError("give one thing to read: a text, - for lines from stdin, or --file FILE")
        if file is not None and out is not None and out.exists() and out.samefile(file):
            raise UsageError(f"--out ({out}) is the file that is read; choose another")
        self.text = None if text == "-" else text
        self._file, self._out = file, out
        self._window = window
        self._unanswered: deque[int] = deque()  # the number of words of each line without an answer

    @property
    def window(self) -> int:
        """How many lines are read before the first is answered: one if a person types them."""
        from regard.inference.windows import WINDOW

        typed = self._file is None and sys.stdin is not None and sys.stdin.isatty()
        return self._window or (1 if typed else WINDOW)

    @property
    def texts(self) -> str | Iterator[str]:
        """The text, or an iterator over the lines."""
        return self._read() if self.text is None else self.text

    def answer(self, answers: Any, columns: Callable[[Any], list[str]]) -> None:
        """Print the answer to the text, or the answers to the lines as they come."""
        with ranks.joined(), self._opened() as output:
            if self.text is not None:
                print(*columns(answers), sep="\n", file=output)
                return
            for answer in self._with_progress(answers):
                print(_one_row(columns(answer)), file=output, flush=True)

    def print_stream(self, pieces: Iterator[str], before: str = "") -> None:
        """Print the pieces of one text as they come."""
        with self._opened() as output:
            print(before, end="", file=output)
            for piece in pieces:
                print(piece, end="", file=output, flush=True)
            print(file=output)

    def save(self, vectors: Any, width: int) -> None:
        """Write the vectors as a numpy array, one row per text."""
        import numpy as np

        assert self._out is not None
        self._out.touch()  # an unwritable path fails before the work; the content stays until it is done
        with ranks.joined():
            if self.text is None:
                rows = list(self._with_progress(vectors))
                vectors = np.stack(rows) if rows else np.empty((0, width), np.float32)
        if not ranks.world().rank:
            np.save(self._out, vectors)

    def _with_progress(self, answers: Any) -> Iterator[Any]:
        """The answers to the lines, with the progress on stderr."""
        with _progress(self._out is not None) as advance:
            for answer in answers:
                yield answer
                advance(self._unanswered.popleft())

    def _opened(self) -> AbstractContextManager[IO[str]]:
        if ranks.world().rank:
            return Path(os.devnull).open("w", encoding="utf-8")
        if self._out is None:
            return nullcontext(_stdout())
        return self._out.open("w", encoding="utf-8", newline="\n")

    def _read(self) -> Iterator[str]:
        for text in lines_of_stdin() if self._file is None else _lines_of(self._file):
            self._unanswered.append(len(text.split()))
            yield text


def lines_of_stdin() -> Iterator[str]:
    """The lines of stdin; raise if it is closed, or if several processes would share it."""
    from regard.errors import UsageError
    from regard.text.lines import read_stream

    if ranks.world().size > 1:
        raise UsageError("- gives stdin to one process, and torchrun started several; give --file FILE")
    if sys.stdin is None:
        raise UsageError("stdin is closed, so - has nothing to read; give a text, or --file FILE")
    yield from _texts(read_stream(sys.stdin.buffer, "stdin", LONGEST_LINE), "stdin")


def _lines_of(file: Path) -> Iterator[str]:
    from regard.text.lines import read_lines

    yield from _texts(read_lines(file, LONGEST_LINE), str(file))


def _texts(lines: Iterator[Line], name: str) -> Iterator[str]:
    from regard.errors import DataError
    from regard.text.lines import NUL

    for line in lines:
        if line.problem not in (None, NUL):
            raise DataError(f"line {line.number} of {name}: {line.problem}")
        yield line.text


def parts_named(parts: list[str] | None) -> list[Any]:
    """The parts that `watch` takes: heads from names such as cross.1.0, other parts by name."""
    return [_head(part) or part for part in parts or []]


def as_json(answer: Any) -> list[str]:
    """An answer as one line of JSON."""
    import json

    return [json.dumps(answer.as_dict(), ensure_ascii=False, allow_nan=False)]


def _head(part: str) -> tuple[str, int, int] | None:
    kind, *numbers = part.split(".")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return None
    return kind, int(numbers[0]), int(numbers[1])


def _stdout() -> IO[str]:
    """The standard output; for programs it is UTF-8, as the input is, whatever the locale."""
    if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    return sys.stdout


def _one_row(columns: list[str]) -> str:
    """Columns on one line, separated by tabs; tabs inside of several columns become spaces."""
    from regard.text.lines import one_line

    lines = map(one_line, columns)
    return next(lines) if len(columns) == 1 else "\t".join(line.replace("\t", " ") for line in lines)


class Pace:
    """The number of lines and words answered, and the words per second."""

    def __init__(self):
        self.lines = self.words = 0
        self.begun = time.monotonic()

    def add(self, words: int) -> None:
        """Count a line of so many words."""
        self.lines, self.words = self.lines + 1, self.words + words

    def __str__(self) -> str:
        speed = self.words / max(time.monotonic() - self.begun, 1e-3)
        return f"{self.lines:,} lines, {self.words:,} words, {speed:,.0f} words/s"


@contextmanager
def _progress(to_file: bool) -> Iterator[Callable[[int], None]]:
    """Show the words per second on stderr: a progress bar on a terminal, otherwise a line at intervals.

    Show nothing if the answers go to a terminal, or if both outputs are piped.
    """
    pace = Pace()
    if ranks.world().rank or (not to_file and (sys.stdout.isatty() or not sys.stderr.isatty())):
        yield pace.add
        return
    if not sys.stderr.isatty():
        yield _print_at_intervals(pace)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading")

        def advance(words: int) -> None:
            pace.add(words)
            bar.update(task, description=str(pace))

        yield advance


def _print_at_intervals(pace: Pace) -> Callable[[int], None]:
    """Print the progress every REPORT_EVERY seconds."""
    due = pace.begun + REPORT_EVERY

    def advance(words: int) -> None:
        nonlocal due
        pace.add(words)
        if time.monotonic() >= due:
            due = time.monotonic() + REPORT_EVERY
            print(pace, file=sys.stderr, flush=True)

    return advance


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    import json

    print(json.dumps(value, allow_nan=False, ensure_ascii=False))
