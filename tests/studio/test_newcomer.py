"""Somebody new: the tour through the lectures' story, and the demo that is trained from the page."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.demo.story.model_store import DemoFolder
from regard.inspection.analysis.interventions import Intervention, patches
from regard.service.locations import find_location
from regard.service.models import Entry, Models
from regard.service.studio import make_studio

from .person import Person
from .serving import serve_here
from .watching import visitor

pytestmark = pytest.mark.xdist_group("browser")
TIRED = "The animal didn't cross the street because it was too tired"
STEPS = 400  # long enough for the page to ask in between, on a machine that is busy with others
SMALL = {
    "training": {"steps": STEPS, "batch_tokens": 512, "threads": 1},
    "checkpoints": {"snapshot_every": STEPS // 2},
    "model": {"layers": 1, "width": 16, "heads": 2, "feed_forward_width": 16, "context": 32},
    "validation": {"validate_every": STEPS, "sentences": 2},
}


def walk(person):
    """Take the tour to its end: the title of each stop and the tab that it opened."""
    person.button("Tour").click()
    card = person.page.locator(".tour-card")
    stops = []
    while card.is_visible():
        expect(card.locator(".counter")).to_have_text(re.compile(f"^{len(stops) + 1} of "))
        person.settle()
        stops.append(
            (
                card.get_by_role("heading").inner_text(),
                person.page.get_by_role("tab", selected=True).inner_text(),
            )
        )
        assert "".join(person.page.get_by_role("alert").all_inner_texts()) == ""
        card.get_by_role(
            "button", name="Finish" if card.get_by_role("button", name="Finish").count() else "Next"
        ).click()
    return stops


def test_the_tour_tells_the_lectures_story(person):
    person.inspect(model="translation")
    stops = walk(person)
    assert 9 <= len(stops) <= 12
    assert {tab for _, tab in stops} == {"Inspect", "By hand", "Compare", "Translate", "Write", "Training"}
    assert len({title for title, _ in stops}) == len(stops)


def test_what_the_tour_claims_of_weights_was_measured(person, inspect):
    person.inspect(model="translation")
    person.button("Tour").click()
    card = person.page.locator(".tour-card")
    told = {}
    for stop in range(1, 8):
        told[stop] = measured_at(person, stop)
        if stop < 7:
            card.get_by_role("button", name="Next").click()
    wide, tired = (inspect("translation", text) for text in (TIRED.replace("tired", "wide"), TIRED))
    words = [seen.target.labels() for seen in (wide, tired)]
    fork = next((n for n, pair in enumerate(zip(*words, strict=False)) if pair[0] != pair[1]), None)
    if fork is None:
        assert told[7] == "This model writes the same for both sentences, so there is no word to turn here."
        return
    (it,), (street,) = wide.source.find("it"), wide.source.find("street")
    weights = np.stack([wide.attention("encoder", layer)[:, it, street] for layer in range(2)])
    layer, head = map(int, np.unravel_index(weights.argmax(), weights.shape))
    assert f"“it” looks most at “street” in encoder, layer {layer}, head {head}." in told[7]
    assert person.shown_head() == ("encoder", layer, head)
    one = moved(wide, [("encoder", layer, head)], it)
    both = moved(wide, [("cross", layer, head) for layer in range(2) for head in range(4)], fork - 1)
    chances = [seen.probabilities[fork - 1, wide.target.ids[fork]] for seen in (wide, one, both)]
    said = [float(number) for number in re.findall(r"(?:is|gives) (?:< )?(\d\.\d+)", told[7])]
    assert np.allclose(said, chances, atol=0.011)
    text = inspect("translation", wide.source.text, patch=one.recording.patch).target.text
    assert ("The translation stays the same" in told[7]) == (text == wide.target.text)


def measured_at(person, stop: int) -> str:
    """What the tour says to have measured at a stop."""
    card = person.page.locator(".tour-card")
    expect(card.locator(".counter")).to_have_text(re.compile(f"^{stop} of "))
    expect(card.get_by_text("Measuring in this model")).to_have_count(0)
    return card.locator(".tour-measured").inner_text()


def test_the_tour_measures_again_in_another_model(person):
    told = {}
    for model in ("writing", "translation"):
        person.inspect(model=model)
        person.button("Tour").click()
        for _ in range(3):
            person.page.locator(".tour-card").get_by_role("button", name="Next").click()
        told[model] = measured_at(person, 4)
    assert told["writing"] != told["translation"]
    person.page.evaluate("() => { location.hash = location.hash.replace('=translation', '=writing'); }")
    expect(person.page.locator(".tour-measured")).to_have_text(told["writing"])


def moved(seen, heads, query):
    """The same with all weight on "street" given to "animal", in one row of each of these heads."""
    (animal,), (street,) = seen.source.find("animal"), seen.source.find("street")
    rows = []
    for kind, layer, head in heads:
        row = seen.attention(kind, layer, head)[query].copy()
        row[[street, animal]] = 0.0, row[street] + row[animal]
        rows.append(Intervention(kind, layer, head, query, tuple(row.tolist())))
    return seen.again(patch=patches(rows))


@pytest.mark.parametrize("model", ["writing", "masked"])
def test_the_tour_leaves_out_what_a_model_cannot_show(person, model):
    person.inspect(model=model)
    assert "Translate" not in {tab for _, tab in walk(person)}


def test_the_tour_can_be_left_and_goes_back(person):
    person.inspect(model="translation")
    person.button("Tour").click()
    card = person.page.locator(".tour-card")
    first = card.get_by_role("heading").inner_text()
    card.get_by_role("button", name="Next").click()
    expect(card.get_by_role("heading")).not_to_have_text(first)
    card.get_by_role("button", name="Back").click()
    expect(card.get_by_role("heading")).to_have_text(first)
    person.page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    expect(person.button("Tour")).to_be_focused()


@pytest.fixture
def newcomer(browser, tmp_path):
    """Somebody in front of a studio whose demo is not trained yet."""
    models = Models([Entry("demo", None, DemoFolder("demo", tmp_path / "demo", SMALL, pairs=4000))])
    with serve_here(make_studio(models)) as home, visitor(browser, home) as (context, _):
        yield Person(context.new_page(), home)


def test_the_untrained_demo_is_trained_from_the_page(newcomer):
    newcomer.visit()
    expect(newcomer.page.get_by_role("heading", name="The model demo is not trained yet")).to_be_visible()
    newcomer.button("Train it now").click()
    bar = newcomer.page.get_by_role("progressbar", name="How far the training has come")
    expect(bar).to_be_visible()
    expect(newcomer.page.get_by_role("heading", name="The model demo is being trained")).to_be_visible()
    expect(newcomer.page.get_by_text(re.compile(f"of {STEPS}"))).to_be_visible(timeout=90_000)
    expect(newcomer.matrix.get_by_role("gridcell").first).to_be_attached(timeout=90_000)
    expect(newcomer.page.get_by_role("tab", name="Training")).to_be_visible()


def test_attention_by_hand_needs_no_model(newcomer):
    newcomer.visit()
    newcomer.page.get_by_role("tab", name="By hand").click()
    expect(newcomer.page.get_by_role("textbox", name="X, row 0, column 0")).to_be_visible()
    assert "By hand" in {tab for _, tab in walk(newcomer)}


@pytest.fixture
def two_models(browser, tmp_path, models):
    """Somebody in front of a studio with a trained model and a demo that is not trained yet."""
    untrained = Entry(
        "demo-reverse", None, DemoFolder("demo-reverse", tmp_path / "reverse", SMALL, pairs=4000)
    )
    trained = Entry("translation", find_location(models["translation"]))
    with (
        serve_here(make_studio(Models([trained, untrained]))) as home,
        visitor(browser, home) as (context, watch),
    ):
        yield Person(context.new_page(), home), watch


def test_a_model_that_is_not_trained_offers_its_training_beside_one_that_is(two_models):
    person, watch = two_models
    person.inspect()
    person.page.get_by_label("Model", exact=True).select_option("demo-reverse")
    expect(
        person.page.get_by_role("heading", name="The model demo-reverse is not trained yet")
    ).to_be_visible()
    expect(person.page.get_by_text("It translates small French sentences into English.")).to_be_visible()
    person.settle()
    before = len(watch.requests)
    person.page.wait_for_timeout(1500)
    assert len(watch.requests) == before, f"the page keeps asking: {watch.requests[before:][:5]}"
    assert "".join(person.page.get_by_role("alert").all_inner_texts()) == ""
    person.button("Train it now").click()
    expect(person.page.get_by_role("heading", name="The model demo-reverse is being trained")).to_be_visible()
    assert all("model=demo-reverse" in address for address in watch.requests if "/api/demo" in address)
    person.button("Cancel the training").click()
    expect(person.button("Train it now")).to_be_visible()
    expect(person.page.locator(".toast:not(:empty)")).to_contain_text("The training is cancelled.")
    expect(person.page.get_by_text("The training stopped")).to_have_count(0)
