"""docs/paper.md has the present source in its excerpts, and its links lead somewhere."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

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
    for page, _, anchor in re.findall(r"\]\(([\w.-]+\.md)(#([\w-]+))?\)", text):
        target = (DOCS / page).read_text(encoding="utf-8")
        assert not anchor or f"\n## {anchor}\n" in target
