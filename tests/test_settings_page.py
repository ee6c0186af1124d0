"""docs/settings.md has every setting of a recipe, as the code has it."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from regard.registry import NamedIn
from regard.runs.recipe_files import FOLDER
from regard.settings import Settings

PROJECT = Path(__file__).parents[1]


def load_writer():
    """docs/settings.py, which is no part of the package."""
    found = importlib.util.spec_from_file_location("settings_page", PROJECT / "docs" / "settings.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


writer = load_writer()


class Inner(Settings):
    """A table inside another."""

    deep: bool = False
    """Whether it is deep."""


class Base(Settings):
    """What others inherit."""

    rate: Annotated[float, Field(gt=0, le=1)] = 1e-3
    """The rate."""


class Planted(Base):
    """[planted]: settings of all kinds."""

    count: Annotated[int, Field(ge=1, le=1 << 40)] | None = 5
    """How many.

    More | less.
    """
    kind: Annotated[str, NamedIn("regard.training.averaging", "AVERAGES")] = "none"
    """Which one."""
    mode: Annotated[int, Field(ge=0)] | Literal["all"] = 0
    """How long."""
    pair: tuple[Annotated[float, Field(ge=0, lt=1)], float] = (0.5, 0.5)
    """Two numbers."""
    start: str | None = None
    """Where it starts."""
    inner: Inner = Inner()
    """More of it."""
    needed: str
    """It has no default."""


class Undescribed(Base):
    """One field has no string below it."""

    first: int = 1
    """It has one."""
    second: int = 2
    third: int = 3
    """It has one."""


def test_the_page_is_what_the_code_says():
    now = writer.PAGE.read_text(encoding="utf-8")
    assert now == writer.page(), "the settings have changed; run: python docs/settings.py"


def test_every_kind_of_setting_is_shown():
    rows = writer.settings(Planted).splitlines()[2:]
    assert rows == [
        "| `rate` | number | `0.001` | above 0, at most 1 | The rate. |",
        '| `count` | integer | `5` | 1 to 2^40, `"none"` | How many. More \\| less. |',
        '| `kind` | string | `"none"` | `"none"`, `"ema"`, `"last"` | Which one. |',
        '| `mode` | integer or string | `0` | at least 0, `"all"` | How long. |',
        "| `pair` | list (2 of number) | `[0.5, 0.5]` | each at least 0, below 1 | Two numbers. |",
        "| `start` | string | not set |  | Where it starts. |",
        "| `inner` | table | its defaults |  | More of it. |",
        "| `needed` | string | required |  | It has no default. |",
    ]
    assert [part for part in writer.section("planted", Planted) if part.startswith("## ")] == [
        "## [planted]",
        "## [planted.inner]",
    ]


def test_a_setting_without_a_description_is_refused():
    with pytest.raises(SystemExit, match=r"Undescribed.second has no description"):
        writer.settings(Undescribed)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(4096, "4096"), (1 << 24, "2^24"), ((1 << 63) - 1, "2^63 - 1"), (1e6, "1e6"), (0.5, "0.5")],
)
def test_numbers_are_short(value, shown):
    assert writer.number(value) == shown


def keys(values: dict, path: str = "") -> set[str]:
    """The settings of a parsed recipe, by their full names."""
    inner = {key: value for key, value in values.items() if isinstance(value, dict)}
    own = {f"{path}.{key}".strip(".") for key in values if key not in inner}
    return own.union(*(keys(value, f"{path}.{key}".strip(".")) for key, value in inner.items()))


def test_every_setting_of_the_recipes_that_ship_is_on_the_page():
    table, listed = "", {"task"}
    for line in writer.page().splitlines():
        table = line.removeprefix("## [").rstrip("]") if line.startswith("## [") else table
        if line.startswith("| `"):
            listed.add(f"{table}.{line.split('`')[1]}")
    used = set.union(*(keys(tomllib.loads(path.read_text("utf-8"))) for path in FOLDER.glob("*.toml")))
    assert "data.filters.max_ratio" in used
    assert used - listed == set()
