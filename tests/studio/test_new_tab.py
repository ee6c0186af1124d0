"""The tab of CONTRIBUTING.md on the page: one folder and one line are enough."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.inspection.render.bundle import bundle
from tests.test_documents import PROJECT, read_snippets, run

from .person import values

pytestmark = pytest.mark.xdist_group("browser")
CAT = "The cat sleeps because it is tired."


@pytest.fixture
def view(tmp_path) -> Path:
    """The view with the tab that CONTRIBUTING.md adds."""
    page = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page[page.index("## Add a tab") : page.index("## Add a checkpoint format")]
    for snippet in read_snippets(section):
        assert run(snippet, tmp_path).returncode == 0
    return tmp_path / "view"


def test_the_tab_of_the_example_shows_the_models_numbers(person, inspect, view):
    """The page gets the script with the new tab in place of its own."""

    def answer(route):
        script = route.fetch().text()
        start = script[script.index(bundle()) + len(bundle()) :]
        route.fulfill(body=f"const view = {bundle(folder=view)}{start}", content_type="text/javascript")

    person.page.route(re.compile(r"/studio/view\.js"), answer)
    person.visit(model="translation", text=CAT, tab="focus")
    table = person.page.get_by_role("table", name="Words that a head looks at")
    expect(table).to_be_visible()
    seen = inspect("translation", CAT)
    heads = [seen.attention("encoder", layer, head) for layer in range(2) for head in range(4)]
    entropies = [-np.sum(rows * np.log2(np.maximum(rows, 1e-12)), axis=1) for rows in heads]
    expected = [np.mean(2**entropy) for entropy in entropies]
    assert np.allclose(values(table.locator("td[data-value]")), expected, atol=0.02)
    expect(person.page.locator("[data-panel=focus]")).to_be_visible()
