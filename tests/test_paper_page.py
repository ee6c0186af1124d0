"""docs/paper.md has the present source in its excerpts, and its links lead somewhere."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from regard.errors import SettingError
from regard.inspection.render.page_state import PageState

DOCS = Path(__file__).parents[1] / "docs"


def test_the_excerpts_are_the_source():
    text = (DOCS / "paper.md").read_text(encoding="utf-8")
    with_excerpts = runpy.run_path(str(DOCS / "paper.py"))["with_excerpts"]
    assert with_excerpts(text) == text, "run python docs/paper.py"
    assert with_excerpts(text.replace("query", "question")) != text.replace("query", "question")


def test_every_section_and_equation_is_there_and_links_exist():
    text = (DOCS / "paper.md").read_text(encoding="utf-8")
    sections = re.findall(r"^##+ ([\d.]+)", text, re.MULTILINE)
    assert [*sections] == ["1", "3", "3.1", "3.2", "3.3", "3.4", "3.5", "4", "5", "5.1", "5.2", "5.3", "5.4",
                           "6", "6.1", "6.2", "6.3", "7"]  # fmt: skip
    for named in (
        "quation 1",
        "quation 2",
        "quation 3",
        *(f"Table {n}" for n in range(1, 5)),
        "Figure 1",
        "Figure 2",
    ):
        assert named in text


def test_its_links_lead_to_pages_lessons_and_views_that_exist():
    text = (DOCS / "paper.md").read_text(encoding="utf-8")
    assert wrong_links(text) == []
    seen = set(re.findall(r"\(lessons\.md#([\w-]+)\)", text))
    assert {"recurrence", "residuals", "norms", "heads", "feed-forward", "positions", "context", "cost",
            "overfitting", "growth"} <= seen  # fmt: skip
    parts = re.split(r"^##+ (?=[\d.]+)", text, flags=re.MULTILINE)[1:]
    without = [part.split()[0] for part in parts if "/studio#" not in part]
    assert without == ["5:", "5.1:", "5.2:", "6:", "6.3:"]


@pytest.mark.parametrize(
    "link", ["[a](nowhere.md)", "[a](lessons.md#recurrent)", "`/studio#tab=hand`", "`/studio#ablate=norm`"]
)
def test_a_wrong_link_is_found(link):
    assert len(wrong_links(f"See {link}.")) == 1


def wrong_links(text: str) -> list[str]:
    """The pages, sections of lessons and views that do not exist."""
    wrong = []
    for page, _, anchor in re.findall(r"\]\(([\w.-]+\.md)(#([\w-]+))?\)", text):
        target = DOCS / page
        if not target.is_file() or (anchor and f"\n## {anchor}\n" not in target.read_text(encoding="utf-8")):
            wrong.append(f"{page}#{anchor}")
    for address in re.findall(r"`/studio#([^`.]+)`", text):
        try:
            PageState.of(address)
        except SettingError as error:
            wrong.append(str(error))
    return wrong
