"""Heads and parts switched off, interventions on attention: the page shows what the model then does."""

from __future__ import annotations

import json
import re
from contextlib import suppress

import numpy as np
import pytest
from playwright.sync_api import Error, expect

from regard.inspection.analysis.interventions import Intervention, patches

from .person import HALF, comes_to, numbers

pytestmark = pytest.mark.xdist_group("browser")
CAT = "The cat sleeps because it is tired."


def test_a_head_is_switched_off_and_on_by_its_cross(person, inspect):
    person.inspect(model="translation", text=CAT, kind="encoder", layer=1, head=0)
    person.button("Encoder, layer 0, head 1").hover()
    person.button("Switch Encoder, layer 0, head 1 off").click()
    expect(person.button("Encoder, layer 0, head 1, switched off")).to_be_visible()
    expect(person.page.get_by_text("3 of 4 on")).to_be_visible()
    without = inspect("translation", CAT, ablate=[("encoder", 0, 1)])
    wanted = without.attention("encoder", 1, 0, words=True)
    person.page.mouse.move(1, 1)  # a head under the mouse is previewed
    first = person.matrix.get_by_role("gridcell").first
    person.wait_until(
        lambda: abs(float(first.get_attribute("data-value")) - wanted[0, 0]) < HALF, "the head changes"
    )
    assert np.allclose(numbers(person.matrix), wanted, atol=HALF)
    assert not np.allclose(
        wanted, inspect("translation", CAT).attention("encoder", 1, 0, words=True), atol=0.01
    )
    person.button(re.compile("Encoder, layer 0, head 1: switch on")).click()
    expect(person.button("Encoder, layer 0, head 1")).to_be_visible()


def test_x_switches_the_pinned_head_off(person, inspect):
    person.inspect(model="translation", text=CAT, kind="encoder", layer=1, head=3)
    person.button("Encoder, layer 1, head 3").focus()
    person.page.keyboard.press("x")
    expect(person.button("Switch head 3 on (X)")).to_be_visible()
    written = inspect("translation", CAT, ablate=[("encoder", 1, 3)]).target
    words = person.page.get_by_role("list", name="What the model writes").locator(".word-text")
    expect(words).to_have_text(written.labels(words=True))


@pytest.mark.parametrize(
    ("box", "part"), [("Divide by √dₖ", "scaling"), ("Positions", "positions"), ("Norms", "norm")]
)
def test_a_part_of_the_model_is_switched_off(person, inspect, box, part):
    person.inspect(model="translation", text=CAT, kind="encoder", layer=0, head=0)
    person.page.get_by_role("checkbox", name=box).uncheck()
    without = inspect("translation", CAT, ablate=[part]).attention("encoder", 0, 0, words=True)
    comes_to(person.matrix.get_by_role("gridcell").first, without[0, 0])
    assert np.allclose(numbers(person.matrix), without, atol=HALF)


def test_what_switching_off_does_is_said(person, load):
    person.inspect(model="translation", text=CAT, kind="cross", layer=1, head=0)
    person.button("Switch head 0 off (X)").click()
    said = person.panel("What switching off did")
    text = load("translation").translate(CAT, ablate=[("cross", 1, 0)]).text
    before = load("translation").translate(CAT).text
    told = "It still writes the same." if text == before else f"It now writes: {text}"
    expect(said.get_by_text(told)).to_be_visible()


def test_what_is_changed_is_said_on_every_tab_and_reset(person, load):
    off = [("cross", 1, head) for head in range(4)] + [("encoder", 0, 1)]
    row = [{"kind": "encoder", "layer": 1, "head": 1, "query": 4, "row": [1] + [0] * 8}]
    ablate = ",".join(".".join(map(str, head)) for head in off)
    changes = {"ablate": ablate, "interventions": json.dumps(row)}
    person.visit(model="translation", text=CAT, second="The dog sleeps.", **changes)
    line = person.page.get_by_role("group", name="Active changes")
    for name in person.page.get_by_role("tab").all_inner_texts():
        person.open_tab(name)
        expect(line).to_be_visible()
        expect(line).to_contain_text("The model is changed: 5 heads off, 1 intervention.")
    person.open_tab("Translate")
    written = person.page.locator(".tab.translate .translation .output")
    changed = written.inner_text()
    line.get_by_role("button", name="Reset").click()
    expect(line).to_be_hidden()
    expect(written).to_have_text(load("translation").translate(CAT).text)
    assert changed != load("translation").translate(CAT).text
    expect(person.page).not_to_have_url(re.compile("ablate|interventions"))


@pytest.fixture
def intervention(person):
    """The panel that interventions, at what "it" looks at in one head."""
    person.inspect(model="translation", text=CAT, kind="encoder", layer=1, head=1, query=4)
    panel = person.panel(re.compile("^Intervene"))
    panel.scroll_into_view_if_needed()
    expect(panel.get_by_role("heading", name="Intervene on what “it” looks at")).to_be_visible()
    return panel


def row_shown(intervention):
    """The weights as the panel holds them now."""
    inputs = intervention.get_by_role("spinbutton", name=re.compile("^Weight of"))
    return np.array([float(text) for text in inputs.evaluate_all("all => all.map(one => one.value)")])


def test_an_intervention_moves_weight_and_the_output_follows(intervention, person, load, inspect):
    original = inspect("translation", CAT).attention("encoder", 1, 1)[4]
    assert np.allclose(row_shown(intervention), original, atol=1e-3)
    intervention.get_by_label("Take from").select_option(label="is")
    intervention.get_by_label("give to").select_option(label="cat")
    intervention.get_by_role("spinbutton", name="Part of its weight moved, typed").fill("1")
    moved = original.astype(np.float64).copy()
    moved[[1, 5]] = moved[1] + moved[5], 0
    expect(intervention.get_by_role("spinbutton", name="Weight of is")).to_have_value("0.0000")
    assert np.allclose(row_shown(intervention), moved, atol=1e-3)
    assert row_shown(intervention).sum() == pytest.approx(1, abs=1e-3)
    comes_to(person.matrix.get_by_role("gridcell").nth(4 * 9 + 1), moved[1])
    changed = inspect(
        "translation", CAT, patch=patches([Intervention("encoder", 1, 1, 4, tuple(moved / moved.sum()))])
    )
    assert np.allclose(numbers(person.matrix), changed.attention("encoder", 1, 1, words=True), atol=2e-3)


def test_the_rivals_chances_move_with_an_intervention(intervention, inspect):
    original = inspect("translation", CAT).attention("encoder", 1, 1)[4].astype(np.float64)
    base = inspect("translation", CAT)
    place = base.target.labels().index("qu'")
    table = intervention.get_by_role("table", name="The rivals")
    expect(table).to_be_visible()
    intervention.get_by_label("Look at the word after").select_option(str(place))
    intervention.get_by_role("spinbutton", name="Weight of sleeps").fill("0.9")
    intervention.get_by_role("spinbutton", name="Weight of sleeps").press("Enter")
    moved = original * 0.1 / (1 - original[2])
    moved[2] = 0.9
    after = base.again(patch=patches([Intervention("encoder", 1, 1, 4, tuple(moved))]))
    expect(intervention.get_by_text(re.compile("^After “qu'”"))).to_contain_text("→")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(2)
    for row in rows.all():
        number = base.target.tokenizer.encode(row.get_by_role("rowheader").inner_text().strip())[0]
        now, before = (each.probabilities[place, number] for each in (after, base))
        assert float(row.locator(".share-bar").get_attribute("data-value")) == pytest.approx(now, abs=1e-3)
        expect(row).to_contain_text(f"was {before:.3f}")


def test_an_intervention_is_undone_and_reset(intervention, inspect):
    original = inspect("translation", CAT).attention("encoder", 1, 1)[4]
    undo, reset = (intervention.get_by_role("button", name=name) for name in ("Undo", "Reset"))
    expect(undo).to_be_disabled()
    for word, weight in (("cat", "0.5"), ("sleeps", "0.3")):
        field = intervention.get_by_role("spinbutton", name=f"Weight of {word}")
        field.fill(weight)
        field.press("Enter")
        expect(field).to_have_value(f"{float(weight):.4f}")
    undo.click()
    expect(intervention.get_by_role("spinbutton", name="Weight of cat")).to_have_value("0.5000")
    undo.click()
    expect(undo).to_be_disabled()
    assert np.allclose(row_shown(intervention), original, atol=1e-3)
    expect(reset).to_be_disabled()


def test_a_typed_weight_outlives_late_answers(intervention, person):
    """Tab leads from one weight to the next; what is typed there stays when the last change is answered."""
    first, second = (
        intervention.get_by_role("spinbutton", name=f"Weight of {word}") for word in ("cat", "sleeps")
    )
    first.fill("0.5")
    first.press("Tab")
    expect(second).to_be_focused()
    person.page.keyboard.type("0.2")
    person.settle()
    person.page.keyboard.type("5")
    expect(second).to_have_value("0.25")
    person.page.keyboard.press("Enter")
    expect(second).to_have_value("0.2500")


def test_the_row_of_a_sentence_that_was_left_is_not_changed(intervention, person):
    """While the next sentence is on its way, the panel still shows the last one's row."""
    held = []
    person.page.route(re.compile("/api/trace$"), lambda route: held.append(route))
    person.field.fill("I am a student")
    person.wait_until(lambda: held, "the sentence is not asked for")
    weight = intervention.get_by_role("spinbutton", name="Weight of cat")
    before = weight.input_value()
    intervention.get_by_role("spinbutton", name="Part of its weight moved, typed").fill("1")
    weight.fill("0.9")
    weight.press("Enter")
    expect(weight).to_have_value(before)
    person.page.route(re.compile("/api/trace$"), lambda route: route.continue_())  # the newest route counts
    for route in held:
        with suppress(Error):  # one that the page has aborted wants no answer
            route.continue_()
    person.settle()
    expect(person.page.get_by_text("The model is changed")).to_have_count(0)
    assert not [text for text in person.page.get_by_role("alert").all_inner_texts() if text]


def test_with_an_empty_field_the_last_sentence_stays(intervention, person, inspect):
    person.field.fill("")
    person.button("Encoder, layer 1, head 3").click()
    person.button("Switch head 3 off (X)").click()
    without = inspect("translation", CAT, ablate=[("encoder", 1, 3)])
    words = person.page.get_by_role("list", name="What the model writes").locator(".word-text")
    expect(words).to_have_text(without.target.labels(words=True))
    person.settle()
    assert not [text for text in person.page.get_by_role("alert").all_inner_texts() if text]
