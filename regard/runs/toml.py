"""TOML of recipes: values of --set in, resolved settings out.

TOML has no null: a setting that may be switched off is written "none".
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.errors import SettingError
from regard.opener import read_regular

NONE = "none"
LARGEST = 1 << 20  # bytes of a file


def read_toml(path: Path) -> dict[str, Any]:
    """A parsed TOML file; an error is one line. Links are not followed."""
    try:
        return tomllib.loads(read_regular(path, LARGEST).decode("utf-8"))
    except OSError as error:
        raise SettingError(f"cannot read {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingError(f"{path} is not TOML: {error}") from None


def read_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """["training.steps=200", "model.width=64"] as nested tables; a bare word is a string."""
    tables: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        keys = name.strip().split(".")
        if not separator or not all(keys):
            raise SettingError(f"--set {pair!r} must look like training.steps=200")
        _put(tables, keys, _value(value.strip()), pair)
    return tables


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Two nested tables merged; values of the second replace those of the first."""
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def write_toml(values: dict[str, Any]) -> str:
    """TOML text: plain values first, then one table per dict; None is left out."""
    return "\n".join(_lines(values, ())).lstrip("\n") + "\n"


def _put(tables: dict[str, Any], keys: list[str], value: Any, pair: str) -> None:
    for key in keys[:-1]:
        tables = tables.setdefault(key, {})
        if not isinstance(tables, dict):
            raise SettingError(f"--set {pair!r} puts a table where another --set puts a value")
    tables[keys[-1]] = value


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return parsed["value"] if list(parsed) == ["value"] else text


def _lines(values: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in values.items() if not isinstance(value, dict) and value is not None}
    lines = ["", f"[{'.'.join(map(_key, path))}]"] if path and plain else []
    lines += [f"{_key(key)} = {_written(value)}" for key, value in plain.items()]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += _lines(value, (*path, key))
    return lines


def _key(name: str) -> str:
    bare = name.replace("_", "").replace("-", "")
    return name if bare.isascii() and bare.isalnum() else _written(name)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    # JSON's strings are TOML's, but for a sign that TOML wants escaped.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
