"""Text into the commands that use a model, and answers out: one text, or lines that stream."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

LONGEST_LINE = 1 << 26  # bytes; a model reads less, but may be asked to split
LINE_EVERY = 10.0  # seconds between two plain lines about the progress


class Lines:
    """What a command was given to read and where its answers go.

    One text has its answer as it is, a column of it on each line. Lines have one line each: columns with
    tabs between, line breaks of an answer as spaces.
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
        self._waiting: deque[int] = deque()  # words of the lines that have no answer yet

    @property
    def window(self) -> int:
        """How many lines are read before any is answered: one where a person types them."""
        from regard.inference.windows import WINDOW

        typed = self._file is None and sys.stdin is not None and sys.stdin.isatty()
        return self._window or (1 if typed else WINDOW)

    @property
    def texts(self) -> str | Iterator[str]:
        """The text, or the lines one by one."""
        return self._read() if self.text is None else self.text

    def answer(self, answers: Any, show: Callable[[Any], list[str]]) -> None:
        """Print the answer to the text, or each line's as it comes."""
        with self._opened() as output:
            if self.text is not None:
                print(*show(answers), sep="\n", file=output)
                return
            for each in self._followed(answers):
                print(_one_row(show(each)), file=output, flush=True)

    def say(self, pieces: Iterator[str], before: str = "") -> None:
        """Print pieces of one text as they come."""
        with self._opened() as output:
            print(before, end="", file=output)
            for piece in pieces:
                print(piece, end="", file=output, flush=True)
            print(file=output)

    def save(self, vectors: Any, width: int) -> None:
        """Write vectors as an array of numpy, a row for each text; no text, no row."""
        import numpy as np

        assert self._out is not None
        self._out.touch()  # what cannot be written is found before the work; what is there stays till then
        if self.text is None:
            found = list(self._followed(vectors))
            vectors = np.stack(found) if found else np.empty((0, width), np.float32)
        np.save(self._out, vectors)

    def _followed(self, answers: Any) -> Iterator[Any]:
        """The answers to lines one by one, and how far they are."""
        with _progress(self._out is not None) as advance:
            for each in answers:
                yield each
                advance(self._waiting.popleft())

    def _opened(self) -> AbstractContextManager[IO[str]]:
        if self._out is None:
            return nullcontext(_stdout())
        return self._out.open("w", encoding="utf-8", newline="\n")

    def _read(self) -> Iterator[str]:
        from regard.errors import DataError, UsageError
        from regard.text.lines import NUL, read_lines, read_stream

        if self._file is None:
            if sys.stdin is None:
                raise UsageError("stdin is closed, so - has nothing to read; give a text, or --file FILE")
            lines = read_stream(sys.stdin.buffer, "stdin", LONGEST_LINE)
        else:
            lines = read_lines(self._file, LONGEST_LINE)
        for line in lines:
            if line.problem not in (None, NUL):
                raise DataError(f"line {line.number} of {self._file or 'stdin'}: {line.problem}")
            self._waiting.append(len(line.text.split()))
            yield line.text


def parts_named(parts: list[str] | None) -> list[Any]:
    """Heads as cross.1.0, or parts by name, as watch takes them."""
    return [_head(part) or part for part in parts or []]


def as_json(answer: Any) -> list[str]:
    """An answer as one line of JSON."""
    import json

    return [json.dumps(answer.as_data(), ensure_ascii=False, allow_nan=False)]


def _head(part: str) -> tuple[str, int, int] | None:
    kind, *numbers = part.split(".")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return None
    return kind, int(numbers[0]), int(numbers[1])


def _stdout() -> IO[str]:
    """Where a program reads the answers, they are UTF-8 as the lines are, whatever the locale."""
    if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    return sys.stdout


def _one_row(columns: list[str]) -> str:
    """Columns on one line; where there are several, a tab is nothing but their border."""
    from regard.text.lines import one_line

    lines = map(one_line, columns)
    return next(lines) if len(columns) == 1 else "\t".join(line.replace("\t", " ") for line in lines)


class Pace:
    """How many lines and words are done, and how fast."""

    def __init__(self):
        self.lines = self.words = 0
        self.begun = time.monotonic()

    def add(self, words: int) -> None:
        """A line of so many words is done."""
        self.lines, self.words = self.lines + 1, self.words + words

    def __str__(self) -> str:
        speed = self.words / max(time.monotonic() - self.begun, 1e-3)
        return f"{self.lines:,} lines, {self.words:,} words, {speed:,.0f} words/s"


@contextmanager
def _progress(to_file: bool) -> Iterator[Callable[[int], None]]:
    """Words a second on stderr: a bar on a terminal, and without one a line now and then.

    Nothing where a person sees the answers themselves, nor in the middle of a pipe.
    """
    pace = Pace()
    if not to_file and (sys.stdout.isatty() or not sys.stderr.isatty()):
        yield pace.add
        return
    if not sys.stderr.isatty():
        yield _now_and_then(pace)
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


def _now_and_then(pace: Pace) -> Callable[[int], None]:
    """Print how far it is, the first time after a while: short work says nothing."""
    due = pace.begun + LINE_EVERY

    def advance(words: int) -> None:
        nonlocal due
        pace.add(words)
        if time.monotonic() >= due:
            due = time.monotonic() + LINE_EVERY
            print(pace, file=sys.stderr, flush=True)

    return advance


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    import json

    print(json.dumps(value, allow_nan=False, ensure_ascii=False))
