"""Fill and classify: what stands in a gap, what [MASK] looks at, which class a text is."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from .person import HALF, comes_to, numbers, values

pytestmark = pytest.mark.xdist_group("browser")
PARIS = "Paris is the [MASK] of France."
FILM = "The film was good."


@pytest.fixture
def gap(person):
    """The tab of a model that fills gaps."""
    panel = person.visit(model="masked", text=PARIS, tab="read").page.get_by_role("tabpanel")
    expect(panel.get_by_role("table", name="What stands in the gap")).to_be_visible()
    return panel


def test_what_stands_in_the_gap(gap, load):
    choices = load("masked").fill(PARIS, top=5).masks[0]
    shown = values(gap.get_by_role("table", name="What stands in the gap").locator(".share-bar"))
    assert shown[:5] == pytest.approx([choice.probability for choice in choices], abs=1e-5)
    assert sum(shown) == pytest.approx(1, abs=1e-4)


def test_what_the_mask_looks_at(gap, inspect):
    seen = inspect("masked", PARIS)
    at = next(number for number, word in enumerate(seen.source.words) if word.special == "mask")
    grid = gap.get_by_role("grid", name="Each head's row for this place")
    expected = [
        seen.attention("encoder", layer, head, words=True)[at] for layer in range(2) for head in range(4)
    ]
    expect(grid.get_by_role("gridcell").first).to_be_attached()
    assert np.allclose(numbers(grid), expected, atol=HALF)
    words = gap.get_by_role("list", name=re.compile("^The sentence, shaded")).get_by_role("button")
    last = seen.attention("encoder", 1, words=True).mean(0)[at]
    assert np.allclose(values(words), last, atol=HALF)
    gap.get_by_label("Head", exact=True).select_option(label="layer 0, head 2")
    one = seen.attention("encoder", 0, 2, words=True)[at]
    expect(gap.get_by_text(re.compile("^In layer 0, head 2"))).to_be_visible()
    assert np.allclose(values(words), one, atol=HALF)


def test_a_word_is_hidden_and_shown_again(gap, load):
    gap.get_by_role("button", name="Hide Paris").click()
    field = gap.get_by_role("textbox", name="Your sentence")
    expect(field).to_have_value("[MASK] is the [MASK] of France.")
    expect(gap.get_by_role("button", name="A gap")).to_have_count(2)
    gap.get_by_role("button", name="A gap").first.click()
    best = load("masked").fill("[MASK] is the [MASK] of France.", top=1).masks[0][0]
    shown = values(gap.get_by_role("table").first.locator(".share-bar"))
    assert max(shown[:-1]) == pytest.approx(best.probability, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "word", "masked"),
    [
        ("a cat and a dog", 3, "a cat and [MASK] dog"),
        ("😀 a cat, a cat", -1, "😀 a cat, a [MASK]"),
        ("The film was good. The film", 5, "The film was good. [MASK] film"),
    ],
)
def test_the_chosen_word_is_hidden_and_no_other(person, text, word, masked):
    person.visit(model="masked", text=text, tab="read")
    words = person.page.get_by_role("group", name="Words; choose one to hide it").get_by_role("button")
    words.nth(word).click()
    expect(person.field).to_have_value(masked)


def test_what_is_filled_and_classified_follows_the_heads_that_are_off(person, inspect):
    off = [("encoder", 0, 0), ("encoder", 0, 1), ("encoder", 1, 2)]
    ablate = ",".join(".".join(map(str, head)) for head in off)
    person.visit(model="masked", text=PARIS, tab="read", ablate=ablate)
    without, whole = inspect("masked", PARIS, ablate=off), inspect("masked", PARIS)
    at = next(place for place, token in enumerate(whole.source.tokens) if token.special == "mask")
    best, before = (np.sort(seen.probabilities[at])[::-1][:3] for seen in (without, whole))
    assert not np.allclose(best, before, atol=1e-4)
    shown = values(person.page.get_by_role("table", name="What stands in the gap").locator(".share-bar"))
    assert shown[:3] == pytest.approx(best, abs=1e-5)
    person.visit(model="classes", text=FILM, tab="read", ablate=ablate)
    logits = inspect("classes", FILM, ablate=off).recording.output.float().softmax(-1)
    shown = values(person.page.get_by_role("table", name="Which class it is").locator(".share-bar"))
    assert shown == pytest.approx(sorted(logits.flatten().tolist(), reverse=True), abs=1e-5)


def test_a_text_is_classified(person, load):
    panel = person.visit(model="classes", text=FILM, tab="read").page.get_by_role("tabpanel")
    table = panel.get_by_role("table", name="Which class it is")
    expect(table).to_be_visible()
    found = load("classes").classify(FILM)
    names = table.get_by_role("rowheader").all_inner_texts()
    shown = dict(zip(names, values(table.locator(".share-bar")), strict=True))
    assert shown == pytest.approx(found.probabilities, abs=1e-5)
    assert names[0] == found.label


def test_a_typed_text_is_classified_anew(person, load):
    person.visit(model="classes", text=FILM, tab="read")
    person.type("The film was bad. What a dull, long evening!")
    found = load("classes").classify("The film was bad. What a dull, long evening!")
    table = person.page.get_by_role("table", name="Which class it is")
    comes_to(table.locator(".share-bar").first, found.probability)
