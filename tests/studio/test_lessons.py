"""The tab Lessons as a person meets it: the list, a page, its links, and a run."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from regard.lessons.results import NAMES, stored_result

from .watching import violations

pytestmark = pytest.mark.xdist_group("browser")


def test_a_lesson_is_found_read_followed_and_run(person, page):
    """From the list to a page, along its link and back, and through a run."""
    person.visit(model="masked", tab="lessons")
    entries = page.locator(".lesson-list li")
    expect(entries).to_have_count(len(NAMES))
    page.get_by_role("link", name=re.compile("^six-steps")).click()
    stored = stored_result("six-steps")
    assert stored is not None
    expect(page.get_by_role("heading", name=re.compile("^six-steps: "))).to_contain_text(stored.claim)
    expect(page.locator(".lesson-verdict")).to_contain_text(f"The claim {stored.experiment.verdict.words}.")
    expect(page.get_by_role("table")).to_have_count(len(stored.tables))
    figure = page.get_by_role("img", name=re.compile("^" + re.escape(stored.claim)))
    assert figure.evaluate("image => image.decode().then(() => image.naturalWidth)") > 400
    person.settle()
    assert not violations(page)
    page.get_by_role("link", name="All steps of example B").click()
    expect(page.get_by_role("tab", name="By hand", selected=True)).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^B ")).first).to_have_attribute("aria-pressed", "true")
    page.go_back()
    page.get_by_role("button", name="Run the experiment").click()
    expect(page.get_by_role("button", name="Cancel the run")).to_be_visible()
    expect(page.get_by_role("button", name="Your run")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="scaling →").click()
    expect(page.get_by_role("heading", name=re.compile("^scaling: "))).to_be_visible()


def test_every_link_opens_the_tab_that_it_names(person, page):
    """With a model that has all tabs that the lessons name."""
    person.visit(model="translation", tab="lessons")
    views = {place.view for name in NAMES if (result := stored_result(name)) for place in result.places}
    for view in sorted(views - {""}):
        page.evaluate("view => { location.hash = `model=translation&text=It is tired.&${view}`; }", view)
        name = re.search(r"tab=(\w+)", view)[1]  # type: ignore[index]
        expect(page.locator(f".tab.{name}")).to_be_visible()
        person.settle()
        assert not [text for text in page.get_by_role("alert").all_inner_texts() if text], view
