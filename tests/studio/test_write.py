"""The next word: the whole distribution, reshaped in the browser at once, sampled, and gone on with."""

from __future__ import annotations

import re
from contextlib import suppress

import numpy as np
import pytest
from playwright.sync_api import Error, expect

from .person import comes_to, values

pytestmark = pytest.mark.xdist_group("browser")
TEXT = "The quick brown"


@pytest.fixture
def tab(person):
    """The tab of a model that writes."""
    panel = person.visit(model="writing", text=TEXT, tab="write").page.get_by_role("tabpanel")
    expect(panel.get_by_text(re.compile("^Entropy"))).to_be_visible()
    return panel


@pytest.fixture
def logits(inspect):
    """What Python sees after the last word."""
    return inspect("writing", TEXT).logits[-1].astype(np.float64)


def softmax(scores):
    shares = np.exp(scores - scores.max())
    return shares / shares.sum()


def shown_shares(tab):
    """The bars of words, and the last one, of all others together."""
    return np.array(values(tab.get_by_role("table").first.locator(".share-bar")))


def entropy(shares):
    kept = shares[shares > 0]
    return -(kept * np.log2(kept)).sum()


def test_the_distribution_is_the_models(tab, logits):
    shares = np.sort(softmax(logits))[::-1]
    shown = shown_shares(tab)
    assert np.allclose(shown[:-1], shares[: len(shown) - 1], atol=1e-4)
    assert shown.sum() == pytest.approx(1, abs=1e-4)
    said = tab.locator("[data-value]").filter(has_text=re.compile("^Entropy")).get_attribute("data-value")
    assert float(said) == pytest.approx(entropy(shares), abs=1e-3)


@pytest.mark.parametrize("temperature", ["0.5", "2", "0.05"])
def test_temperature_reshapes_it(tab, logits, temperature):
    before = tab.page.evaluate("performance.getEntriesByType('resource').length")
    tab.get_by_role("spinbutton", name="Temperature, typed").fill(temperature)
    shares = np.sort(softmax(logits / float(temperature)))[::-1]
    expect(tab.get_by_text(re.compile(f"^Entropy {entropy(shares):.2f} bits"))).to_be_visible()
    shown = shown_shares(tab)
    assert np.allclose(shown[: min(8, len(shown) - 1)], shares[: min(8, len(shown) - 1)], atol=1e-4)
    after = tab.page.evaluate("performance.getEntriesByType('resource').length")
    assert after == before, "computed in the browser, without a request"


def test_top_k_and_top_p_cut_it(tab, logits):
    tab.get_by_role("spinbutton", name="Top-k (0 keeps all), typed").fill("5")
    kept = np.sort(softmax(logits))[::-1][:5]
    live = tab.get_by_role("table").first.locator("tr:not(.cut):not(.others) .share-bar")
    comes_to(live.first, kept[0] / kept.sum())
    assert np.allclose(values(live)[:5], kept / kept.sum(), atol=1e-4)
    tab.get_by_role("spinbutton", name="Top-k (0 keeps all), typed").fill("0")
    tab.get_by_role("spinbutton", name="Top-p, typed").fill("0.2")
    shares = np.sort(softmax(logits))[::-1]
    count = int((np.cumsum(shares) < 0.2).sum()) + 1
    comes_to(live.first, shares[0] / shares[:count].sum())
    assert np.allclose(values(live)[:count], shares[:count] / shares[:count].sum(), atol=1e-4)


def test_what_was_expected_after_an_earlier_word(tab, inspect):
    tab.get_by_role("button", name="After The", exact=True).click()
    expect(tab.get_by_role("heading", name="The next word after “The”")).to_be_visible()
    shares = np.sort(softmax(inspect("writing", TEXT).logits[0].astype(np.float64)))[::-1]
    expect(tab.get_by_text(re.compile(f"^Entropy {entropy(shares):.2f} bits"))).to_be_visible()


def test_taking_the_likeliest_writes_as_python_does(tab, load):
    for count in range(1, 4):
        tab.get_by_role("button", name="Take the likeliest").click()
        words = tab.get_by_role("group", name=re.compile("^Words; choose one")).locator(".own")
        expect(words).to_have_count(count)
    expected = load("writing").complete(TEXT, max_tokens=3, temperature=0).text
    expect(tab.locator(".output-text")).to_contain_text(expected.strip().split("\n")[0])
    tab.get_by_role("button", name="Undo").click()
    expect(words).to_have_count(2)
    tab.get_by_role("button", name="Begin again").click()
    expect(words).to_have_count(0)


def test_the_same_seed_samples_the_same_words(tab):
    words = tab.get_by_role("group", name=re.compile("^Words; choose one")).locator(".own")
    written = []
    for _ in range(2):
        for count in range(1, 5):
            tab.get_by_role("button", name="Sample").click()
            expect(words).to_have_count(count)
        written.append(words.all_inner_texts())
        tab.get_by_role("button", name="Begin again").click()
        expect(words).to_have_count(0)
    assert written[0] == written[1]


def test_a_click_before_the_next_word_is_known_writes_a_word_too(tab, load):
    """Slow answers must not swallow clicks: they are held until all were made."""
    held, answers = [], re.compile("/api/next$")
    tab.page.route(answers, lambda route: held.append(route))
    for _ in range(3):
        tab.get_by_role("button", name="Take the likeliest").click()
    words = tab.get_by_role("group", name=re.compile("^Words; choose one")).locator(".own")
    expect(words).to_have_count(1)
    tab.page.route(answers, lambda route: route.continue_())  # the newest route counts
    for route in held:
        route.continue_()
    expect(words).to_have_count(3)
    expected = load("writing").complete(TEXT, max_tokens=3, temperature=0).text
    expect(tab.locator(".output-text")).to_contain_text(expected.strip().split("\n")[0])


def test_a_click_without_an_answer_does_not_spoil_the_next_ones(person):
    answers = re.compile("/api/next$")
    person.page.route(answers, lambda route: route.fulfill(status=503, json={"error": "busy"}))
    tab = person.visit(model="writing", text=TEXT, tab="write").page.get_by_role("tabpanel")
    words = tab.get_by_role("group", name=re.compile("^Words; choose one"))
    expect(words.get_by_role("button", name="After The", exact=True)).to_be_visible()
    tab.get_by_role("button", name="Take the likeliest").click()
    person.page.route(answers, lambda route: route.continue_())  # the newest route counts
    words.get_by_role("button", name="After The", exact=True).click()
    words.get_by_role("button").last.click()
    tab.get_by_role("button", name="Take the likeliest").click()
    expect(words.locator(".own")).to_have_count(1)


@pytest.mark.parametrize("name", ["Write on", "Take the likeliest"])
def test_no_word_is_written_into_another_sentence(tab, person, name):
    """What was clicked for one sentence ends with it, also if its answers are late."""
    held, answers = [], re.compile("/api/next$")
    tab.page.route(answers, lambda route: held.append(route))
    for _ in range(1 if name == "Write on" else 2):
        tab.get_by_role("button", name=name).click()
    person.wait_until(lambda: held, "no word is asked for")
    person.field.fill("I arrived at the")
    words = tab.get_by_role("group", name=re.compile("^Words; choose one")).get_by_role("button")
    expect(words.last).to_have_text("␣the")
    tab.page.route(answers, lambda route: route.continue_())  # the newest route counts
    for route in held:
        with suppress(Error):  # one that the page has aborted wants no answer
            route.continue_()
    expect(tab.get_by_role("button", name="Write on")).to_be_visible()
    person.settle()
    expect(words.last).to_have_text("␣the")
    expect(tab.locator(".own")).to_have_count(0)


def test_written_words_end_with_their_sentence_and_model_on_every_tab(tab, person):
    written = tab.locator(".own")
    for change in ("sentence", "model"):
        tab.get_by_role("button", name="Take the likeliest").click()
        expect(written).to_have_count(1)
        person.open_tab("Inspect")
        if change == "sentence":
            person.field.fill("I arrived at the")
        else:
            person.page.get_by_label("Model", exact=True).select_option("translation")
        person.open_tab("Write")
        person.settle()
        expect(written).to_have_count(0)
        expect(tab.get_by_text(re.compile("^Entropy"))).to_be_visible()


def test_a_translation_goes_on_from_its_own_words(person, inspect):
    text = "I am a student"
    tab = person.visit(model="translation", text=text, tab="write").page.get_by_role("tabpanel")
    expect(tab.get_by_text(re.compile("^Entropy"))).to_be_visible()
    seen = inspect("translation", text)
    tab.get_by_role("button", name="After <start>", exact=True).click()
    expect(tab.get_by_role("heading", name="The first word")).to_be_visible()
    shares = np.sort(softmax(seen.logits[0].astype(np.float64)))[::-1]
    expect(tab.get_by_text(re.compile(f"^Entropy {entropy(shares):.2f} bits"))).to_be_visible()
    assert np.allclose(shown_shares(tab)[:5], shares[:5], atol=1e-4)
