"""The files of the recipes that ship, by name. Imports neither pydantic nor torch."""

from __future__ import annotations

from pathlib import Path

from regard.errors import UnknownName, nearest

FOLDER = Path(__file__).parent / "recipes"


def recipes() -> dict[str, str]:
    """The recipes that ship with Regard, each with the first line of its file."""
    return {path.stem: _first_line(path) for path in sorted(FOLDER.glob("*.toml"))}


def find_recipe(name: str | Path) -> Path:
    """The file of a recipe by its name; a path that ends in .toml is returned as it is."""
    if Path(name).suffix == ".toml":
        return Path(name)
    path = FOLDER / f"{name}.toml"
    if not path.is_file():
        raise UnknownName(
            f"unknown recipe {str(name)!r}; {nearest(str(name), recipes())}; a file of your own ends in .toml"
        )
    return path


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()
