"""Text into the commands that use a model, and answers out: one text, or lines that stream."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from regard.cli.builtin import folder_of

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model folder, or a run's, or demo.", callback=folder_of)
]
Text = Annotated[
    str | None,
    typer.Argument(metavar="[TEXT | -]", help="A text; - reads lines from stdin.", show_default=False),
]
File = Annotated[Path | None, typer.Option(metavar="FILE", help="Read lines from here.", show_default=False)]
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write here, not to stdout.", show_default=False)
]
Window = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Lines sorted by length together.", show_default=False)
]
Device = Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda, mps.")]
Dtype = Annotated[
    str | None, typer.Option(metavar="NAME", help="float32, or bfloat16 on accelerators.", show_default=False)
]
Threads = Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads.", show_default=False)]
Off = Annotated[
    list[str] | None,
    typer.Option(metavar="PART", help="Switch off a head, cross.1.0, or a part; may be given again."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print an object a line for programs.")]

LONGEST_LINE = 1 << 26  # bytes; a model reads less, but may be asked to split


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

        typed = self._file is None and sys.stdin.isatty()
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
            with _progress(self._out is not None) as advance:
                for each in answers:
                    print("\t".join(map(_one_line, show(each))), file=output, flush=True)
                    advance(self._waiting.popleft())

    def say(self, pieces: Iterator[str], before: str = "") -> None:
        """Print pieces of one text as they come."""
        with self._opened() as output:
            print(before, end="", file=output)
            for piece in pieces:
                print(piece, end="", file=output, flush=True)
            print(file=output)

    def save(self, vectors: Any) -> None:
        """Write vectors as an array of numpy, a row for each text."""
        import numpy as np

        assert self._out is not None
        np.save(self._out, vectors if self.text is not None else np.stack(list(vectors)))

    def _opened(self) -> AbstractContextManager[IO[str]]:
        if self._out is None:
            return nullcontext(sys.stdout)
        return self._out.open("w", encoding="utf-8", newline="\n")

    def _read(self) -> Iterator[str]:
        from regard.errors import DataError
        from regard.text.reading import NUL, read_lines, read_stream

        if self._file is None:
            lines = read_stream(sys.stdin.buffer, "stdin", LONGEST_LINE)
        else:
            lines = read_lines(self._file, LONGEST_LINE)
        for line in lines:
            if line.problem not in (None, NUL):
                raise DataError(f"line {line.number} of {self._file or 'stdin'}: {line.problem}")
            self._waiting.append(len(line.text.split()))
            yield line.text


def switched_off(parts: list[str] | None) -> list[Any]:
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


def _one_line(text: str) -> str:
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


@contextmanager
def _progress(to_file: bool) -> Iterator[Callable[[int], None]]:
    """A bar with words a second where a person watches and the answers go elsewhere."""
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not to_file):
        yield lambda words: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, done = bar.add_task("reading"), [0, 0]

        def advance(words: int) -> None:
            done[0], done[1] = done[0] + 1, done[1] + words
            speed = done[1] / max(bar.tasks[task].elapsed or 0.0, 1e-3)
            bar.update(task, description=f"{done[0]:,} lines, {done[1]:,} words, {speed:,.0f} words/s")

        yield advance
