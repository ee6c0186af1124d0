"""Write docs/settings.md: every setting of a recipe, from the classes that hold and check them.

    python docs/settings.py

Type, default and range come from a field. Its meaning is the string below it in the source.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from pydantic.fields import FieldInfo

from regard.model.config import ModelConfig
from regard.registry import NamedIn
from regard.runs.recipe import ARCHITECTURE_KEYS, DECIDED, TABLES, TUNABLE
from regard.runs.tables import MODEL_KEYS, RESUMABLE, ModelTable
from regard.runs.tasks.registry import TASKS
from regard.runs.toml import NONE
from regard.settings import Settings

PAGE = Path(__file__).with_name("settings.md")
HEAD = """\
# Settings

<!-- Written by docs/settings.py from the source. Change the string below a field there, and run it again. -->

Every setting of a recipe. A recipe is a TOML file with one table for each concern of a run ([training.md](training.md)). [model] and [training] are all that most runs change. A setting in the wrong table is refused, and the message names its table. On the command line a setting is `--set training.steps=200`; in Python it is `settings={"training": {"steps": 200}}`.

The defaults hold where neither the recipe nor the caller has the setting. The recipes that ship set many of them, and `recipe.toml` in the folder of a run has all values of that run. A setting that is "not set" is left out of the file. One that can be switched off is written `"none"`.
"""  # noqa: E501
TYPES = {"integer": "integer", "number": "number", "string": "string", "boolean": "true or false"}
RULES = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}
COLUMNS = ("setting", "type", "default", "allowed", "meaning")


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## task", "What the model learns. It has no default.", tasks(), *model_sections()]
    for name, owner in TABLES.items():
        parts += section(name, owner)
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def tasks() -> str:
    """The tasks with the model and the files of each."""
    rows = []
    for name, task in TASKS.items():
        files = " or ".join(" and ".join(f"`data.{key}`" for key in keys) for keys in task.sources)
        rows.append((f'`"{name}"`', task.family, files))
    return table(("task", "model", "files"), rows)


def section(name: str, owner: type[Settings]) -> list[str]:
    """A table of a recipe, and those inside it."""
    parts = [f"## [{name}]", purpose(owner), settings(owner), resumable(name)]
    return parts + [part for key, inner in inside(owner) for part in section(f"{name}.{key}", inner)]


def model_sections() -> list[str]:
    """[model] and [architecture], which share the settings of ModelConfig."""
    keys = ", ".join(f"`{key}`" for key in TUNABLE)
    others = set(ModelConfig.model_fields)
    parts = ["## [model]", purpose(ModelTable), settings(ModelTable)]
    parts += [settings(ModelConfig, leave_out=others - set(MODEL_KEYS))]
    parts += [f"With `init_from`, only {keys} may be set; the others are those of that model."]
    parts += ["## [architecture]", purpose(ModelConfig)]
    parts += [settings(ModelConfig, leave_out=others - set(ARCHITECTURE_KEYS))]
    parts += ["These follow from task, tokenizer and data, and a recipe must not have them:"]
    parts += [settings(ModelConfig, leave_out=others - set(DECIDED))]
    return parts + [part for key, one in inside(ModelConfig) for part in section(f"architecture.{key}", one)]


def settings(owner: type[Settings], leave_out: Any = ()) -> str:
    """The settings of a class as rows."""
    schema, meanings = owner.model_json_schema(), descriptions(owner)
    rows = []
    for name, field in owner.model_fields.items():
        if name not in leave_out:
            shape = schema["properties"][name]
            meaning = " ".join(meanings[name].split())
            rows.append((f"`{name}`", type_of(shape), default(field), allowed(field, shape), meaning))
    return table(COLUMNS, rows)


def descriptions(owner: type[Settings]) -> dict[str, str]:
    """The string below each field in the source of a class and of those it inherits from."""
    found = {}
    for one in reversed(owner.__mro__):
        if issubclass(one, Settings):
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
            assert isinstance(body, ast.ClassDef)
            for field, below in pairwise(body.body):
                if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                    found[ast.unparse(field.target)] = ast.literal_eval(below.value)
    missing = [name for name in owner.model_fields if not found.get(name)]
    if missing:
        raise SystemExit(f"{owner.__name__}.{missing[0]} has no description; write a string below it")
    return found


def purpose(owner: type[Settings]) -> str:
    """The docstring of a class without the name of its table."""
    text = re.sub(r"^\[\w+\]: ", "", inspect.cleandoc(owner.__doc__ or ""))
    return text[0].upper() + text[1:]


def inside(owner: type[Settings]) -> Iterator[tuple[str, type[Settings]]]:
    """The tables that are settings of a table."""
    for name, field in owner.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if inspect.isclass(kind) and issubclass(kind, Settings):
                yield name, kind


def resumable(name: str) -> str:
    """What a resumed run may change."""
    keys = ", ".join(f"`{key}`" for key in RESUMABLE.get(name, ()))
    return f"A resumed run may change {keys}." if keys else ""


def choices(shape: dict[str, Any]) -> list[dict[str, Any]]:
    """The kinds of value that a setting may have, without none."""
    return [one for one in shape.get("anyOf", [shape]) if one.get("type") != "null"]


def type_of(shape: dict[str, Any]) -> str:
    """The type of a setting as TOML has it."""
    return " or ".join(dict.fromkeys(_type(one) for one in choices(shape)))


def _type(shape: dict[str, Any]) -> str:
    if "$ref" in shape:
        return "table"
    if shape["type"] != "array":
        return TYPES[shape["type"]]
    items = shape.get("prefixItems", [shape.get("items", {})])
    count = f"{len(items)} of " if "prefixItems" in shape else ""
    return f"list ({count}{type_of(items[0])})"


def default(field: FieldInfo) -> str:
    """A default as TOML has it."""
    if field.is_required():
        return "required"
    if isinstance(field.default, Settings):
        return "its defaults"
    return "not set" if field.default is None else f"`{json.dumps(field.default)}`"


def allowed(field: FieldInfo, shape: dict[str, Any]) -> str:
    """The names, or the range, of a setting."""
    named = [name for mark in field.metadata if isinstance(mark, NamedIn) for name in mark.load()]
    parts = [f'`"{name}"`' for name in named] or [part for one in choices(shape) for part in _allowed(one)]
    may_be_off = {"type": "null"} in shape.get("anyOf", ()) and field.default is not None
    return ", ".join([*dict.fromkeys(parts), *([f'`"{NONE}"`'] if may_be_off else [])])


def _allowed(shape: dict[str, Any]) -> list[str]:
    if "prefixItems" in shape:
        return [f"each {part}" for part in _allowed(shape["prefixItems"][0])]
    words = shape.get("enum", [shape["const"]] if "const" in shape else [])
    return [f'`"{word}"`' for word in words] + _range(shape)


def _range(shape: dict[str, Any]) -> list[str]:
    limits = {
        name: number(value) for name, value in shape.items() if name.lower().endswith(("minimum", "maximum"))
    }
    if limits.keys() == {"minimum", "maximum"}:
        return [f"{limits['minimum']} to {limits['maximum']}"]
    given = [f"{rule} {limits[name]}" for name, rule in RULES.items() if name in limits]
    return [", ".join(given)] if given else []


def number(value: float) -> str:
    """A number, and a large one as a power where it is one."""
    whole = int(value)
    for more, suffix in ((0, ""), (1, " - 1")):
        if whole >= 1 << 16 and (whole + more).bit_count() == 1:
            return f"2^{(whole + more).bit_length() - 1}{suffix}"
    return re.sub(r"e\+0*", "e", f"{value:g}")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Rows as Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
