"""The modules of the view as one script, and its style sheets as one; loads no torch.

The page, a notebook and a saved file get the view in this form, so that it takes one request or none.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import DataError

VIEW = Path(__file__).parents[1] / "view"
IMPORT = re.compile(r'import \{ ([\w$]+(?:, [\w$]+)*) \} from "(\.{1,2}/[\w/.-]+\.js)";')
EXPORT = re.compile(r"export ((?:async )?function |class |const )([\w$]+)")
# What cannot be bundled: other forms of import and export, and dynamic imports.
STRANGE = re.compile(r"^(?:import|export)\b|(?<![.\w$])import\s*(?:\(|\.\s*meta)")
# An await at the top level; an async function says so on its first line.
WAITS = re.compile(r"^(?!.*\basync\b)(?=\S).*\bawait\b")
DOCUMENTATION = re.compile(r"^[ \t]*/\*\*.*?\*/[ \t]*\n", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"\s*(?://|/\*|\*)")


@dataclass
class Module:
    """A parsed module: its imports by module, its exports, and its lines."""

    name: str
    imports: dict[str, list[str]] = field(default_factory=dict)
    exports: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def script(self) -> str:
        """The module, without its JSDoc, as a function that is called at once and returns the exports."""
        imports = (
            f"const {{ {', '.join(names)} }} = {_place(name)};" for name, names in self.imports.items()
        )
        exports = f"return {{ {', '.join(self.exports)} }};"
        lines = DOCUMENTATION.sub("", "\n".join([*self.lines, ""])).splitlines()
        return "\n".join([f"{_place(self.name)} = (() => {{", *imports, *lines, exports, "})();"])


def bundle(entry: str = "studio.js", folder: Path = VIEW) -> str:
    """A module with its dependencies as one expression, whose value holds the exports."""
    modules = in_order(read_modules(entry, folder), entry)
    scripts = (module.script for module in modules)
    opening = ["(() => {", '"use strict";', "const modules = {};"]
    return "\n".join([*opening, *scripts, f"return {_place(entry)};", "})()"])


def read_modules(entry: str, folder: Path) -> dict[str, Module]:
    """The entry and all modules that it imports, directly or through others."""
    modules: dict[str, Module] = {}
    wanted = [(entry, "the bundle")]
    while wanted:
        name, by = wanted.pop()
        if name in modules:
            continue
        file = folder / name
        if name.startswith("../") or not file.is_file():
            raise DataError(
                f"{name}, which {by} imports, is not in {folder.name}/; write it or import another"
            )
        modules[name] = parse_module(name, file.read_text(encoding="utf-8"))
        wanted += [(other, name) for other in modules[name].imports]
    _check_names(modules)
    return modules


def parse_module(name: str, text: str) -> Module:
    """Parse a module line by line."""
    module = Module(name)
    for number, line in enumerate(text.splitlines(), 1):
        if imported := IMPORT.fullmatch(line):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), imported[2]))
            module.imports.setdefault(path, []).extend(imported[1].split(", "))
            continue
        if exported := EXPORT.match(line):
            module.exports.append(exported[2])
            line = line.removeprefix("export ")
        _check_line(f"{name}, line {number}", line)
        module.lines.append(line)
    return module


def in_order(modules: Mapping[str, Module], entry: str) -> list[Module]:
    """The modules in dependency order."""
    done: dict[str, Module] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " imports ".join([*path[path.index(name) :], name])
            raise DataError(
                f"{circle}: modules must not import each other in a cycle; move what both need to a third"
            )
        if name not in done:
            for other in modules[name].imports:
                visit(other, (*path, name))
            done[name] = modules[name]

    visit(entry, ())
    return list(done.values())


def _check_line(place: str, line: str) -> None:
    if COMMENT.match(line):
        return
    if STRANGE.search(line):
        raise DataError(
            f'{place}: {line.strip()!r} cannot be bundled; imports are import {{ a, b }} from "./x.js"; '
            "on one line, exports are functions, classes and constants where they are declared"
        )
    if WAITS.match(line):
        raise DataError(f"{place}: {line.strip()!r} awaits outside of a function; put it into an async one")


def _check_names(modules: Mapping[str, Module]) -> None:
    for module in modules.values():
        for other, names in module.imports.items():
            for name in names:
                if name not in modules[other].exports:
                    raise DataError(f"{module.name} imports {name} from {other}, which does not export it")


def _place(name: str) -> str:
    return f'modules["{name}"]'


def read_style() -> str:
    """All style sheets of the view as one, style.css first."""
    sheets = sorted(VIEW.glob("*.css"), key=lambda file: (file.name != "style.css", file.name))
    return "\n".join(file.read_text(encoding="utf-8") for file in sheets)
