"""The display of a training run: a progress bar on a terminal, plain lines elsewhere.

A terminal or a pipe that is closed meanwhile shows nothing more; training goes on to its next checkpoint.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from regard.training.events import Event, Finished, Resumed, Saved, Saving, StepDone, Validated

LINE_EVERY = 10.0  # seconds between two plain lines about steps
SMOOTHED = 0.95  # how slowly the shown loss and speed follow


class Display(Protocol):
    """An observer that prints."""

    def __call__(self, event: Event) -> None:
        """Show an event."""
        ...

    def say(self, lines: Iterable[str]) -> None:
        """Print lines that stay."""
        ...

    def close(self) -> None:
        """End the display."""
        ...


class Pace:
    """Loss, speed and time left, smoothed over the latest steps."""

    def __init__(self, steps: int):
        self.steps = steps
        self.latest: StepDone | None = None
        self.loss = self.seconds = self.tokens = 0.0

    def add(self, event: StepDone) -> None:
        """Add a step."""
        kept = SMOOTHED if self.latest else 0.0
        self.loss = kept * self.loss + (1 - kept) * event.cross_entropy
        self.seconds = kept * self.seconds + (1 - kept) * event.seconds
        self.tokens = kept * self.tokens + (1 - kept) * event.tokens
        self.latest = event

    def figures(self) -> dict[str, str]:
        """The values to show, by name."""
        if self.latest is None:
            return {}
        padding = {} if self.latest.padding is None else {"padding": f"{100 * self.latest.padding:.1f} %"}
        return {
            "step": f"{self.latest.step:,}/{self.steps:,}",
            "loss": f"{self.loss:.4f}",
            "learning_rate": f"{self.latest.learning_rate:.2e}",
            "tokens/s": f"{self.tokens / max(self.seconds, 1e-9):,.0f}",
            **padding,
            "left": duration((self.steps - self.latest.step) * self.seconds),
        }


class PlainLines:
    """Plain lines for a file or a pipe: a step now and then."""

    def __init__(self, steps: int, stream: TextIO | None = None):
        self.pace, self.stream = Pace(steps), stream or sys.stderr
        self._next_line = 0.0

    def __call__(self, event: Event) -> None:
        """Print a step now and then, and everything else."""
        if isinstance(event, StepDone):
            self.pace.add(event)
            if time.monotonic() < self._next_line:
                return
            self._next_line = time.monotonic() + LINE_EVERY
            self.say(["  ".join(f"{name} {value}" for name, value in self.pace.figures().items())])
        else:
            self.say(sentences(event))

    def say(self, lines: Iterable[str]) -> None:
        """Print lines."""
        with suppress(OSError):
            for line in lines:
                print(line, file=self.stream, flush=True)

    def close(self) -> None:
        """Nothing to close."""


class LiveDisplay:
    """A progress bar, and the validations above it."""

    def __init__(self, steps: int, console: Console | None = None):
        self.pace = Pace(steps)
        self.console = console or Console(stderr=True)
        self.live = Live(console=self.console, get_renderable=self._view, refresh_per_second=4)
        self._started = False

    def __call__(self, event: Event) -> None:
        """Update the bar; print validations and saves above it."""
        if isinstance(event, StepDone):
            self.pace.add(event)
            if not self._started:
                self._started = True
                with suppress(OSError):
                    self.live.start()
        elif not isinstance(event, Saving | Saved):
            self.say(sentences(event))

    def say(self, lines: Iterable[str]) -> None:
        """Print lines above the bar."""
        with suppress(OSError):
            self.console.print(Text("\n".join(lines)))

    def close(self) -> None:
        """Stop the bar and leave its last values."""
        if self._started:
            with suppress(OSError):
                self.live.stop()

    def _view(self) -> RenderableType:
        done = self.pace.latest.step if self.pace.latest else 0
        named = [Text.assemble((name, "dim"), " ", value) for name, value in self.pace.figures().items()]
        lines = [Text("  ").join(named[:3]), Text("  ").join(named[3:])]  # each fits a narrow terminal
        bar = ProgressBar(total=self.pace.steps, completed=done)
        return Group(bar, Text(), *lines)  # a bar does not end its line by itself


def make_display(steps: int) -> Display:
    """A progress bar if stderr is a terminal, else plain lines."""
    return LiveDisplay(steps) if sys.stderr.isatty() else PlainLines(steps)


def sentences(event: Event) -> list[str]:
    """An event as text."""
    match event:
        case Validated(step, validation, is_best, seconds):
            scores = ", ".join(
                f"{name.replace('_', ' ')} {value:.4g}" for name, value in validation.scores.items()
            )
            mark = " (best so far)" if is_best else ""
            shown = [f"    {line}" for sample in validation.samples for line in sample.split("\n")]
            return [f"validation at {step:,}: {scores}{mark}, in {duration(seconds)}", *shown]
        case Saved(step, path):
            return [f"saved {path}"]
        case Resumed(step, path, changes):
            return [f"going on from step {step:,}, {path}", *(f"changed: {change}" for change in changes)]
        case Finished(step, reason):
            why = {"steps": "all steps are done", "patience": "no better for long", "signal": "a signal came"}
            return [f"finished at step {step:,}: {why.get(reason, reason)}"]
        case _:
            return []


def duration(seconds: float) -> str:
    """A duration: "2 h 05 min", "3 min 20 s", "4.2 s"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
