"""Files that a person takes away: how they are saved, and what any of them must be."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Locator
from playwright.sync_api import TimeoutError as TookTooLong

from .person import Person

# These are digits and nothing drawn: they have no PNG and no SVG.
TABLES = {
    "the steps of this cell", "intervention", "one head in both sentences", "what the model makes of them",
}  # fmt: skip

# Chromium silently drops what a page saves beyond ten files a second; a person is slower.
BETWEEN_FILES = 120  # milliseconds


def unfold(person: Person, name: str) -> None:
    """Show what a picture can be saved as."""
    person.page.get_by_label(f"Save {name}", exact=True).locator("visible=true").click()


def saved(person: Person, button: Locator | str, folder: Path) -> Path:
    """Click a button that saves, or the one of that name, and give the file."""
    found = person.button(button) if isinstance(button, str) else button
    try:
        with person.page.expect_download() as waiting:
            found.click()
    except TookTooLong as late:
        raise AssertionError(f"{button}: no file came. {person.told()}") from late
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    person.page.wait_for_timeout(BETWEEN_FILES)
    return path


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """What an archive holds."""
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


class Leaf(HTMLParser):
    """A page of one picture: its elements, its heading, its sentences, and the numbers of its table."""

    def __init__(self, path: Path):
        super().__init__()
        self.tags: list[str] = []
        self.heading = ""
        self.sentences: list[str] = []
        self.values: list[float] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        """Note an element and the number that it stands for."""
        self.tags.append(tag)
        if tag == "td":
            self.values.append(float(dict(attrs).get("data-value") or "nan"))

    def handle_data(self, data):
        """Note the heading and the sentences."""
        if self.tags and self.tags[-1] == "h1":
            self.heading += data
        if self.tags and self.tags[-1] == "blockquote":
            self.sentences.append(data)


def check_file(path: Path) -> None:
    """A file is what its name says, and not empty."""
    match path.suffix:
        case ".png":
            colours = Image.open(path).convert("RGB").getcolors(1 << 24)
            assert len(colours or ()) > 4, path.name
        case ".svg":
            assert len(list(ElementTree.parse(path).iter())) > 5, path.name
        case ".npz":
            arrays = arrays_of(path)
            assert arrays, path.name
            assert all(array.size for array in arrays.values()), path.name
        case ".html":
            assert {"html", "title", "style"} <= set(Leaf(path).tags), path.name
            assert path.stat().st_size < 1_000_000, path.name
        case _:
            rows = list(csv.reader(StringIO(path.read_text(encoding="utf-8-sig"))))
            assert len(rows) > 1, path.name
            assert len({len(row) for row in rows}) == 1, path.name
