"""docs/lectures.md: every name on the page exists, and a closed row has all of them."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from regard.cli.app import app
from regard.errors import UsageError
from regard.lessons.results import check_name

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "lectures.md"
EXPECTED = {"Parts": 38, "Sentences": 18, "Numbers": 11, "Where the slides are imprecise": 8}


@dataclass(frozen=True)
class Row:
    """One promise: what the lectures say, and where it is kept."""

    section: str
    number: str
    idea: str
    code: str
    test: str
    see: str
    status: str


def read_rows(page: str) -> list[Row]:
    """Every row of the page's tables."""
    rows, section = [], ""
    for line in page.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("|") and not line.startswith(("| # |", "|---")):
            rows.append(Row(section, *(cell.strip() for cell in line.strip("|").split("|"))))
    return rows


def names_in(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def wrong_code(name: str) -> str | None:
    """Why a dotted name does not resolve, or None."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return f"{name} does not exist" if found is None else None
    return f"{name} does not exist"


def wrong_test(name: str) -> str | None:
    """Why a test id names no test, or None."""
    file, _, function = name.partition("::")
    path = PROJECT / file
    if not path.is_file():
        return f"{file} does not exist"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return None if function in defined and function.startswith("test_") else f"{file} has no test {function}"


def wrong_place(name: str) -> str | None:
    """Why a command does not parse or a file does not exist, or None."""
    if not name.startswith("regard "):
        return None if (PROJECT / name).exists() else f"{name} does not exist"
    try:
        _, command, *arguments = shlex.split(name)
        call = typer.main.get_command(app).commands[command].make_context(command, arguments)  # pyright: ignore
        if command == "lesson":
            check_name(call.params["name"])
    except (KeyError, typer.TyperException, UsageError) as error:
        return f"{name}: no such call ({error})"
    return None


def faults(row: Row) -> list[str]:
    """What is wrong with a row, in words."""
    checks = ((row.code, wrong_code), (row.test, wrong_test), (row.see, wrong_place))
    found = [fault for cell, wrong in checks for name in names_in(cell) if (fault := wrong(name))]
    if row.status not in ("open", "closed"):
        found.append(f"status is {row.status!r}; it must be open or closed")
    if row.status == "closed" and not all(names_in(cell) for cell, _ in checks):
        found.append("a closed row needs code, test and a place to see it")
    if len(names_in(row.code)) > 1:
        found.append("an idea has one place in the code")
    return [f"{row.number}: {fault}" for fault in found]


def test_every_name_on_the_page_exists(record_property):
    rows = read_rows(PAGE.read_text(encoding="utf-8"))
    assert [fault for row in rows for fault in faults(row)] == []
    closed = sum(row.status == "closed" for row in rows)
    record_property("summary", f"docs/lectures.md: {closed} of {len(rows)} rows closed")


def test_no_row_is_missing_or_twice():
    rows = read_rows(PAGE.read_text(encoding="utf-8"))
    assert Counter(row.section for row in rows) == EXPECTED
    assert len({row.number for row in rows}) == len(rows)


GOOD = {
    "code": "`regard.errors.nearest`",
    "test": "`tests/test_lectures.py::test_no_row_is_missing_or_twice`",
    "see": "`regard doctor --json`",
    "status": "closed",
}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, None),
        ({"status": "open", "code": "", "test": "", "see": ""}, None),
        ({"see": "`docs/lectures.md`"}, None),
        ({"code": ""}, "needs code"),
        ({"test": ""}, "needs code"),
        ({"see": "not in backticks"}, "needs code"),
        ({"code": "`regard.errors.farthest`"}, "regard.errors.farthest does not exist"),
        ({"code": "`regard.nowhere.at_all`"}, "regard.nowhere.at_all does not exist"),
        ({"code": "`elsewhere.entirely`"}, "elsewhere.entirely does not exist"),
        ({"code": "`regard.errors`, `regard.registry`"}, "one place"),
        ({"test": "`tests/test_lectures.py::test_of_nothing`"}, "no test test_of_nothing"),
        ({"test": "`tests/test_lectures.py::faults`"}, "no test faults"),
        ({"test": "`tests/nowhere.py::test_it`"}, "tests/nowhere.py does not exist"),
        ({"see": "`regard dance`"}, "no such call"),
        ({"see": "`regard doctor --jsn`"}, "no such call"),
        ({"see": "`regard lesson ordr`"}, "no such call"),
        ({"see": "`docs/nowhere.md`"}, "docs/nowhere.md does not exist"),
        ({"status": "open", "code": "`regard.nowhere`"}, "regard.nowhere does not exist"),
        ({"status": "done"}, "must be open or closed"),
    ],
)
def test_a_faulty_row_is_found(change, fault):
    cells = GOOD | change
    page = f"## Parts\n| # | idea |\n|---|---|\n| 1 | an idea | {' | '.join(cells.values())} |"
    (row,) = read_rows(page)
    found = faults(row)
    assert found == [] if fault is None else any(fault in line for line in found)


def test_a_missing_row_is_found():
    rows = read_rows(PAGE.read_text(encoding="utf-8"))
    assert Counter(row.section for row in rows[1:]) != EXPECTED
