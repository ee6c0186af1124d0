"""For everybody: axe-core's rules, the keyboard alone, narrow, wide and zoomed, every colour, less motion."""

from __future__ import annotations

import re
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from .person import HALF, READ_COLOURS, Person, pixels
from .watching import violations, visitor

pytestmark = pytest.mark.xdist_group("browser")
CAT = "The cat sleeps because it is tired."
WIDE = "The animal didn't cross the street because it was too wide"
INSPECT = dict(model="translation", text=CAT, kind="encoder", layer=1, head=1, query=4)
PLACES = {
    "inspect": INSPECT,
    "lines": dict(**INSPECT, picture="lines"),
    "heads": dict(**INSPECT, picture="heads"),
    "decoder": dict(model="writing", text="I arrived at the bank", words=0),
    "layers": dict(model="translation", text=CAT, tab="layers", queries="1.4"),
    "translate": dict(model="translation", text=CAT, tab="translate"),
    "write": dict(model="writing", text="The quick brown", tab="write"),
    "compare": dict(model="translation", text=CAT, second=WIDE, tab="compare"),
    "training": dict(model="translation", text=CAT, tab="training"),
    "fill": dict(model="masked", text="Paris is the [MASK] of France.", tab="read"),
    "classify": dict(model="classes", text="The film was good.", tab="read"),
    "byhand": dict(tab="byhand"),
}


def settle(person, place):
    """Open a place and wait until it is quiet there."""
    person.visit(**PLACES[place])


@pytest.mark.parametrize("place", PLACES)
def test_axe_finds_nothing_wrong_in_light_and_dark(person, place):
    settle(person, place)
    assert violations(person.page) == []
    person.button("Use dark colours").click()
    expect(person.button("Use light colours")).to_be_visible()
    assert violations(person.page) == []


def test_axe_would_find_something(page):
    page.set_content("<img src='data:,'><button></button><p style='color: #bbb'>hard to read</p>")
    found = "\n".join(violations(page))
    assert [rule for rule in ("image-alt", "button-name", "color-contrast") if rule not in found] == []


def test_the_tour_and_an_error_pass_too(person):
    person.inspect(**INSPECT)
    person.button("Tour").click()
    expect(person.page.locator(".tour-card")).to_be_visible()
    assert violations(person.page) == []


@pytest.mark.parametrize(("width", "height"), [(360, 740), (640, 400), (720, 450), (1920, 1000)])
def test_nothing_hangs_over_the_edge(browser, studio, width, height):
    """640 x 400 is what is seen of 1280 x 800 at a zoom of 200 %, 720 x 450 of 1440 x 900."""
    with visitor(browser, studio, viewport={"width": width, "height": height}) as (context, _):
        person = Person(context.new_page(), studio)
        for place in PLACES:
            settle(person, place)
            over = person.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, f"{place} is {over} pixels too wide"
            expect(person.page.get_by_role("tab", selected=True)).to_be_in_viewport()


@pytest.mark.parametrize("width", [360, 1920])
def test_a_narrow_and_a_wide_page_show_the_same_numbers(browser, studio, inspect, width):
    with visitor(browser, studio, viewport={"width": width, "height": 900}) as (context, _):
        person = Person(context.new_page(), studio).inspect(**INSPECT)
        expected = inspect("translation", CAT).attention("encoder", 1, 1, words=True)
        wanted = person.scale()[np.rint(expected * 255).astype(int)]
        assert np.abs(person.drawn_colours() - wanted).max() <= 4


def press_until(person, key, reached, most=80):
    """Press a key until something holds, counting."""
    for count in range(most):
        if reached():
            return count
        person.page.keyboard.press(key)
    raise AssertionError(f"{most} times {key} did not lead there")


def is_focused(locator):
    return lambda: locator.evaluate("one => one === document.activeElement")


def test_the_keyboard_alone_is_enough(person, inspect):
    """Nothing here touches the mouse."""
    person.inspect(**INSPECT)
    keys = person.page.keyboard
    weights = inspect("translation", CAT).attention("encoder", 1, 1, words=True)
    keys.press("Tab")
    expect(person.page.get_by_role("link", name=re.compile("^Skip"))).to_be_focused()
    press_until(person, "Tab", is_focused(person.field))
    press_until(person, "Tab", is_focused(person.matrix))
    keys.press("Control+Home")
    person.reads("The", "The", weights[0, 0])
    keys.press("ArrowDown")
    keys.press("End")
    person.reads("cat", "<end>", weights[1, 8])
    keys.press("Home")
    keys.press("ArrowRight")
    keys.press("Enter")
    expect(person.matrix.get_by_role("gridcell", selected=True)).to_have_text(f"{weights[1, 1]:.4f}")
    expect(person.page.get_by_role("heading", name="How “cat” came to look at “cat”")).to_be_visible()
    keys.press("Control+End")
    person.reads("<end>", "<end>", weights[8, 8])
    keys.press("Escape")
    expect(person.page.get_by_role("heading", name="How “cat” came to look at “cat”")).to_be_hidden()


def test_steps_that_come_late_leave_the_cell_looked_at(person, inspect):
    """The row of the pinned cell is made exact when they are there; what is read aloud stays."""
    held = []
    weights = inspect("translation", CAT).attention("encoder", 1, 1, words=True)
    person.inspect(**INSPECT)
    person.settle()
    person.page.route(re.compile("/steps"), lambda route: held.append(route))
    person.matrix.focus()
    for key in ("Control+Home", "ArrowRight", "Enter"):
        person.page.keyboard.press(key)
    pinned = person.matrix.get_by_role("gridcell", selected=True)
    person.wait_until(lambda: abs(float(pinned.inner_text()) - weights[0, 1]) < HALF, "the cell is pinned")
    heading = person.page.get_by_role("heading", name="How “The” came to look at “cat”")
    expect(heading).to_have_count(0)  # the steps below it would be those of another cell
    person.page.keyboard.press("Control+End")
    person.reads("<end>", "<end>", weights[8, 8])
    assert held
    for route in held:
        route.continue_()
    person.settle()
    person.reads("<end>", "<end>", weights[8, 8])
    expect(heading).to_be_visible()


def test_the_matrix_is_one_tab_stop(person):
    person.inspect(**INSPECT)
    person.matrix.focus()
    person.page.keyboard.press("Tab")
    assert not person.matrix.evaluate("grid => grid.contains(document.activeElement)")
    person.page.keyboard.press("Shift+Tab")
    expect(person.matrix).to_be_focused()


def test_heads_and_tabs_are_walked_with_arrows(person):
    person.inspect(**INSPECT)
    head = person.button("Encoder, layer 1, head 1")
    head.focus()
    person.page.keyboard.press("ArrowRight")
    expect(person.button("Encoder, layer 1, head 2")).to_be_focused()
    expect(person.page.get_by_role("heading", name=re.compile("^Encoder, layer 1, head 2"))).to_be_visible()
    person.page.keyboard.press("Enter")
    expect(person.button("Encoder, layer 1, head 2")).to_have_attribute("aria-pressed", "true")
    person.page.get_by_role("tab", name="Inspect").focus()
    person.page.keyboard.press("ArrowRight")
    expect(person.page.get_by_role("tab", name="Layers")).to_have_attribute("aria-selected", "true")
    person.page.keyboard.press("End")
    expect(person.page.get_by_role("tab", name="Lessons")).to_have_attribute("aria-selected", "true")


def test_what_is_focused_can_be_seen(person):
    person.inspect(**INSPECT)
    unmarked = []
    for _ in range(40):
        person.page.keyboard.press("Tab")
        mark = person.page.evaluate(
            """() => { const style = getComputedStyle(document.activeElement);
            return [document.activeElement.outerHTML.slice(0, 80), style.outlineStyle, style.boxShadow]; }"""
        )
        if mark[1] == "none" and mark[2] == "none" and not mark[0].startswith("<body"):
            unmarked.append(mark[0])
    assert unmarked == []


def luminance(colour):
    share = np.array(colour) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_colours_of_ideas_are_read_on_every_ground(browser, studio, theme):
    with visitor(browser, studio, color_scheme=theme) as (context, _):
        page = Person(context.new_page(), studio).inspect(**INSPECT).page
        names = ["--card", "--paper", "--ink", "--soft", "--query", "--key", "--value", "--output"]
        read = page.evaluate(READ_COLOURS, [page.locator(".regard").element_handle(), names])
        colours = dict(zip(names, map(luminance, read), strict=True))
        assert (colours["--card"] > 0.5) == (theme == "light")
        for ground in ("--card", "--paper"):
            for name in names[2:]:
                low, high = sorted([colours[ground], colours[name]])
                assert (high + 0.05) / (low + 0.05) >= 4.5, (theme, ground, name)


def test_less_motion_where_that_is_asked_for(browser, studio):
    with visitor(browser, studio, reduced_motion="reduce") as (context, _):
        person = Person(context.new_page(), studio).inspect(**INSPECT)
        person.button("Encoder, layer 0, head 2").click()
        moving = person.page.evaluate(
            """() => document.getAnimations().filter(
                one => one.playState === "running" && one.effect.getComputedTiming().duration > 20).length"""
        )
        assert moving == 0


def test_forced_colours_are_respected(browser, studio, inspect):
    with visitor(browser, studio, forced_colors="active") as (context, _):
        person = Person(context.new_page(), studio).inspect(**INSPECT)
        expected = inspect("translation", CAT).attention("encoder", 1, 1, words=True)
        row = person.matrix.get_by_role("row").nth(5).get_by_role("gridcell")
        expect(row).to_have_text([f"{weight:.4f}" for weight in expected[4]])
        assert violations(person.page) == []


ASKED = ".words.source .word:not(.is-answering:not(.is-asking))"  # the word looked at has a ring of its own
CHOSEN = {
    "inspect": [".tabs button", ".segments button", ".block-attention", ".thumb-open", ASKED],
    "compare": [".tabs button", ".watch-words .chip"],
    "write": [".tabs button", ".write-text .chip"],
}


def edge_of(element):
    """How colourful an element is at its edge, where all that is not chosen is black, white or grey."""
    seen = np.array(Image.open(BytesIO(element.screenshot())).convert("RGB")).astype(int)
    return np.ptp(seen[len(seen) // 2, 1])


@pytest.mark.parametrize("place", CHOSEN)
def test_what_is_chosen_is_seen_in_forced_colours(browser, studio, place):
    """Washes and shadows are gone there; the colour of selections must do, on what is chosen alone."""
    with visitor(browser, studio, forced_colors="active") as (context, _):
        person = Person(context.new_page(), studio)
        settle(person, place)
        for kind in CHOSEN[place]:
            chosen, other = (
                person.page.locator(f"{kind}:is([aria-pressed={down}], [aria-selected={down}]):visible").first
                for down in ("true", "false")
            )
            expect(chosen).to_be_visible()
            assert edge_of(chosen) > 40, kind
            assert other.count() == 0 or edge_of(other) < 10, kind
        if place == "inspect":
            root = person.page.locator(".regard").element_handle()
            pin = person.page.evaluate(READ_COLOURS, [root, ["--pin"]])[0]
            marks = pixels(person.page.locator(".picture-matrix canvas").nth(1))[..., :3]
            assert (np.abs(marks - pin).max(-1) <= 8).any(), "the pinned cell has its ring"


@pytest.mark.parametrize(("system", "other"), [("light", "dark"), ("dark", "light")])
def test_forced_colours_are_not_mixed_with_a_theme(browser, studio, system, other):
    """Whichever theme was chosen before, the colours are those of the system, and so they fit each other."""
    found = []
    for theme in ("", other):
        with visitor(browser, studio, forced_colors="active", color_scheme=system) as (context, _):
            person = Person(context.new_page(), studio).visit()
            person.page.evaluate("theme => localStorage.setItem('regard-theme', theme)", theme)
            person.page.reload()
            page = person.inspect(**INSPECT).page
            root = page.locator(".regard").element_handle()
            found.append(page.evaluate(READ_COLOURS, [root, ["--pin", "--card", "--scale-0", "--scale-5"]]))
            expect(page.locator("button.theme")).to_be_hidden()
    assert found[0] == found[1]
    luminance = [sum(colour) for colour in found[0]]
    assert (luminance[1] > luminance[3]) == (system == "light")


def test_the_focus_is_seen_in_forced_colours(browser, studio):
    with visitor(browser, studio, forced_colors="active") as (context, _):
        page = Person(context.new_page(), studio).inspect(**INSPECT).page
        for _ in range(5):
            page.keyboard.press("Tab")
            ring = page.evaluate(
                """() => { const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
                return [outlineStyle, parseFloat(outlineWidth)]; }"""
            )
            assert ring == ["solid", 3]


def test_every_picture_has_a_sentence_and_a_table(person):
    for place in ("inspect", "layers", "compare", "training", "translate"):
        settle(person, place)
        panels = person.page.locator(".panel:visible").filter(has=person.page.locator("canvas, svg"))
        for number in range(panels.count()):
            panel = panels.nth(number)
            if panel.locator(".matrix, .lines, .tree, .curve").count():
                assert panel.locator("details.as-table").count(), panel.inner_text()[:60]
                assert panel.locator("p").count(), panel.inner_text()[:60]
