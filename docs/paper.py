"""Copy the excerpts of docs/paper.md from the source.

    python docs/paper.py

A line `<!-- code: regard.model.blocks.FeedForward.forward -->` is followed by the source of that name.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "paper.md"
EXCERPT = re.compile(r"(<!-- code: ([\w.]+) -->\n)(\n?```py\n.*?^```\n)?", re.DOTALL | re.MULTILINE)


def with_excerpts(text: str) -> str:
    """The page with the present source in every excerpt."""

    def excerpt(found: re.Match[str]) -> str:
        file, code = source_of(found[2])
        return f"{found[1]}```py\n# {file}\n{code}\n```\n"

    return EXCERPT.sub(excerpt, text)


def source_of(name: str) -> tuple[str, str]:
    """The file and the dedented source of a function, class or method."""
    parts = name.split(".")
    count = max(n for n in range(len(parts)) if PROJECT.joinpath(*parts[:n]).with_suffix(".py").is_file())
    file = PROJECT.joinpath(*parts[:count]).with_suffix(".py")
    text = file.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in parts[count:]:
        node = next(child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == part)
    code = ast.get_source_segment(text, node, padded=True)
    assert code is not None, name
    return file.relative_to(PROJECT).as_posix(), textwrap.dedent(code)


if __name__ == "__main__":
    PAGE.write_text(with_excerpts(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
