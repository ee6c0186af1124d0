"""What a person sees while a model learns."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from regard.runs.display import LiveDisplay, PlainLines, duration, make_display
from regard.training.events import Finished, Resumed, Saved, StepDone, Validated, Validation

FOUND = Validation({"loss": 1.25, "bits_per_character": 1.8}, samples=["ein [Hund]\n→ a dog"])
EVENTS = [
    Resumed(2, Path("run/checkpoints/step-2"), ["steps 4, now 9"], 2),
    *(StepDone(step, 0, 2.9, 1e-3, 0.5, 1000, 0.5, 0.041, 2.5) for step in (3, 4)),
    Validated(
        4, Validation({"loss": 1.25, "bits_per_character": 1.8}, samples=["ein [Hund]\n→ a dog"]), True, 75
    ),
    Saved(4, Path("run/checkpoints/step-4"), 0.1),
    Finished(4, "patience"),
]
SEEN = [
    "4/9", "loss 2.5000", "tokens/s 2,000", "padding 4.1 %", "loss 1.25, bits per character 1.8",
    "(best so far)", "→ a dog", "ein [Hund]", "steps 4, now 9", "no better for long",
]  # fmt: skip


def test_plain_lines_say_everything_without_a_terminals_codes(monkeypatch):
    monkeypatch.setattr("regard.runs.display.LINE_EVERY", 0.0)
    stream = io.StringIO()
    display = PlainLines(9, stream)
    for event in EVENTS:
        display(event)
    display.close()
    printed = stream.getvalue()
    assert [text for text in SEEN if text not in printed] == []
    assert "\x1b" not in printed
    assert "saved run/checkpoints/step-4" in printed.replace("\\", "/")


def test_plain_lines_come_now_and_then():
    stream = io.StringIO()
    display = PlainLines(1000, stream)
    for step in range(1, 500):
        display(StepDone(step, 0, 2.9, 1e-3, 0.5, 1000, 0.5, None, 2.5))
    assert stream.getvalue().count("\n") == 1


def test_the_live_display_shows_the_same():
    stream = io.StringIO()
    display = LiveDisplay(9, Console(file=stream, force_terminal=True, width=200, color_system=None))
    for event in EVENTS:
        display(event)
    display.close()
    printed = stream.getvalue()
    assert [text for text in SEEN if text not in printed] == []


def test_the_figures_stand_below_the_bar():
    stream = io.StringIO()
    display = LiveDisplay(9, Console(file=stream, force_terminal=True, width=60, color_system=None))
    display(EVENTS[1])
    display.close()
    assert any(line.strip().startswith("step") for line in stream.getvalue().splitlines())


def test_without_a_terminal_lines_are_plain():
    assert isinstance(make_display(1), PlainLines)


@pytest.mark.parametrize(("seconds", "words"), [(4.21, "4.2 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_a_duration_is_said_as_people_do(seconds, words):
    assert duration(seconds) == words


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, text):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_terminal_that_was_closed_ends_nothing():
    live = LiveDisplay(9, Console(file=Gone(), force_terminal=True))
    for display in (PlainLines(9, Gone()), live):
        display.say(["a line"])
        for event in EVENTS:
            display(event)
        display.close()
