"""`regard doctor`: what is installed here."""

from __future__ import annotations

from typing import Annotated, Any

import typer

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard doctor            what to put into a bug report
  regard doctor --json     the same for programs
"""


@commands.command(epilog=EXAMPLES)
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """Show what is installed, what is missing and how to get it."""
    found = examine()
    if as_json:
        import json

        print(json.dumps(found, indent=2))
    else:
        _show(found)


def examine() -> dict[str, Any]:
    """The machine, the packages Regard needs, and its optional ones by extra."""
    packages = _declared()
    return {
        "machine": _machine(),
        "packages": _versions(["regard", *packages.pop("")]),
        "extras": {extra: _versions(names) for extra, names in sorted(packages.items())},
    }


def _machine() -> dict[str, Any]:
    import os
    import platform

    import torch

    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": ["cpu", *(name for name in ("cuda", "mps") if getattr(torch, name).is_available())],
    }


def _declared() -> dict[str, list[str]]:
    # What the installed package itself asks for, by extra, so that this list cannot drift.
    import re
    from collections import defaultdict
    from importlib.metadata import requires

    by_extra: dict[str, list[str]] = defaultdict(list)
    for line in requires("regard") or []:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        by_extra[extra[1] if extra else ""].append(re.split(r"[^\w.-]", line, maxsplit=1)[0])
    return by_extra


def _versions(names: list[str]) -> dict[str, str | None]:
    return {name: _version(name) for name in sorted(names)}


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _show(found: dict[str, Any]) -> None:
    rows = {**found["machine"], "devices": ", ".join(found["machine"]["devices"])}
    rows |= {name: number or "missing; pip install regard" for name, number in found["packages"].items()}
    rows |= {f"[{extra}]": _presence(extra, packages) for extra, packages in found["extras"].items()}
    for name, value in rows.items():
        print(f"{name:<{max(map(len, rows))}}  {value}")


def _presence(extra: str, packages: dict[str, str | None]) -> str:
    missing = [name for name, number in packages.items() if number is None]
    if not missing:
        return "present"
    return f"missing {', '.join(missing)}; pip install 'regard[{extra}]'"
