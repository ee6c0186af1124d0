"""The story as a picture and as text, drawn by docs/pictures/terminal.py; the README shows the result."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from regard.demo.lectures import LECTURES
from regard.demo.story.links import TIRED, WIDE
from regard.demo.story.looks import REFERENTS
from regard.demo.story.telling import WORDS

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.fixture(scope="module")
def terminal():
    found = importlib.util.spec_from_file_location("terminal", PICTURES / "terminal.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def drawn(terminal, demo, tmp_path_factory):
    """A folder with the story of the small model."""
    folder = tmp_path_factory.mktemp("pictures")
    terminal.main(demo.folder, folder)
    return folder


def texts_of(picture: Path) -> list[str]:
    """What a picture says, piece by piece."""
    root = ElementTree.parse(picture).getroot()
    return [(part.text or "").replace("\xa0", " ") for part in root.iter(f"{{{NAMESPACE}}}text")]


@pytest.mark.parametrize("folder", ["drawn", "kept"])
def test_a_picture_names_no_host_and_no_font_file(folder, drawn):
    text = ((drawn if folder == "drawn" else PICTURES) / "story.svg").read_text(encoding="utf-8")
    assert re.findall(r"https?:[^\"' )]*", text) == [NAMESPACE]
    for word in ("@font-face", "@import", "href", "script", "src"):
        assert word not in text


@pytest.mark.parametrize("folder", ["drawn", "kept"])
def test_a_picture_shows_the_beginning_of_the_story_in_colour(folder, drawn):
    picture = (drawn if folder == "drawn" else PICTURES) / "story.svg"
    told = " ".join(texts_of(picture))
    for word, referent in REFERENTS.items():
        assert f"English attends to English: from “{word}” to {referent}" in told
    for linked in (TIRED, WIDE):
        assert f"too {linked.adjective}" in " ".join(told.split())
    assert not any(title in told for title in WORDS.values())
    text = picture.read_text(encoding="utf-8")
    assert len(set(re.findall(r'<rect fill="(#[0-9a-f]{6})"', text))) > 5
    assert re.search(r"fill: #b4620d;font-weight: bold", text)  # the words that matter


@pytest.mark.parametrize("folder", ["drawn", "kept"])
def test_the_text_is_the_whole_story_and_of_no_machine(folder, drawn):
    text = ((drawn if folder == "drawn" else PICTURES) / "story.txt").read_text(encoding="utf-8")
    assert text.splitlines()[-1].strip().startswith("regard ")
    for lecture in LECTURES:
        assert " ".join(lecture.source.split()[:4]) in text
    assert "~/.cache/regard/demo" in text
    assert "/tmp" not in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 84
