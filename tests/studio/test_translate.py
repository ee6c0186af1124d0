"""Translate and watch: output and alignment, the decoder word by word, and the beam as a tree."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from .person import HALF, numbers, values

pytestmark = pytest.mark.xdist_group("browser")
TEXT = "The animal didn't cross the street because it was too tired"


@pytest.fixture
def tab(person):
    """The tab with a sentence that is translated."""
    panel = person.visit(model="translation", text=TEXT, tab="translate").page.get_by_role("tabpanel")
    expect(panel.get_by_role("heading", name="Finished translations")).to_be_visible()
    expect(panel.get_by_role("tree").locator(".node.best").first).to_be_visible()
    return panel


def test_the_output_is_the_models(tab, load):
    written = load("translation").translate(TEXT).text
    expect(tab.get_by_text(f"It writes: {written}")).to_be_visible()


def test_the_alignment_is_the_cross_attention_of_the_chosen_head(tab, inspect):
    tab.get_by_label("Cross-attention of").select_option(label="layer 0, head 2")
    tab.get_by_role("button", name="Matrix", exact=True).click()
    grid = tab.get_by_role("grid").locator("visible=true").first
    expect(grid.get_by_role("gridcell").first).to_be_attached()
    expected = inspect("translation", TEXT).attention("cross", 0, 2, words=True)
    assert np.allclose(numbers(grid), expected, atol=HALF)
    tab.get_by_label("Cross-attention of").select_option(label="layer 1, all heads averaged")
    averaged = inspect("translation", TEXT).attention("cross", 1, words=True).mean(0)
    expect(grid.get_by_role("gridcell").first).not_to_have_text(f"{expected[0, 0]:.4f}")
    assert np.allclose(numbers(grid), averaged, atol=HALF)


def test_the_lines_of_the_alignment_look_as_their_legend_says(tab, inspect):
    """A weight is its line's opacity; only beside a chosen word are the others fainter."""
    tab.get_by_label("Cross-attention of").select_option(label="layer 0, head 2")
    expected = inspect("translation", TEXT).attention("cross", 0, 2, words=True)
    curves, legend = tab.locator(".alignment .lines-curves path"), tab.locator(".alignment .legend")
    look = (
        "all => all.map(one => one.getAttribute('stroke-opacity') * getComputedStyle(one.parentNode).opacity)"
    )
    expect(curves).to_have_count(int((expected >= 0.02).sum()))
    assert np.allclose(curves.evaluate_all(look), values(curves))
    samples = legend.locator("path")
    assert samples.evaluate_all(
        "all => all.map(one => Number(one.getAttribute('stroke-opacity')))"
    ) == values(samples)
    asking = tab.get_by_role("list", name="Words that ask").get_by_role("button")
    expect(asking.last).to_have_text("<end>")
    asking.nth(1).click()
    tab.page.mouse.move(5, 5)
    chosen = curves.evaluate_all("all => all.map(one => one.parentNode.dataset.row === '1')")
    drawn = np.array(values(curves)) * np.where(chosen, 1, 0)
    expect(
        tab.get_by_role("button", pressed=True).filter(has_text=asking.nth(1).inner_text())
    ).to_be_visible()
    assert np.allclose(np.array(curves.evaluate_all(look)), drawn)
    tab.get_by_role("button", name="Matrix", exact=True).click()
    expect(legend.locator(".ramp")).to_be_visible()
    expect(legend.locator("path")).to_have_count(0)


def test_the_decoder_is_stepped_word_by_word(tab, inspect):
    seen = inspect("translation", TEXT)
    decoder = tab.get_by_role("group", name="The decoder, word by word")
    ids = seen.followed
    for step in range(3):
        expect(decoder.get_by_text(f"step {step} of {len(ids) - 1}")).to_be_visible()
        table = decoder.get_by_role("table")
        best = seen.next(step, top=1)[0]
        expect(table.get_by_role("rowheader").first).to_contain_text(best.text.strip())
        chances = values(table.locator(".share-bar"))
        assert chances[0] == pytest.approx(best.probability, abs=1e-4)
        assert sum(chances) == pytest.approx(1, abs=1e-3)
        decoder.get_by_role("button", name="Next", exact=True).click()
    decoder.get_by_role("button", name="Back", exact=True).click()
    expect(decoder.get_by_text(f"step 2 of {len(ids) - 1}")).to_be_visible()


def test_a_step_taken_before_the_words_are_there_is_shown_when_they_are(person, inspect):
    """A page that throws fails its test; here the words of the vocabulary come last."""
    held = []
    person.page.route(re.compile("/vocabulary$"), lambda route: held.append(route))
    person.arrive(model="translation", text=TEXT, tab="translate")
    decoder = person.page.get_by_role("tabpanel").get_by_role("group", name="The decoder, word by word")
    expect(decoder.get_by_text(re.compile("^step 0 of"))).to_be_visible()
    decoder.get_by_role("button", name="Next", exact=True).click()
    expect(decoder.get_by_text(re.compile("^step 1 of"))).to_be_visible()
    assert held
    for route in held:
        route.continue_()
    best = inspect("translation", TEXT).next(1, top=1)[0]
    expect(decoder.get_by_role("table").get_by_role("rowheader").first).to_contain_text(best.text.strip())


def test_the_beam_tree_is_that_of_the_search(tab, load):
    found = load("translation").translate(TEXT, beams=4, n_best=4, tree=True, length_penalty=0.6)
    tree = tab.get_by_role("tree")
    best = tree.locator(".node.best")
    expect(best).to_have_count(len(found.tokens) + 1)
    expect(tab.get_by_role("listitem").filter(has_text=found.text).filter(has_text="score")).to_contain_text(
        f"{found.score:.2f}".replace("-", "−")
    )
    scores = np.array([node.score for node in found.tree.nodes])
    shown = np.array(values(tree.get_by_role("treeitem")))
    assert len(shown) > 20
    assert np.abs(shown[:, None] - scores).min(axis=1).max() < 1e-3


def test_a_branch_says_why_it_died(tab):
    outranked = tab.get_by_role("tree").locator(".node.outranked").first
    outranked.click()
    expect(
        tab.get_by_role("status").filter(has_text="Outranked: better hypotheses filled the beam")
    ).to_be_visible()
    tab.page.keyboard.press("ArrowLeft")
    expect(tab.get_by_role("status").filter(has_text=re.compile("Kept|begins"))).to_be_visible()


def test_words_of_a_branch_stay_apart(tab):
    labels = tab.get_by_role("treeitem").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert len(labels) > 20
    assert not [label for label in labels if "pastravers" in label or "animaln" in label]


def test_other_beams_search_again(tab, load):
    tab.get_by_role("spinbutton", name="Beams, typed").fill("2")
    found = load("translation").translate(TEXT, beams=2, n_best=2, length_penalty=0.6)
    items = tab.get_by_role("group", name=re.compile("^The beam")).get_by_role("list").get_by_role("listitem")
    expect(items).to_have_count(2)
    expect(items.first).to_contain_text(found.text)
