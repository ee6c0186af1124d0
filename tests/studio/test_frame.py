"""The first screen and the frame: what to do first, the sentence in one place, and a picture on a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from .person import Person
from .watching import visitor

pytestmark = pytest.mark.xdist_group("browser")
TIRED = "The animal didn't cross the street because it was too tired"
TABS = ["Inspect", "Layers", "Compare", "Translate", "Write", "Training"]
KINDS = {"encoder": "encoder", "decoder self-attention": "decoder", "cross-attention": "cross"}
PHONE = {"width": 390, "height": 844}


@pytest.mark.parametrize("width", [1440, 390])
def test_the_sentence_has_the_same_place_on_every_tab(browser, studio, width):
    with visitor(browser, studio, viewport={"width": width, "height": 900}) as (context, _):
        person = Person(context.new_page(), studio)
        person.visit(model="translation", text=TIRED)
        boxes = {}
        for name in TABS:
            field = person.open_tab(name).locator(".sentence-field").first
            expect(field).to_be_visible()
            person.settle()
            box = field.bounding_box()
            assert box is not None
            boxes[name] = {key: round(box[key]) for key in ("x", "y", "width", "height")}
        assert len({tuple(box.values()) for box in boxes.values()}) == 1, boxes


@pytest.mark.parametrize(("model", "text"), [("translation", TIRED), ("writing", "I arrived at the bank")])
def test_the_first_screen_has_a_finding_that_was_measured(person, inspect, model, text):
    person.inspect(model=model, text=text)
    strip = person.page.locator(".finding")
    said = strip.locator("p").last.inner_text()
    weight, kind, layer, head = re.search(
        r"(\d\.\d\d) of the attention goes there.*, in (.+), layer (\d+), head (\d+)\.", said
    ).groups()
    seen = inspect(model, text)
    kind, words = KINDS[kind], "“(.+?)” looks most at “(.+)”\\."
    asks, most = re.search(words, strip.locator(".claim").inner_text()).groups()
    queries, keys = (side.labels(words=True) for side in seen.sides(kind))
    row = queries.index(asks) - ("writes" in said)
    weights = seen.attention(kind, int(layer), int(head), words=True)[row]
    assert keys[int(weights.argmax())] == most
    assert float(weight) == pytest.approx(weights.max(), abs=0.006)
    assert person.shown_head() == (kind, int(layer), int(head))


@pytest.mark.parametrize("text", [TIRED, f"{TIRED.replace(chr(39), '’')}."])
def test_the_first_screen_offers_three_next_steps(person, text):
    person.inspect(model="translation", text=text)
    steps = person.page.get_by_role("group", name="What to do next").get_by_role("button")
    expect(steps).to_have_text(["Take the tour", "Compare with “… wide”", "See what each layer would write"])
    steps.nth(0).click()
    expect(person.page.locator(".tour-card")).to_be_visible()
    person.page.keyboard.press("Escape")
    steps.nth(1).click()
    expect(person.page.get_by_label("Second sentence")).to_have_value(re.compile("wide$"))
    person.page.go_back()
    steps.nth(2).click()
    expect(person.page.get_by_role("tab", name="Layers")).to_have_attribute("aria-selected", "true")


def test_a_model_of_vectors_offers_no_step_to_layers(person):
    """It writes no word, so it has no such tab; no model of these tests is of this kind."""

    def answer(route):
        told = route.fetch().json()
        for model in told["models"]:
            model["output"] = "vectors"
        route.fulfill(json=told)

    person.page.route(re.compile("/studio/api/models$"), answer)
    person.inspect(model="masked", text="Paris is the capital of France.")
    steps = person.page.get_by_role("group", name="What to do next").get_by_role("button")
    expect(steps).to_have_text(["Take the tour", "Compare with another sentence"])
    expect(person.page.get_by_role("tab", name="Layers")).to_have_count(0)


def test_another_head_leaves_the_finding_and_leads_back(person):
    person.inspect(model="translation", text=TIRED)
    found, show = person.shown_head(), person.button("Show it")
    expect(show).to_be_hidden()
    other = person.page.get_by_role(
        "button",
        name="Encoder, layer 0, head 3" if found[1:] != (0, 3) else "Encoder, layer 0, head 0",
        exact=True,
    )
    other.click()
    expect(show).to_be_visible()
    show.click()
    expect(show).to_be_hidden()
    assert person.shown_head() == found


def test_on_a_phone_the_picture_is_on_the_first_screen_and_the_tour_leaves_it_free(browser, studio):
    with visitor(browser, studio, viewport=PHONE) as (context, _):
        person = Person(context.new_page(), studio)
        person.inspect(model="translation", text=TIRED)
        picture = person.page.locator(".picture-matrix canvas").first.bounding_box()
        assert picture is not None
        assert picture["y"] + 150 < PHONE["height"]
        assert person.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        person.button("Tour").click()
        card = person.page.locator(".tour-card")
        for stop in range(1, 8):
            expect(card.locator(".counter")).to_have_text(re.compile(f"^{stop} of "))
            person.settle()
            parts = {
                1: ".panel.vectors",
                4: ".panel.picture",
                6: ".compare-finding",
                7: ".panel.intervention",
            }
            if stop in parts:
                person.wait_until(
                    lambda part=parts[stop]: is_free(person, part), f"stop {stop} covers {parts[stop]}"
                )
            card.get_by_role("button", name="Next").click()


def is_free(person, part: str) -> bool:
    """Whether the beginning of a part is seen above the card of the tour."""
    box, card = (person.page.locator(name).bounding_box() for name in (part, ".tour-card"))
    return box and card and box["y"] >= 0 and card["y"] - box["y"] >= min(box["height"], 300)
