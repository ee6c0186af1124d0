"""Draw the beginning of the demo's story as a terminal picture, and save the whole story as plain text.

    python docs/pictures/terminal.py MODEL [DIR]

MODEL is the folder of a trained demo. story.svg and story.txt go to DIR, by default the folder of this file.
The picture loads no font file and no other host.
"""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from regard.demo.story.telling import tell
from regard.demo.story.training import Demo
from regard.inspection.render.board import COLOURS, Board

WIDTH = 84
SECTIONS = 4  # number of sections in the picture
CACHE = "~/.cache/regard/demo"  # printed instead of the folder on this machine
LIGHT = TerminalTheme((255, 255, 255), (29, 31, 35), [(29, 31, 35)] * 8)
SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class Elsewhere(Board):
    """A board that prints the default cache folder instead of the model's folder on this machine."""

    def __init__(self, console: Console, folder: Path):
        super().__init__(console)
        self.folder = str(folder)

    def say(self, words: str) -> None:
        """Print a plain sentence."""
        super().say(words.replace(self.folder, CACHE))


def tell_in_colour(demo: Demo) -> list[Text]:
    """The lines of the story in true colour."""
    output = StringIO()
    console = Console(
        file=output,
        width=WIDTH,
        theme=COLOURS,
        highlight=False,
        force_terminal=True,
        color_system="truecolor",
    )
    tell(Elsewhere(console, demo.folder), demo)
    return list(Text.from_ansi(output.getvalue()).split("\n"))


def first_sections(lines: list[Text], count: int) -> list[Text]:
    """The lines of the first `count` sections."""
    titles = [number for number, line in enumerate(lines) if line.plain.endswith("──")]
    return lines[: titles[count]]


def draw(lines: list[Text]) -> str:
    """The lines as an SVG picture of a terminal."""
    console = Console(
        file=StringIO(),
        width=WIDTH,
        record=True,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    return console.export_svg(title="regard demo", theme=LIGHT, code_format=SVG, unique_id="story")


def main(model: Path, folder: Path) -> None:
    """Write the picture and the text."""
    lines = tell_in_colour(Demo.open(model))
    (folder / "story.svg").write_text(draw(first_sections(lines, SECTIONS)), encoding="utf-8", newline="\n")
    plain = "".join(f"{line.plain.rstrip()}\n" for line in lines).rstrip("\n")
    (folder / "story.txt").write_text(f"{plain}\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent)
