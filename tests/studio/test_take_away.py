"""Take it away: every picture as PNG, SVG and CSV, the numbers as npz, the sentence as a page, and a link."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ElementTree
from io import StringIO
from threading import Event

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from .person import HALF, Person, numbers
from .taking import TABLES, check_file, saved
from .watching import visitor

pytestmark = pytest.mark.xdist_group("browser")
CAT = "The cat sleeps because it is tired."
WIDE = "The animal didn't cross the street because it was too wide"
PLACE = dict(model="translation", text=CAT, kind="encoder", layer=1, head=1, query=4)
TABS = [
    dict(tab="inspect", **PLACE),
    dict(tab="inspect", picture="lines", **PLACE),
    dict(tab="layers", model="translation", text=CAT),
    dict(tab="translate", model="translation", text=CAT),
    dict(tab="write", model="translation", text=CAT),
    dict(tab="compare", model="translation", text=CAT, second=WIDE),
    dict(tab="training", model="translation", text=CAT),
    dict(tab="read", model="masked", text="Paris is the [MASK] of France."),
    dict(tab="read", model="classes", text="The film was good."),
    dict(tab="byhand"),
]
TOAST = ".toast:not(:empty)"
EMPTY_AT_FIRST = [each for each in TABS if each["tab"] not in ("inspect", "byhand")]


@pytest.fixture
def opened(person):
    """Look at one head, with what can be saved of it unfolded."""
    person.inspect(**PLACE)
    person.page.get_by_label("Save attention", exact=True).click()
    return person


def test_a_table_holds_the_weights(opened, inspect, tmp_path):
    path = saved(opened, "Save attention as CSV", tmp_path)
    rows = list(csv.reader(StringIO(path.read_text(encoding="utf-8-sig"))))
    seen = inspect("translation", CAT)
    assert rows[0][1:] == seen.source.labels(words=True)
    assert [row[0] for row in rows[1:]] == seen.source.labels(words=True)
    expected = seen.attention("encoder", 1, 1, words=True)
    assert np.allclose(np.array([row[1:] for row in rows[1:]], float), expected, atol=HALF)


def test_a_drawing_holds_the_words(opened, inspect, tmp_path):
    path = saved(opened, "Save attention as SVG", tmp_path)
    texts = {(element.text or "").strip() for element in ElementTree.parse(path).iter()}
    assert set(inspect("translation", CAT).source.labels(words=True)) <= texts


def test_a_picture_is_painted(opened, inspect, tmp_path):
    path = saved(opened, "Save attention as PNG", tmp_path)
    image = np.array(Image.open(path).convert("RGB")).astype(int)
    assert min(image.shape[:2]) > 300
    painted = np.unique(image.reshape(-1, 3), axis=0)
    scale = opened.scale()
    for weight in inspect("translation", CAT).attention("encoder", 1, 1, words=True).flat:
        distance = np.abs(painted - scale[round(float(weight) * 255)]).max(axis=1).min()
        assert distance <= 4, weight


def test_an_archive_holds_every_weight(opened, inspect, tmp_path):
    path = saved(opened, "Save the sentence as npz", tmp_path)
    seen = inspect("translation", CAT)
    with np.load(path, allow_pickle=False) as archive:
        for kind in seen.kinds:
            expected = np.stack([seen.attention(kind, layer) for layer in range(2)])
            assert np.allclose(archive[kind], expected, atol=1e-5)


def test_a_link_reproduces_a_finding(opened, browser, studio):
    page = opened.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=studio)
    opened.page.locator(".picture-matrix .matrix-stage").click(position=opened.cell(4, 1))
    opened.button("Copy a link to what is seen").locator("visible=true").click()
    expect(page.locator(TOAST)).to_have_text(re.compile("The link is copied."))
    expect(page.locator(TOAST)).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    shown = numbers(opened.matrix)
    cell = opened.matrix.get_by_role("gridcell", selected=True).inner_text()
    with visitor(browser, studio) as (context, _):
        other = Person(context.new_page(), studio)
        other.page.goto(link)
        expect(other.matrix.get_by_role("gridcell", selected=True)).to_have_text(cell)
        assert other.shown_head() == opened.shown_head()
        assert other.field.input_value() == CAT
        assert np.array_equal(numbers(other.matrix), shown)


def test_temperature_and_what_is_off_are_in_the_link_too(person, studio, browser):
    person.visit(model="writing", tab="write", text="The quick brown")
    person.page.get_by_role("spinbutton", name="Temperature, typed").fill("0.7")
    said = person.page.get_by_text(re.compile("^Entropy"))
    expect(person.page).to_have_url(re.compile("temperature=0.7"))
    expect(said).to_be_visible()
    with visitor(browser, studio) as (context, _):
        other = context.new_page()
        other.goto(person.page.url)
        expect(other.get_by_text(re.compile("^Entropy"))).to_have_text(said.inner_text())


def test_back_returns_to_the_head_before(opened):
    before = opened.shown_head()
    opened.button("Decoder, cross, layer 0, head 3").click()
    heading = opened.page.get_by_role("heading", name=re.compile("^Decoder, cross, layer 0, head 3"))
    expect(heading).to_be_visible()
    opened.page.go_back()
    expect(heading).to_be_hidden()
    assert opened.shown_head() == before


@pytest.mark.parametrize("chosen", TABS, ids=lambda chosen: chosen["tab"])
def test_every_picture_of_a_tab_can_be_saved(person, chosen, tmp_path):
    person.visit(**chosen)
    wait_for_vectors(person, chosen["tab"])
    offers = person.page.locator("details.save").locator("visible=true")
    expect(offers.first).to_be_attached()
    assert offers.count() >= 1
    for number in range(offers.count()):
        offer = offers.nth(number)
        offer.locator("summary").click()
        name = offer.locator("summary").get_attribute("aria-label").removeprefix("Save ")
        expect(offer.get_by_role("button", name="Copy a link to what is seen")).to_be_visible()
        for ending in ("CSV", "npz", "HTML") if name in TABLES else ("PNG", "SVG", "CSV", "npz", "HTML"):
            button = offer.get_by_role("button", name=re.compile(f"as {ending}$"))
            check_file(saved(person, button, tmp_path))
        offer.locator("summary").click()


@pytest.mark.parametrize("chosen", EMPTY_AT_FIRST, ids=lambda chosen: chosen["tab"])
def test_what_is_asked_for_before_it_is_there_comes_when_it_is(person, chosen, tmp_path):
    page, held, files, is_open = person.page, [], [], Event()
    page.on("download", lambda file: files.append(file))

    def hold(route):
        if is_open.is_set():
            route.continue_()
        else:
            held.append(route)

    page.route(re.compile("/api/(trace|next|progress/.*)$"), hold)
    person.arrive(**chosen)
    offers = page.locator("details.save").locator("visible=true")
    for offer in offers.all():
        offer.locator("summary").click()
        offer.get_by_role("button", name=re.compile("as CSV$")).click()
    expect(page.locator(TOAST)).to_have_text(re.compile("it is saved when it is here"))
    is_open.set()
    for route in held:
        route.continue_()
    person.settle()
    wanted = offers.count()
    person.wait_until(lambda: len(files) == wanted, f"{wanted} files do not come")
    for file in files:
        file.save_as(tmp_path / file.suggested_filename)
        check_file(tmp_path / file.suggested_filename)


def test_nothing_is_saved_of_what_never_came(person):
    person.page.route(re.compile("/api/trace$"), lambda route: route.abort())
    person.visit(tab="compare", model="translation", text=CAT, second=WIDE)
    person.page.get_by_label("Save difference map", exact=True).click()
    person.button("Save difference map as CSV").click()
    expect(person.page.locator(TOAST)).to_contain_text("There is nothing to save here yet.")


def test_a_file_that_is_not_saved_is_said_until_the_message_is_closed(opened):
    opened.page.route(
        re.compile(r"/save\.npz"), lambda route: route.fulfill(status=503, json={"error": "disk full"})
    )
    opened.button("Save the sentence as npz").first.click()
    message = opened.page.locator(TOAST)
    expect(message).to_be_visible()
    expect(message).to_contain_text("attention.npz is not saved: disk full")
    opened.button("Close this message").click()
    expect(message).to_have_count(0)


def wait_for_vectors(person, tab):
    """What stands below the fold of Look is drawn when a person comes to it."""
    if tab == "inspect":
        card = person.page.locator(".panel.vectors")
        card.scroll_into_view_if_needed()
        expect(card.get_by_role("gridcell").first).to_be_attached()
        expect(person.page.get_by_label("Save intervention", exact=True)).to_be_visible()
