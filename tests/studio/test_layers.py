"""Layers: what each layer would write, where it looks, and why one word is written and not another."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.inspection.analysis.attribution import attribute
from regard.inspection.analysis.lens import logit_lens
from regard.inspection.analysis.rollout import rollout
from regard.inspection.analysis.value_weighted import value_weighted

from .person import HALF, numbers, values

pytestmark = pytest.mark.xdist_group("browser")
TEXT = "The animal didn't cross the street because it was too tired"
CAT = "The cat sleeps because it is tired."


@pytest.fixture
def layers(person):
    """Open the tab on a sentence and wait until all of it is drawn."""

    def visit(model="translation", text=CAT, **chosen):
        person.visit(model=model, text=text, tab="layers", **chosen)
        tab = person.page.get_by_role("tabpanel", name="Layers")
        expect(tab.locator(".why-word .word-weight").first).to_be_attached()
        expect(tab.locator(".flow").get_by_role("gridcell").first).to_be_attached()
        person.settle()
        return tab

    return visit


def shares(tab):
    """The share of each token, by side."""
    return [
        np.array(values(one.locator("li")))
        for one in tab.locator(".why-word .words").locator("visible=true").all()
    ]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("translation", CAT),
        ("writing", "I arrived at the bank"),
        ("masked", "Paris is the [MASK] of France."),
    ],
)
def test_the_lens_shows_what_each_layer_would_write(layers, inspect, person, model, text):
    tab = layers(model, text)
    lens = logit_lens(inspect(model, text))
    cells = tab.locator(".lens-table td")
    expect(cells).to_have_count(lens.layers * len(lens.record.written))
    best = np.array([[each.probability for each in lens.best(layer)] for layer in range(lens.layers)])
    assert np.allclose(np.array(values(cells)).reshape(-1, lens.layers).T, best, atol=1e-4)
    told = [
        each.text.strip() for pair in zip(*map(lens.best, range(lens.layers)), strict=True) for each in pair
    ]
    shown = cells.locator(".lens-word").all_inner_texts()
    assert all(text in word for text, word in zip(told, shown, strict=True) if text.isascii())
    tab.locator(".lens-table tbody button").nth(2).click()
    expect(tab.locator(".lens-table tr.is-chosen th")).to_have_text(
        tab.locator(".lens-table tbody th").nth(2).inner_text()
    )
    course = tab.locator(".lens-course").get_by_role("grid")
    top = lens.next(lens.layers - 1, 2, top=5)
    person.settle()
    expected = [[lens.probabilities(layer)[2, each.id] for layer in range(lens.layers)] for each in top]
    person.wait_until(lambda: np.allclose(numbers(course), expected, atol=1e-4), "how the words come up")


@pytest.mark.parametrize("mark", ["", "."])
def test_the_question_begins_where_the_outputs_of_a_pair_part(layers, inspect, mark):
    """The pair is that of the examples, whatever mark ends the sentence."""
    tab = layers(text=TEXT + mark)
    ids = [inspect("translation", text).target.ids for text in (TEXT + mark, TEXT.replace("tired", "wide"))]
    fork = next((at for at, pair in enumerate(zip(*ids, strict=False)) if pair[0] != pair[1]), None)
    if fork is None:
        pytest.skip("the model of these tests writes the same for both sentences")
    expect(tab.get_by_label("At", exact=True)).to_have_value(str(fork - 1))


def test_why_one_word_is_written_and_not_another(layers, inspect, person):
    tab = layers(text=TEXT)
    seen = inspect("translation", TEXT)
    tab.get_by_label("At", exact=True).select_option("3")
    rivals = {word: seen.written.tokenizer.encode(word)[0] for word in ("elle", "rue", "animal")}
    word, rival = next((word, rival) for word, rival in rivals.items() if rival != seen.followed[3])
    tab.get_by_role("combobox", name="and not").fill(word)
    tab.get_by_role("combobox", name="and not").press("Enter")
    expect(tab.get_by_role("heading", name=re.compile(f"and not “{word}”"))).to_be_visible()
    for name, method in (("Integrated gradients", "integrated"), ("Input × gradient", "gradient")):
        tab.get_by_role("button", name=name).click()
        person.settle()
        own = attribute(seen, int(seen.followed[3]), rival, 3, method)
        person.wait_until(
            lambda own=own: np.allclose(shares(tab)[0], own.tokens["source"], atol=1e-3),
            "shares of the source",
        )
        assert np.allclose(shares(tab)[1], own.tokens["target"], atol=1e-3)
    tab.get_by_role("combobox", name="and not").fill("xyzzy")
    tab.get_by_role("combobox", name="and not").press("Enter")
    expect(tab.get_by_role("alert")).to_have_text(
        "“xyzzy” is not a token of this model; type a word or a piece that is."
    )
    tab.get_by_role("combobox", name="and not").fill("il")
    tab.get_by_role("combobox", name="and not").press("Enter")
    expect(tab.get_by_role("heading", name=re.compile("and not “il”"))).to_be_visible()
    expect(tab.get_by_role("alert").locator("visible=true")).to_have_count(0)


def test_what_if_it_wrote_another_word(layers, inspect, load, person):
    tab = layers(place=2)
    field = tab.get_by_role("textbox", name="It writes")
    own = inspect("translation", CAT)
    expect(field).to_have_value(own.target.text)
    forced = tab.get_by_role("button", name=re.compile("^What if it wrote"))
    name = re.search("“(.+)”", forced.inner_text())[1]
    forced.click()
    expect(tab.get_by_text("Forced: everything on this page")).to_be_visible()
    person.settle()
    target = field.input_value()
    words = own.target.labels()
    assert target != own.target.text
    assert target.startswith(own.target.text[: own.target.tokens[2].end])
    seen = inspect("translation", CAT, target=target)
    assert seen.target.labels()[3] == name
    assert seen.target.labels()[:3] == words[:3]
    rows = tab.locator(".lens-table tbody th")
    expect(rows).to_have_count(len(seen.target))
    expect(rows.nth(2)).to_have_text(f"{words[2]} → {name}")
    tab.get_by_role("button", name="Its own words").click()
    expect(field).to_have_value(own.target.text)
    field.fill("Le chien")
    person.settle()
    expect(rows).to_have_text(["<start> → Le", "Le → chien", "chien → <end>"])
    # Nothing is forced on another sentence.
    tab.get_by_label("Examples").select_option(label="I am a student")
    expect(field).to_have_value(inspect("translation", "I am a student").target.text)


def test_several_words_at_once_layer_by_layer(layers, inspect, person):
    tab = layers(flow="encoder", queries="4")
    seen, grid = inspect("translation", CAT), tab.locator(".flow").get_by_role("grid")
    expect(grid.get_by_role("rowheader")).to_have_text(["layer 0", "layer 1"])
    tab.locator(".flow .chip", has_text=re.compile("^cat$")).click()
    expect(grid.get_by_role("rowheader")).to_have_text(["cat, 0", "cat, 1", "it, 0", "it, 1"])
    lengths = np.stack([value_weighted(seen, "encoder", layer, words=True) for layer in range(2)])
    expected = {
        "Attention": np.stack([seen.attention("encoder", layer, words=True).mean(0) for layer in range(2)]),
        "Value-weighted": lengths / lengths.sum(-1, keepdims=True),
        "Rollout": np.stack([rollout(seen, "encoder", layers) for layers in (1, 2)]),
    }
    for name, layer_by_layer in expected.items():
        tab.get_by_role("button", name=name, exact=True).click()
        wanted = layer_by_layer[:, [1, 4]].swapaxes(0, 1).reshape(4, -1)
        person.wait_until(lambda wanted=wanted: np.allclose(numbers(grid), wanted, atol=2 * HALF), name)
    tab.get_by_role("button", name="Decoder, cross").click()
    words = seen.target.labels(words=True)
    expect(tab.locator(".flow .chip").first).to_have_text(f"{words[0]} → {words[1]}")


def test_a_classifier_has_reasons_but_no_lens(layers, inspect):
    tab = layers("classes", "The film was good.")
    expect(tab.get_by_text("This model gives a class and no words")).to_be_visible()
    own = attribute(inspect("classes", "The film was good."))
    labels = ["bad", "fair", "good"]
    first, second = (labels[each.ids[0]] for each in (own.word, own.instead))
    expect(tab.get_by_role("heading", name=f"Why “{first}” and not “{second}”?")).to_be_visible()
    assert np.allclose(shares(tab)[0], own.tokens["source"], atol=1e-3)
