"""Every notebook runs from its first cell to its last in an empty folder, and keeps what its cells show."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
NOTEBOOKS = sorted((PROJECT / "docs").rglob("*.ipynb"))
LARGEST = 200_000  # bytes, outputs included


def load_runner():
    """docs/notebook.py, which is no part of the package."""
    found = importlib.util.spec_from_file_location("notebook", PROJECT / "docs" / "notebook.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


runner = load_runner()


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def kinds(notebook: dict) -> list[list[str]]:
    """What each code cell shows: printed text, a picture, a value."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [
        [kind for output in cell["outputs"] for kind in output.get("data", ["printed"])] for cell in cells
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_shows_what_it_keeps(path, tmp_path, monkeypatch):
    notebook = read(path)
    changes = notebook["metadata"]["when_tested"]
    code = "".join(line for cell in notebook["cells"] for line in cell["source"])
    assert [text for text in changes if text not in code] == []
    monkeypatch.chdir(tmp_path)
    done = runner.run_notebook(notebook, changes)
    assert kinds(done) == kinds(notebook)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_small_whole_and_of_no_machine(path):
    notebook = read(path)
    assert (notebook["nbformat"], len({cell["id"] for cell in notebook["cells"]})) == (
        4,
        len(notebook["cells"]),
    )
    assert path.stat().st_size < LARGEST
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any("image/svg+xml" in shown for shown in kinds(notebook))
    text = path.read_text(encoding="utf-8")
    assert not any(place in text for place in ("/tmp", "/home", "/work", "Users"))


def test_there_is_a_notebook():
    assert [path.name for path in NOTEBOOKS] == ["your-own-data.ipynb"]


def test_a_cell_shows_what_it_prints_and_its_last_expression():
    class Drawn:
        def _repr_svg_(self):
            return "<svg/>"

    names = {"drawn": Drawn()}
    printed, value = runner.run_cell("print('a')\nprint('b')\n[1, 2]", names, 1)
    assert (printed["text"], value["data"]) == (["a\n", "b\n"], {"text/plain": ["[1, 2]"]})
    (picture,) = runner.run_cell("drawn", names, 2)
    assert picture["data"]["image/svg+xml"] == ["<svg/>"]
    assert runner.run_cell("x = 3", names, 3) == []
    with pytest.raises(ZeroDivisionError):
        runner.run_cell("x / 0", names, 4)
