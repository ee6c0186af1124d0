"""Two sentences: what changed over all heads, ranked, and the difference map of one word."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.inspection.analysis.compare import compare

from .person import numbers, values

pytestmark = pytest.mark.xdist_group("browser")
TIRED = "The animal didn't cross the street because it was too tired"
WIDE = "The animal didn't cross the street because it was too wide"
MAP = re.compile("^Difference map")


@pytest.fixture
def both(inspect):
    """What Python says of the two."""
    return compare(inspect("translation", TIRED), inspect("translation", WIDE))


@pytest.fixture
def tab(person):
    """The tab with both sentences, watching "it"."""
    chosen = dict(model="translation", text=TIRED, second=WIDE, tab="compare")
    panel = person.visit(**chosen).page.get_by_role("tabpanel")
    expect(panel.get_by_role("grid", name=MAP).get_by_role("gridcell").first).to_be_attached()
    return panel


def test_heads_are_ranked_by_how_much_changed(tab, both):
    ranked = both.changes("it", "source")
    grid = tab.get_by_role("grid", name=MAP)
    rows = grid.get_by_role("rowheader").all_inner_texts()
    assert rows == [f"layer {one.layer}, head {one.head}" for one in ranked]
    assert np.allclose(numbers(grid), [one.difference for one in ranked], atol=1e-5)
    expect(grid.get_by_role("columnheader").nth(11)).to_have_text("tired/wide")
    best = ranked[0]
    told = f"Encoder, layer {best.layer}, head {best.head} changed most: {100 * best.distance:.0f} %"
    expect(tab.get_by_text(told)).to_be_visible()


def test_the_words_that_differ_are_named_without_their_marks(person):
    person.visit(model="translation", text=f"{TIRED}.", second=f"{WIDE}.", tab="compare")
    claim = person.page.locator(".compare-finding .claim")
    expect(claim).to_have_text(re.compile("^(“tired” gives “.+” .*, “wide” gives|Both sentences give)"))


def test_it_begins_with_its_finding_and_the_map_is_above_the_fold(tab, both):
    finding = tab.locator(".compare-finding")
    likeliest = [
        max(both.next(top=20), key=lambda each, name=name: getattr(each, name))
        for name in ("first", "second")
    ]
    first, second = likeliest
    if first.text == second.text:
        claim = f"Both sentences give “{first.text.strip()}” ({first.first:.2f} and {second.second:.2f})."
    else:
        claim = (
            f"“tired” gives “{first.text.strip()}” ({first.first:.2f}), "
            f"“wide” gives “{second.text.strip()}” ({second.second:.2f})."
        )
    expect(finding.locator(".claim")).to_have_text(claim)
    best = both.changes("it", "source")[0]
    if best.distance >= 0.05:
        told = f"encoder, layer {best.layer}, head {best.head} ({100 * best.distance:.0f} %)"
    else:
        told = "No head moved more than 5 % of the attention of “it”."
    expect(finding).to_contain_text(told)
    map_box, sentence = (
        tab.get_by_role("grid", name=MAP).bounding_box(),
        finding.bounding_box(),
    )
    assert map_box is not None
    assert sentence is not None
    assert sentence["y"] < map_box["y"]
    assert map_box["y"] + 250 < 900, "most of the map is on the first screen"


def test_one_heads_rows_stand_side_by_side(tab, both):
    second = both.changes("it", "source")[1]
    tab.get_by_role("grid", name=MAP).focus()
    tab.page.keyboard.press("Control+Home")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    heading = (
        f"Encoder, layer {second.layer}, head {second.head}: {second.distance:.3f} of the attention moved"
    )
    expect(tab.get_by_role("heading", name=heading)).to_be_visible()
    table = tab.get_by_role("table", name="What “it” looks at in both sentences")
    cells = table.get_by_role("cell").all_inner_texts()
    shown = np.array([float(text.replace("−", "-")) for text in cells]).reshape(-1, 3)
    assert np.allclose(shown[:, 0], second.first, atol=1e-4)
    assert np.allclose(shown[:, 1], second.second, atol=1e-4)
    assert np.allclose(shown[:, 2], second.difference, atol=1e-4)


def test_the_outputs_and_the_next_word_where_they_part(tab, both):
    for each in (both.first, both.second):
        paragraph = tab.get_by_role("group", name="What the model makes of them").get_by_role("paragraph")
        expect(paragraph.filter(has_text=each.target.text).first).to_be_visible()
    table = tab.get_by_role("table", name="The next word where the outputs part")
    first = both.next(top=1)[0]
    row = table.get_by_role("row").nth(1)
    expect(row).to_contain_text(first.text.strip())
    shown = [float(cell.replace("−", "-")) for cell in row.get_by_role("cell").all_inner_texts()]
    assert shown == pytest.approx([first.first, first.second, first.second - first.first], abs=2e-3)


def test_another_word_is_watched(tab, both):
    tab.get_by_role("group", name="Words that are read").get_by_role("button", name="street").click()
    expect(tab.get_by_role("heading", name=re.compile("^What “street” looks at"))).to_be_visible()
    ranked = both.changes("street", "source")
    grid = tab.get_by_role("grid", name=MAP)
    expect(grid.get_by_role("rowheader").first).to_have_text(
        f"layer {ranked[0].layer}, head {ranked[0].head}"
    )
    assert np.allclose(numbers(grid), [one.difference for one in ranked], atol=1e-5)


def test_a_second_sentence_is_typed(tab, inspect):
    other = "The animal didn't cross the street because it was too old"
    field = tab.get_by_role("textbox", name="Second sentence")
    field.click()
    tab.page.keyboard.press("End")
    for _ in "wide":
        tab.page.keyboard.press("Backspace")
    field.press_sequentially("old")
    expect(tab.get_by_role("grid", name=MAP).get_by_role("columnheader").nth(11)).to_have_text("tired/old")
    ranked = compare(inspect("translation", TIRED), inspect("translation", other)).changes("it", "source")
    assert np.allclose(
        numbers(tab.get_by_role("grid", name=MAP)), [one.difference for one in ranked], atol=1e-5
    )


def test_a_word_is_watched_that_both_sentences_have(person):
    """Where "it" has no partner in the second sentence, another word is watched instead of an error."""
    person.visit(model="translation", text=TIRED, second="The animal sleeps", tab="compare")
    watched = person.page.locator(".watch-words .chip[aria-pressed=true]")
    expect(watched).to_have_text("animal")
    expect(person.page.get_by_role("heading", name=re.compile("^What “animal” looks at"))).to_be_visible()
    assert not [text for text in person.page.get_by_role("alert").all_inner_texts() if text]


def test_a_sentence_of_ones_own_is_kept_beside_an_edit_of_it(person, page):
    """A word is exchanged as in the lectures' pairs; where there is none, the sentence begins as a copy."""
    second = page.get_by_role("textbox", name="Second sentence")
    own = {"The cat is tired.": "The cat is wide.", "I see the red house.": "I see the red house."}
    for text, edited in own.items():
        page.goto("about:blank")
        person.visit(model="translation", tab="compare", text=text)
        expect(page.get_by_role("textbox", name="First sentence")).to_have_value(text)
        expect(second).to_have_value(edited)
    expect(page.locator(".compare-finding")).to_contain_text("change a word of the second one")


def test_the_head_that_changed_is_opened_in_inspect(tab, person, both):
    best = both.changes("it", "source")[0]
    tab.get_by_role("button", name="Open this head in Inspect").click()
    heading = re.compile(f"^Encoder, layer {best.layer}, head {best.head}")
    expect(person.page.get_by_role("heading", name=heading)).to_be_visible()
    assert values(person.page.locator(".words.source button")), "shaded by that head"
