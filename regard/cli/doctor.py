"""`regard doctor`: the installed packages and the machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard doctor            for a bug report
  regard doctor --json     the same for programs
"""


@commands.command(epilog=EXAMPLES)
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """Show which packages are installed or missing."""
    report = examine()
    if as_json:
        import json

        print(json.dumps(report, indent=2))
    else:
        _print(report)


def examine() -> dict[str, Any]:
    """The machine, the required packages, and the optional ones by extra."""
    packages = _requirements()
    return {
        "machine": _machine(),
        "packages": _versions(["regard", *packages.pop("")]),
        "extras": {extra: _versions(names) for extra, names in sorted(packages.items())},
    }


def _machine() -> dict[str, Any]:
    import os
    import platform

    import torch

    from regard.engine.choice import active_engine
    from regard.engine.device import available_devices

    engine, why = active_engine()

    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": available_devices(),
        "engine": f"{engine} ({why})",
    }


def _requirements() -> dict[str, list[str]]:
    """The requirements in the metadata of the installed package, by extra."""
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


def _print(report: dict[str, Any]) -> None:
    rows = {**report["machine"], "devices": ", ".join(report["machine"]["devices"])}
    rows |= {name: number or "missing; pip install regard" for name, number in report["packages"].items()}
    rows |= {f"[{extra}]": _presence(extra, packages) for extra, packages in report["extras"].items()}
    for name, value in rows.items():
        print(f"{name:<{max(map(len, rows))}}  {value}")


def _presence(extra: str, packages: dict[str, str | None]) -> str:
    missing = [name for name, number in packages.items() if number is None]
    if not missing:
        return "present"
    return f"missing {', '.join(missing)}; pip install 'regard[{extra}]'"
