"""The view's modules as one script, for places that cannot fetch them one by one.

The modules keep to a few forms, so that no parser of the language is needed. At the top stands, a line each,

    import { make, svg } from "./dom.js";

and what a module hands out is declared with its name: `export function`, `export async function`,
`export class` or `export const`. Each module becomes a function that returns its exports, called once, after
those that it imports; an import becomes a constant. Anything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import DataError

VIEW = Path(__file__).with_name("view")
IMPORT = re.compile(r'import \{ ([\w$]+(?:, [\w$]+)*) \} from "\./([\w-]+\.js)";')
EXPORT = re.compile(r"export ((?:async )?function |class |const )([\w$]+)")
# What a bundle could not honour: other forms at the start of a line, the dynamic ones anywhere.
STRANGE = re.compile(r"^(?:import|export)\b|(?<![.\w$])import\s*(?:\(|\.\s*meta)")
# A line inside of nothing that waits; a function that waits says async on the line where it begins.
WAITS = re.compile(r"^(?!.*\basync\b)(?=\S).*\bawait\b")
COMMENT = re.compile(r"\s*(?://|/\*|\*)")


@dataclass
class Module:
    """A module taken apart: what it takes from which other, what it hands out, and its lines."""

    name: str
    imports: dict[str, list[str]] = field(default_factory=dict)
    exports: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def script(self) -> str:
        """The module as a function that is called at once and returns what it hands out."""
        taken = (f"const {{ {', '.join(names)} }} = {_place(name)};" for name, names in self.imports.items())
        given = f"return {{ {', '.join(self.exports)} }};"
        return "\n".join([f"{_place(self.name)} = (() => {{", *taken, *self.lines, given, "})();"])


def bundle(entry: str = "studio.js", folder: Path = VIEW) -> str:
    """A module and all that it needs as one expression; its value holds what the module hands out."""
    modules = in_order(read_modules(entry, folder), entry)
    scripts = (module.script for module in modules)
    opening = ["(() => {", '"use strict";', "const modules = {};"]
    return "\n".join([*opening, *scripts, f"return {_place(entry)};", "})()"])


def read_modules(entry: str, folder: Path) -> dict[str, Module]:
    """The entry and every module that it needs, however far away, taken apart."""
    found: dict[str, Module] = {}
    wanted = [(entry, "the bundle")]
    while wanted:
        name, by = wanted.pop()
        if name in found:
            continue
        file = folder / name
        if not file.is_file():
            raise DataError(
                f"{name}, which {by} imports, is not in {folder.name}/; write it or import another"
            )
        found[name] = take_apart(name, file.read_text(encoding="utf-8"))
        wanted += [(other, name) for other in found[name].imports]
    _check_names(found)
    return found


def take_apart(name: str, text: str) -> Module:
    """Read a module line by line."""
    module = Module(name)
    for number, line in enumerate(text.splitlines(), 1):
        if taken := IMPORT.fullmatch(line):
            module.imports.setdefault(taken[2], []).extend(taken[1].split(", "))
            continue
        if given := EXPORT.match(line):
            module.exports.append(given[2])
            line = line.removeprefix("export ")
        _check_line(f"{name}, line {number}", line)
        module.lines.append(line)
    return module


def in_order(modules: Mapping[str, Module], entry: str) -> list[Module]:
    """The modules, each after those that it imports."""
    done: dict[str, Module] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " imports ".join([*path[path.index(name) :], name])
            raise DataError(f"{circle}: modules may not import in a circle; move what both need to a third")
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
        raise DataError(f"{place}: {line.strip()!r} waits outside of a function; put it into an async one")


def _check_names(modules: Mapping[str, Module]) -> None:
    for module in modules.values():
        for other, names in module.imports.items():
            for name in names:
                if name not in modules[other].exports:
                    raise DataError(f"{module.name} imports {name} from {other}, which does not export it")


def _place(name: str) -> str:
    return f'modules["{name}"]'
