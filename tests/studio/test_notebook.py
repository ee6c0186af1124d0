"""The notebook's view, drawn by a page that stands in for the notebook and calls it as anywidget does."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.inspection.render.bundle import read_style
from regard.inspection.render.widget import script, show

from .person import HALF, numbers
from .watching import violations, visitor

pytestmark = pytest.mark.xdist_group("browser")
CAT = "The cat sleeps because it is tired."
NOTEBOOK = """<!doctype html><html lang="en"><title>Notebook</title><main><h1>My notebook</h1>
<p class="panel">A paragraph with <button class="quiet">a button</button></p>
<table><tr><td>1</td></tr></table><div class="cell"></div><div class="cell"></div></main></html>"""
RENDER = """async ([source, data, place]) => {
    const module = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    const el = document.querySelectorAll(".cell")[place];
    const end = await module.default.render({ model: { get: (name) => ({ data })[name] }, el });
    (window.ends ??= []).push(end);
}"""
LOOKS = """() => ["h1", "p.panel", "button.quiet", "table", "td", "body"].map(name => {
    const style = getComputedStyle(document.querySelector(name));
    return [name, style.color, style.font, style.padding, style.border, style.backgroundColor];
})"""


@pytest.fixture
def notebook(browser, studio):
    """A page with two cells and things of its own."""
    with visitor(browser, studio) as (context, _):
        page = context.new_page()
        page.route(f"{studio}/notebook", lambda route: route.fulfill(body=NOTEBOOK, content_type="text/html"))
        page.goto(f"{studio}/notebook")
        yield page


def render(page, widget, place=0):
    """What anywidget's front end does with a widget."""
    page.evaluate(RENDER, [script(), json.loads(json.dumps(widget.data)), place])
    cell = page.locator(".cell").nth(place)
    expect(cell.get_by_role("heading", name=re.compile(r", head \d+:"))).to_be_visible()
    return cell


def test_a_cell_shows_the_models_numbers(notebook, inspect):
    seen = inspect("translation", CAT)
    notebook.add_style_tag(content=read_style())
    cell = render(notebook, show(seen, kind="encoder", layer=1, head=2, query="it"))
    grid = cell.get_by_role("grid", name=re.compile("^Attention"))
    assert np.allclose(numbers(grid), seen.attention("encoder", 1, 2, words=True), atol=HALF)
    expect(cell.get_by_role("gridcell", selected=True).first).to_be_attached()
    assert violations(notebook) == []


def test_the_notebook_around_it_stays_as_it_is(notebook, inspect):
    before = notebook.evaluate(LOOKS)
    address = notebook.url
    notebook.add_style_tag(content=read_style())
    render(notebook, show(inspect("translation", CAT)))
    assert notebook.evaluate(LOOKS) == before
    assert notebook.url == address
    assert notebook.title() == "Notebook"


def test_two_cells_do_not_meet(notebook, inspect):
    first, second = inspect("translation", CAT), inspect("translation", "The dog sleeps because it is tired.")
    notebook.add_style_tag(content=read_style())
    cells = [
        render(notebook, show(first, kind="encoder", layer=0, head=0), 0),
        render(notebook, show(second, kind="encoder", layer=1, head=1), 1),
    ]
    cells[0].get_by_role("button", name="Encoder, layer 1, head 3", exact=True).click()
    expect(cells[0].get_by_role("heading", name=re.compile("^Encoder, layer 1, head 3"))).to_be_visible()
    expect(cells[1].get_by_role("heading", name=re.compile("^Encoder, layer 1, head 1"))).to_be_visible()
    grids = [cell.get_by_role("grid", name=re.compile("^Attention")) for cell in cells]
    assert np.allclose(numbers(grids[0]), first.attention("encoder", 1, 3, words=True), atol=HALF)
    assert np.allclose(numbers(grids[1]), second.attention("encoder", 1, 1, words=True), atol=HALF)
    ids = notebook.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
