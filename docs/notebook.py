"""Run all cells of a notebook and store their outputs. Jupyter is not needed.

    python docs/notebook.py docs/your-own-data.ipynb

The notebook runs in an empty folder. Its outputs are the printed text and the value of the last expression,
as a picture if it has one.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def run_notebook(notebook: Mapping[str, Any], changes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The notebook with new outputs. `changes` replaces text in the code, to shorten a run."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            code = "".join(cell["source"])
            for old, new in (changes or {}).items():
                code = code.replace(old, new)
            cell = {**cell, "execution_count": count, "outputs": run_cell(code, names, count)}
        cells.append(cell)
    return {**notebook, "cells": cells}


def run_cell(code: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The outputs of a cell: the printed text and the value of its last expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, f"<cell {count}>", "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"<cell {count}>", "eval"), names)
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        shown = {"output_type": "execute_result", "execution_count": count, "metadata": {}}
        outputs.append({**shown, "data": shown_as(value)})
    return outputs


def shown_as(value: Any) -> dict[str, list[str]]:
    """The value in a notebook's output format: an SVG picture if it has one, and text."""
    picture = getattr(value, "_repr_svg_", None)
    drawn = {"image/svg+xml": lines(picture())} if picture else {}
    return {**drawn, "text/plain": lines("a picture" if picture else repr(value))}


def lines(text: str) -> list[str]:
    """Text as a list of lines, as notebooks store it."""
    return text.splitlines(keepends=True)


def main(path: Path) -> None:
    """Run the notebook and overwrite the file."""
    path = path.absolute()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        done = run_notebook(json.loads(path.read_text(encoding="utf-8")))
    path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
