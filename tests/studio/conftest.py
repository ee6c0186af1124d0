"""A browser, the studio, and what Python sees in the same models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from . import chromium
from .models import make_models
from .person import Person
from .serving import serve
from .watching import visitor


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where there is no browser, skip what needs one aloud, or fail it."""
    if "browser" not in getattr(item, "fixturenames", ()) or chromium.find():
        return
    if chromium.is_required():
        pytest.fail(chromium.missing(), pytrace=False)
    item.user_properties.append(("summary", f"THE STUDIO'S PAGE IS NOT TESTED: {chromium.missing()}"))
    pytest.skip(chromium.missing())


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=chromium.PATIENCE)
    with sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=chromium.find(), args=chromium.ARGUMENTS)
        yield program
        program.close()


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> dict[str, Path]:
    """Model folders by what they do: translation, writing, masked, classes."""
    return make_models(tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="session")
def load(models) -> Callable[[str], Any]:
    """The same models in Python: load("translation")."""
    import regard

    return cache(lambda name: regard.load(models[name]))


@pytest.fixture(scope="session")
def inspect(load) -> Callable[..., Any]:
    """What Python sees in them."""
    import regard

    return lambda name, text, **asked: regard.inspect(load(name), text, **asked)


@pytest.fixture(scope="session")
def studio(models, tmp_path_factory) -> Iterator[str]:
    """The address of `regard studio` with all four models."""
    with serve(*models.values(), cache=tmp_path_factory.mktemp("cache")) as address:
        yield address


@pytest.fixture
def page(browser, studio):
    """A tab of somebody who visits the studio for the first time."""
    with visitor(browser, studio) as (context, _):
        yield context.new_page()


@pytest.fixture
def person(page, studio):
    """Somebody in front of that tab."""
    return Person(page, studio)
