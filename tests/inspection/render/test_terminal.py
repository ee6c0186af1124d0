"""What the terminal shows: the digits are the weights, the width is kept, light is 0."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from rich.console import Console
from rich.text import Text

from regard.inspection.inspection import inspect
from regard.inspection.render.board import COLOURS, Board
from regard.inspection.render.heat_map import (
    Heat,
    _lightness,
    draw,
    painted,
    percent,
    shade,
    shade_of_difference,
)
from regard.inspection.render.terminal import (
    cell_line,
    show_head,
    show_layer,
    show_texts,
    show_word,
    show_word_over_heads,
)

from ..conftest import ENGLISH, FRENCH, inspected, subject


class Screen:
    """A board of some width, in colour or without, and what was written on it."""

    def __init__(self, width: int = 80, coloured: bool = False, encoding: str = "utf-8"):
        self.file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace", newline="")
        system = "truecolor" if coloured else None
        self.board = Board(
            Console(
                theme=COLOURS, highlight=False, width=width, file=self.file,
                force_terminal=coloured, color_system=system,
            )
        )  # fmt: skip

    @property
    def text(self) -> str:
        self.file.flush()
        return self.file.buffer.getvalue().decode()

    @property
    def lines(self) -> list[Text]:
        return [Text.from_ansi(line) for line in self.text.splitlines()]


def digits(line: str) -> list[str]:
    return re.findall(r"(?<!\S)(?:\d+|·)(?!\S)", line)


def test_the_digits_of_a_head_are_its_weights(words):
    seen, screen = inspected(words), Screen()
    show_head(screen.board, seen, "encoder", 1, 2)
    weights = seen.attention("encoder", 1, 2)
    for row, word in enumerate(seen.source.labels()):
        line = next(n for n in screen.text.splitlines() if n.split()[:1] == [word] and digits(n))
        assert digits(line) == [percent(w) for w in weights[row]] or word in ("The", "the")
    assert "Encoder attention, layer 1, head 2" in screen.text


def test_what_may_not_be_seen_is_left_blank(words):
    seen, screen = inspected(words), Screen()
    show_head(screen.board, seen, "decoder", 0, 1)
    rows = [line for line in screen.text.partition("Percent")[0].splitlines()[1:] if digits(line)]
    assert [len(digits(line)) for line in rows] == list(range(1, len(seen.target) + 1))
    assert "masked cells are empty" in " ".join(screen.text.split())


@pytest.mark.parametrize("kind", ["cross", "decoder"])
def test_a_row_of_the_decoder_says_which_word_is_written(words, kind):
    seen, screen = inspected(words), Screen()
    show_head(screen.board, seen, kind, 1, 0)
    for pair in ("<start> → L'", "L' → animal", "qu' → il", ". → <end>"):
        assert pair in screen.text


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("coloured", [False, True])
def test_no_line_is_wider_than_the_screen(pieces, width, coloured):
    seen, screen = inspected(pieces), Screen(width, coloured)
    board = screen.board
    show_texts(board, seen)
    for kind in seen.kinds:
        show_head(board, seen, kind, 1, 0)
        show_layer(board, seen, kind, 0, words=True)
        show_word_over_heads(board, seen, kind, 3, range(2))
        show_word(board, seen, kind, 1, 3, 3, words=True)
    assert max(line.cell_len for line in screen.lines) <= width


def test_labels_can_all_be_read_above_their_columns():
    names = ["a", "lengthy", "of", "extraordinary", "b", "word", "c"]
    heat = Heat(np.zeros((1, 7)), ["row"], names)
    *labels, row = [line.plain for line in draw(heat, 60)]
    starts = [match.start() for match in re.finditer("·", row)]
    for name, start in zip(names, starts, strict=True):
        shown = name if len(name) <= 12 else name[:11] + "…"
        alone = re.compile(rf"(?<!\S){re.escape(shown)}(?!\S)")
        line, at = next((n, found.start()) for n in labels if (found := alone.search(n)))
        assert at <= start < at + 5
        below = labels[labels.index(line) + 1 :]
        assert all(each[at] == "│" for each in below)


def test_light_is_nothing_and_dark_is_all():
    lightness = [_lightness(shade(n / 20)) for n in range(21)]
    assert lightness == sorted(lightness, reverse=True)
    assert lightness[0] > 0.9
    assert lightness[-1] < 0.05
    for number in range(21):
        for style in (painted(shade(number / 20)), painted(shade_of_difference(number / 10 - 1))):
            high, low = sorted((_lightness(style.color.name), _lightness(style.bgcolor.name)), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5  # letters can be read on every ground


def test_the_painted_ground_is_that_of_the_weight(words):
    seen, screen = inspected(words), Screen(coloured=True)
    show_word(screen.board, seen, "encoder", 1, 2, "it")
    weights = seen.attention("encoder", 1, 2)[7]
    line = next(line for line in screen.lines if "animal" in line.plain)
    for word in ("animal", "street", "it", "tired"):
        style = line.get_style_at_offset(screen.board.console, line.plain.index(f" {word} ") + 1)
        assert style.bgcolor.get_truecolor().hex == shade(float(weights[seen.source.find(word)[0]]))
        assert bool(style.underline) == (word == "it")


def test_small_maps_have_a_cell_for_each_weight(words):
    seen, plain, coloured = inspected(words), Screen(), Screen(coloured=True)
    show_layer(plain.board, seen, "encoder", 1)
    show_layer(coloured.board, seen, "encoder", 1)
    rows = [line.split() for line in plain.text.splitlines() if re.fullmatch(r"\s*([·\d]{13}\s*){4}", line)]
    assert len(rows) == 13
    for head in range(4):
        tenths = np.array([[0 if c == "·" else int(c) for c in row[head]] for row in rows])
        assert np.abs(tenths / 10 - seen.attention("encoder", 1, head)).max() <= 0.1
    assert coloured.text.count("▀") >= 4 * 13 * 6
    for head in range(4):
        assert f"head {head}" in plain.text


def test_a_screen_of_ascii_alone(words):
    screen = Screen(encoding="ascii")
    show_head(screen.board, inspected(words, target="il était"), "cross", 1, 0)
    show_layer(screen.board, inspected(words), "encoder", 1)
    assert screen.text.isascii()
    assert "<start> > il" in screen.text


def test_a_cell_in_one_line(words):
    steps = inspected(words).steps("encoder", 1, 2, "it")
    line = cell_line(steps, 1)
    assert line.startswith("q(it) · k(animal) = ")
    numbers = [steps["scores"].value[1], steps["scaled"].value[1]]
    assert f"= {numbers[0]:.2f}, / 2.00 = {numbers[1]:.2f}" in line
    assert line.endswith(f"= {steps['weights'].value[1]:.3f}")


def test_markup_and_wide_letters_in_a_text_stay_text(pieces):
    text = "[bold]it[/] was 東京 😀 </script> $x$"
    seen, screen = inspect(subject(pieces), text, FRENCH), Screen(60)
    show_texts(screen.board, seen)
    show_head(screen.board, seen, "encoder", 0, 0, words=True)
    show_word(screen.board, seen, "encoder", 0, 0, "it")
    assert text in " ".join(screen.text.split())
    assert max(line.cell_len for line in screen.lines) <= 60
    assert ENGLISH not in screen.text
