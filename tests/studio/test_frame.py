"""The frame around the tabs: the sentence stands in one place, whatever is looked at."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from .person import Person
from .watching import visitor

pytestmark = pytest.mark.xdist_group("browser")
TIRED = "The animal didn't cross the street because it was too tired"
TABS = ["Inspect", "Layers", "Compare", "Translate", "Write", "Training"]


@pytest.mark.parametrize("width", [1440, 390])
def test_the_sentence_has_the_same_place_on_every_tab(browser, studio, width):
    with visitor(browser, studio, viewport={"width": width, "height": 900}) as (context, _):
        person = Person(context.new_page(), studio)
        person.visit(model="translation", text=TIRED)
        boxes = {}
        for name in TABS:
            field = person.open_tab(name).locator(".sentence-field").first
            expect(field).to_be_visible()
            box = field.bounding_box()
            assert box is not None
            boxes[name] = {key: round(box[key]) for key in ("x", "y", "width", "height")}
        assert len({tuple(box.values()) for box in boxes.values()}) == 1, boxes
