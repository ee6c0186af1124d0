"""The levels: a file imports only from lower levels or from its own package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import regard

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "regard"
PAGE = PROJECT / "docs" / "architecture.md"

LEVELS = {
    7: {"cli"},
    6: {"service", "lessons", "bench"},
    5: {"demo"},
    4: {"inspection", "runs", "exchange"},
    3: {"training", "inference"},
    2: {"checkpoints", "engine"},
    1: {"model", "text"},
    0: {"background", "errors", "opener", "ranks", "registry", "settings"},
}
LEVEL = {part: level for level, packages in LEVELS.items() for part in packages}
# `python -m regard` is the command line; __init__ only hands out names on first use.
PACKAGE_OF_FILE = {"__main__": "cli"}
EXEMPT = {"__init__"}


def packages_of(package: Path) -> dict[Path, str]:
    """Every source file but the exempt one, with the package it belongs to in."""
    files = {file: file.relative_to(package).with_suffix("").parts[0] for file in package.rglob("*.py")}
    return {file: PACKAGE_OF_FILE.get(name, name) for file, name in files.items() if name not in EXEMPT}


def imported_modules(file: Path, package: Path, markers: bool = True) -> Iterator[tuple[int, str]]:
    """Every module named in an import, wherever in the file, as (line, absolute dotted name).

    `markers` are modules that a setting names without importing them.
    """
    inside = file.relative_to(package.parent).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = inside[: len(inside) - node.level + 1] if node.level else ()
            base = ".".join([*above, *(node.module or "").split(".")]).strip(".")
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and _is_dynamic_import(node, markers):
            yield node.lineno, ast.literal_eval(node.args[0])


def _is_dynamic_import(call: ast.Call, markers: bool) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    known = ("import_module", "__import__", *(["NamedIn"] if markers else []))
    return name in known and isinstance(next(iter(call.args), None), ast.Constant)


def package_of_import(module: str) -> str | None:
    """The package an import reaches: None for other packages, '' for the package's front door."""
    first, *rest = module.split(".")
    if first != "regard":
        return None
    if not rest:
        return ""
    home = regard._HOMES.get(rest[0])
    return home.split(".")[1] if home else rest[0]


def violations(package: Path) -> list[str]:
    """Each import that breaks the rule, in words."""
    found = []
    for file, part in sorted(packages_of(package).items()):
        where = file.relative_to(package.parent).as_posix()
        if part not in LEVEL:
            found.append(
                f"{where}: package {part} has no level; give it one in LEVELS and docs/architecture.md"
            )
            continue
        for line, module in imported_modules(file, package):
            target = package_of_import(module)
            if target is not None and not may_import(part, target):
                found.append(f"{where}:{line}: {part} (level {LEVEL[part]}) imports {module}")
    return found


def may_import(part: str, target: str) -> bool:
    """Lower levels and the own package; the files of level 0 count as one package."""
    if target not in LEVEL:
        return False
    return target == part or LEVEL[target] < LEVEL[part] or LEVEL[target] == LEVEL[part] == 0


def test_every_import_goes_down_or_stays_in_its_package():
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("text/planted.py", "from regard.training import trainer", "imports regard.training.trainer"),
        ("text/planted.py", "import regard.model.config", "imports regard.model.config"),
        ("model/planted.py", "def late():\n    from regard.cli.app import main", "planted.py:2"),
        ("model/planted.py", "def late():\n    from ..text import corpus", "imports regard.text.corpus"),
        (
            "model/planted.py",
            "if TYPE_CHECKING:\n    from ..runs.run import Run",
            "imports regard.runs.run.Run",
        ),
        ("text/planted.py", "from regard import build_model", "imports regard.build_model"),
        ("model/planted.py", "import regard", "imports regard"),
        ("model/planted.py", "from regard import cli", "imports regard.cli"),
        ("model/planted.py", "import_module('regard.cli.app')", "imports regard.cli.app"),
        ("model/planted.py", "NamedIn('regard.runs.run', 'X')", "imports regard.runs.run"),
        ("errors.py", "from regard.model import config", "imports regard.model.config"),
        ("attic/planted.py", "", "package attic has no level"),
        ("attic.py", "", "package attic has no level"),
        ("__main__.py", "import regard.attic", "imports regard.attic"),
    ],
)
def test_a_planted_violation_is_found(tmp_path, file, source, complaint):
    package = tmp_path / "regard"
    (package / file).parent.mkdir(parents=True, exist_ok=True)
    (package / file).write_text(source, encoding="utf-8")
    assert [complaint in line for line in violations(package)] == [True]


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("text/planted.py", "import torch, regard.errors\nfrom . import corpus\nfrom .corpus import read"),
        ("registry.py", "from regard.errors import SettingError"),
        ("inference/planted.py", "from regard.checkpoints.folder import read\nfrom ..model import config"),
        ("__main__.py", "from regard.cli.app import main"),
        ("__init__.py", "from regard.cli.app import main"),
    ],
)
def test_an_allowed_import_is_not_reported(tmp_path, file, source):
    package = tmp_path / "regard"
    (package / file).parent.mkdir(parents=True, exist_ok=True)
    (package / file).write_text(source, encoding="utf-8")
    assert violations(package) == []


def drawn_packages(page: str, drawing: str) -> dict[str, int]:
    """Rooms and their levels from a drawing of the page: `level N  name/  words   name.py  words`."""
    _, _, rest = page.partition(f"```{drawing}\n")
    packages, level = {}, -1
    for line in rest.partition("```")[0].splitlines():
        if mark := re.match(r"level (\d)", line):
            level = int(mark[1])
        packages |= dict.fromkeys(re.findall(r"(?<=\s\s)([a-z]+)(?:/|\.py)(?=\s|$)", line), level)
    return packages


def drift(page: str, existing: set[str]) -> list[str]:
    """Where the page's two drawings differ from the packages that exist and from the levels enforced here."""
    built, planned = drawn_packages(page, "levels"), drawn_packages(page, "planned")
    found = [f"{part} exists and is not drawn" for part in sorted(existing - set(built))]
    found += [f"{part} is drawn and does not exist" for part in sorted(set(built) - existing)]
    found += [f"{part} is planned and drawn" for part in sorted(set(built) & set(planned))]
    found += [f"{part} is neither drawn nor planned" for part in sorted(set(LEVEL) - {*built, *planned})]
    drawn = [*built.items(), *planned.items()]
    return found + [f"{part} is drawn on level {level}" for part, level in drawn if LEVEL.get(part) != level]


def test_the_drawing_in_the_docs_is_that_of_the_code():
    assert drift(PAGE.read_text(encoding="utf-8"), set(packages_of(PACKAGE).values())) == []


def test_a_wrong_drawing_is_found():
    everything = "\n".join(f"level {LEVEL[part]}  {part}/  words" for part in sorted(LEVEL))
    page = f"```levels\n{everything}\n```\n```planned\n```"
    assert drift(page, set(LEVEL)) == []
    assert drift(page, set(LEVEL) - {"demo"}) == ["demo is drawn and does not exist"]
    assert drift(page.replace("level 1  text", "level 2  text"), set(LEVEL)) == ["text is drawn on level 2"]
    without = page.replace("level 5  demo/  words\n", "")
    assert drift(without, set(LEVEL)) == ["demo exists and is not drawn", "demo is neither drawn nor planned"]
    assert drift(without + "```planned\nlevel 5  demo/\n```", set(LEVEL) - {"demo"}) == [
        "demo is neither drawn nor planned"
    ]
    assert drift(without.replace("planned\n", "planned\nlevel 5  demo/\n"), set(LEVEL) - {"demo"}) == []


def absent_files(page: str, package: Path) -> list[str]:
    """Files that the table names and that do not exist; a row without a package continues the last one."""
    absent, part = [], ""
    for cells in re.findall(r"^\| *([a-z]*) *\| *([^|]+?) *\|.*\|$", page, re.MULTILINE):
        part = cells[0] or part
        names = re.findall(r"[\w/]+(?:\.py|/)", cells[1])
        absent += [f"{part}/{name}" for name in names if not (package / part / name).exists()]
    return absent


def test_every_file_named_in_the_docs_exists():
    assert absent_files(PAGE.read_text(encoding="utf-8"), PACKAGE) == []


def test_an_absent_file_is_found(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.py").touch()
    page = "| package | file | holds |\n|---|---|---|\n| model | config.py | x |\n| | gone.py, away/ | y |\n"
    assert absent_files(page, tmp_path) == ["model/gone.py", "model/away/"]


def import_graph(package: Path) -> dict[str, set[str]]:
    """Every module with the modules that it imports anywhere: at its top, in a function or for type checkers.

    A setting that names a registry (`NamedIn`) holds a string and imports nothing by itself.
    """
    modules = {
        ".".join(file.relative_to(package.parent).with_suffix("").parts): file
        for file in packages_of(package)
    }
    return {
        name: {found for found in _modules_named(file, package, modules) if found != name}
        for name, file in modules.items()
    }


def _modules_named(file: Path, package: Path, modules: dict[str, Path]) -> Iterator[str]:
    """The modules of the package that a file imports; `from module import name` means the module."""
    for _, name in imported_modules(file, package, markers=False):
        parts = name.split(".")
        dotted = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        yield from [module for module in dotted if module in modules][:1]


def import_cycles(package: Path) -> list[str]:
    """The first import cycle that is found, in words; an empty list where there is none."""
    try:
        TopologicalSorter(import_graph(package)).prepare()
    except CycleError as error:
        return [" imports ".join(reversed(error.args[1]))]
    return []


def test_no_module_imports_itself_through_others():
    assert import_cycles(PACKAGE) == []


@pytest.mark.parametrize(
    "back",
    [
        "from regard.text.first import begin",
        "from .first import begin",
        "def late():\n    import regard.text.first",
        "if TYPE_CHECKING:\n    from regard.text import first",
        "import_module('regard.text.first')",
    ],
)
def test_a_planted_cycle_is_found(tmp_path, back):
    folder = tmp_path / "regard" / "text"
    folder.mkdir(parents=True)
    for name, source in {
        "first": "from regard.text.second import x",
        "second": "from . import third",
        "third": back,
    }.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    (cycle,) = import_cycles(tmp_path / "regard")
    assert all(f"regard.text.{name}" in cycle for name in ("first", "second", "third"))
    (folder / "third.py").write_text("NamedIn('regard.text.first', 'X')", encoding="utf-8")
    assert import_cycles(tmp_path / "regard") == []


# The parts of a package, lowest first: a part imports only from its own part and from lower ones.
PARTS = {"inspection": ({"record"}, {"analysis"}, {"render"}, {"by_hand", "inspection"})}


def part_violations(package: Path) -> list[str]:
    """Each import inside a package that goes up to a higher part, or across to another one."""
    graph = import_graph(package)
    pairs = [(name.split("."), target.split(".")) for name in graph for target in graph[name]]
    inside = [(name, target) for name, target in pairs if name[1] == target[1] and name[1] in PARTS]
    return sorted(
        f"{'.'.join(name)} imports {'.'.join(target)}"
        for name, target in inside
        if target[2] != name[2] and not _part_level(target) < _part_level(name)
    )


def _part_level(module: list[str]) -> int:
    """How high a part stands; one that PARTS does not list stands above all others."""
    order = PARTS[module[1]]
    return next((level for level, parts in enumerate(order) if module[2] in parts), len(order))


def test_every_part_of_a_package_imports_from_lower_parts():
    assert part_violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "source", "allowed"),
    [
        ("record/record.py", "from regard.inspection.analysis import steps", False),
        ("analysis/steps.py", "def late():\n    from ..render.export import save", False),
        ("by_hand/report.py", "import regard.inspection.inspection", False),
        ("render/export.py", "from regard.inspection.analysis.steps import work_out", True),
        ("analysis/steps.py", "from .lens import Lens", True),
    ],
)
def test_an_import_of_a_higher_part_is_found(tmp_path, file, source, allowed):
    folder = tmp_path / "regard" / "inspection"
    for name in (
        "record/record",
        "analysis/steps",
        "analysis/lens",
        "render/export",
        "by_hand/report",
        "inspection",
    ):
        (folder / f"{name}.py").parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").touch()
    (folder / file).write_text(source, encoding="utf-8")
    assert len(part_violations(tmp_path / "regard")) == (0 if allowed else 1)
