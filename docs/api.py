"""Write docs/api.md: the public names of regard, from their signatures and docstrings.

python docs/api.py
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import regard
from regard.settings import Settings

PAGE = Path(__file__).with_name("api.md")
HEAD = """\
# API reference

<!-- Written by docs/api.py from the source. Change a docstring there, and run it again. -->

The public names of the package, as `import regard` has them. Everything else is reached by its module ([architecture.md](architecture.md)) and may change between versions.
"""  # noqa: E501


def page() -> str:
    """The whole page."""
    sections = ["\n".join(section(name, getattr(regard, name))) for name in regard.__all__]
    return "\n\n".join([HEAD.strip(), *sections]) + "\n"


def section(name: str, value: Any) -> Iterator[str]:
    """A public name: its signature, its docstring, and its public methods if it is a class."""
    yield f"## {name}\n"
    yield from described(name, value, signature_of(value))
    if inspect.isclass(value):
        for method, function in public_methods(value):
            yield from described(f"{name}.{method}", function, signature_of(function), heading=True)


def described(
    name: str, value: Any, signature: inspect.Signature | None, heading: bool = False
) -> Iterator[str]:
    """A signature as code, and the docstring below it."""
    if heading:
        yield f"\n### {name}\n"
    yield f"```text\n{shown(name, signature)}\n```\n"
    yield documented(value)


def documented(value: Any) -> str:
    """A docstring as Markdown: the summary, and the rest as the source lays it out."""
    summary, _, rest = (inspect.getdoc(value) or "").partition("\n\n")
    body = f"\n\n```text\n{rest.rstrip()}\n```" if rest else ""
    return " ".join(summary.split()) + body


def shown(name: str, signature: inspect.Signature | None) -> str:
    """A call, on one line if it fits and with a parameter on each line if not."""
    if signature is None:
        return name
    parameters = [str(each) for each in signature.parameters.values() if each.name not in ("self", "cls")]
    returned = signature.return_annotation
    end = "" if returned is inspect.Signature.empty else f" -> {spelled(returned)}"
    line = f"{name}({', '.join(parameters)}){end}"
    if len(line) <= 100:
        return without_quotes(line)
    separators = keyword_only_marks(signature)
    lines = "".join(f"    {each},\n" for each in separators)
    return without_quotes(f"{name}(\n{lines}){end}")


def keyword_only_marks(signature: inspect.Signature) -> Iterator[str]:
    """The parameters, with a star before the first that is given by keyword alone."""
    marked = False
    for each in signature.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.VAR_POSITIONAL:
            marked = True
        elif each.kind is each.KEYWORD_ONLY and not marked:
            marked = True
            yield "*"
        yield str(each)


def spelled(annotation: Any) -> str:
    """An annotation as the source has it."""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def without_quotes(line: str) -> str:
    """Annotations are strings in a source with `from __future__ import annotations`."""
    return re.sub(r"((?:: |-> ))'([^']*)'", r"\1\2", line)


def public_methods(owner: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties that the class itself or a base of this package defines and documents."""
    bases = [base for base in owner.__mro__ if base.__module__.startswith("regard")]
    names = dict.fromkeys(name for base in bases for name in vars(base) if not name.startswith("_"))
    for name in names:
        value = inspect.getattr_static(owner, name)
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(function, property) or inspect.isfunction(function):
            yield name, function


def signature_of(value: Any) -> inspect.Signature | None:
    """The signature of a function or class; properties, errors and settings are shown without one."""
    if isinstance(value, property) or (inspect.isclass(value) and issubclass(value, (Exception, Settings))):
        return None
    return inspect.signature(value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(regard.__all__)} names")
