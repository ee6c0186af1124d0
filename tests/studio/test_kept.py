"""A kept page from a file:// address: the same view, the same numbers, nothing fetched."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

import regard
from regard.cli.app import run
from regard.inference.translator import Translator
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.text.tokenizer import Tokenizer, Tokenizers

from .person import HALF, Person, numbers, pixels, values
from .taking import Leaf, arrays_of, saved
from .watching import violations, visitor

pytestmark = pytest.mark.xdist_group("browser")
CAT = "The cat sleeps because it is tired."
HOSTILE = "</script><script>alert(1)</script> <!-- שלום 😀 \u2028 it"
TITLES = {"encoder": "Encoder", "decoder": "Decoder, self", "cross": "Decoder, cross"}


@pytest.fixture
def open_file(browser, tmp_path):
    """Opens a file as a person does who has been sent one; asks may only be for that file."""
    opened = []

    def visit(path):
        home = path.resolve().as_uri()
        opened.append(visitor(browser, home))
        context, watch = opened[-1].__enter__()
        page = context.new_page()
        page.on("dialog", lambda dialog: watch.complaints.append(f"dialog: {dialog.message}"))
        page.goto(home)
        expect(page.get_by_role("heading", name=re.compile(r", head \d+:"))).to_be_visible()
        return Person(page, home)

    yield visit
    for one in opened:
        one.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("translation", CAT),
        ("writing", "I arrived at the bank"),
        ("masked", "Paris is the [MASK] of France."),
        ("classes", "The film was good."),
    ],
)
def test_a_kept_page_shows_the_models_numbers(open_file, inspect, tmp_path, model, text):
    seen = inspect(model, text)
    person = open_file(seen.save(tmp_path / "kept.html"))
    kind, layer, head = person.shown_head()
    visible = seen.visible(kind, layer, words=True)
    shown = numbers(person.matrix)
    assert np.array_equal(~np.isnan(shown), visible)
    assert np.allclose(shown[visible], seen.attention(kind, layer, head, words=True)[visible], atol=HALF)
    scale = person.scale()
    for kind in seen.kinds:
        for layer in range(2):
            for head in range(4):
                thumb = person.button(f"{TITLES[kind]}, layer {layer}, head {head}").locator("canvas")
                wanted = scale[np.rint(seen.attention(kind, layer, head) * 255).astype(int)]
                assert np.abs(pixels(thumb)[..., :3] - wanted).max() <= 6, (kind, layer, head)


def test_what_was_chosen_is_pinned_and_can_be_left(open_file, inspect, tmp_path):
    seen = inspect("translation", CAT)
    path = seen.save(tmp_path / "kept.html", kind="encoder", layer=0, head=2, query="it")
    person = open_file(path)
    assert person.shown_head() == ("encoder", 0, 2)
    expect(person.button("it")).to_have_attribute("aria-pressed", "true")
    row = person.page.locator(".words.source").get_by_role("button")
    assert np.allclose(values(row), seen.attention("encoder", 0, 2, words=True)[4], atol=HALF)
    steps = seen.steps("encoder", 0, 2, 4)
    compared = sum(step.agrees is not None for step in steps)
    expect(person.page.get_by_text(f"{compared} of {compared} equal the model")).to_be_visible()
    person.button("Decoder, cross, layer 1, head 3").click()
    expect(
        person.page.get_by_role("heading", name=re.compile("^Decoder, cross, layer 1, head 3"))
    ).to_be_visible()
    assert np.allclose(numbers(person.matrix), seen.attention("cross", 1, 3, words=True), atol=HALF)


@pytest.fixture
def twenty_words():
    """Twenty words in a model that has learned nothing, as wide as the demo's and a layer larger."""
    torch.manual_seed(1)
    tokenizer = Tokenizer.train([" ".join(f"word{n}" for n in range(4000))], kind="word", vocabulary=4000)
    size = dict(layers=4, width=128, heads=4, feed_forward_width=384, context=64)
    model = build_model(ModelConfig(vocabulary=tokenizer.vocabulary, **size)).eval()
    text = " ".join(f"word{100 + n}" for n in range(20))
    return regard.inspect(Translator(model, Tokenizers.joint(tokenizer)), text, text)


def test_twenty_words_are_less_than_a_megabyte_and_all_there(open_file, twenty_words, tmp_path):
    seen = twenty_words
    path = seen.save(tmp_path / "twenty.html", kind="encoder", layer=2, head=1, query="word107")
    assert path.stat().st_size < 1_000_000
    person = open_file(path)
    steps = list(seen.steps("encoder", 2, 1, "word107"))
    compared = sum(step.agrees is not None for step in steps)
    expect(person.page.get_by_text(f"{compared} of {compared} equal the model")).to_be_visible()
    assert np.allclose(numbers(person.matrix), seen.attention("encoder", 2, 1, words=True), atol=HALF)
    person.page.get_by_label("Save the steps of this cell", exact=True).click()
    read = arrays_of(saved(person, "Save the steps of this cell as npz", tmp_path))
    for step in steps:
        assert np.array_equal(read[step.name].ravel(), step.value.astype(np.float32).ravel()), step.name
    written = person.open_tab("Write")
    expect(written.get_by_text(re.compile("^Entropy"))).to_be_visible()
    person.page.get_by_label("Save next word", exact=True).click()
    read = arrays_of(saved(person, "Save next word as npz", tmp_path))
    chances = seen.probabilities[-1]
    assert np.allclose(read["probability"], chances[read["id"].astype(int)], atol=1e-6)


def test_title_language_and_axe(open_file, inspect, tmp_path):
    person = open_file(inspect("translation", CAT).save(tmp_path / "kept.html"))
    assert person.page.title() == f"{CAT} · Regard"
    assert person.page.locator("html").get_attribute("lang") == "en"
    assert violations(person.page) == []
    person.button("Use dark colours").click()
    assert violations(person.page) == []


def test_hostile_text_stays_text(open_file, inspect, tmp_path):
    for model in ("translation", "writing"):
        seen = inspect(model, HOSTILE)
        person = open_file(seen.save(tmp_path / f"{model}.html"))
        words = person.page.locator(".words").first.locator(".word-text")
        expect(words).to_have_count(len((seen.source or seen.target).words))
        assert person.page.evaluate("document.scripts.length") == 4  # data, packed view, unpacking, view


def test_every_tab_of_a_kept_page_works(open_file, inspect, tmp_path):
    person = open_file(inspect("translation", CAT).save(tmp_path / "kept.html"))
    names = person.page.get_by_role("tab").all_inner_texts()
    assert "By hand" in names
    assert "Lessons" not in names  # which needs a server
    for name in names:
        person.open_tab(name)
        person.settle()
        assert "".join(person.page.get_by_role("alert").all_inner_texts()) == "", name


def test_a_kept_page_can_be_saved_from_again(open_file, inspect, tmp_path):
    seen = inspect("translation", CAT)
    person = open_file(seen.save(tmp_path / "kept.html", kind="encoder", layer=1, head=1))
    person.page.get_by_label("Save attention", exact=True).click()
    for ending in ("PNG", "SVG", "CSV"):
        assert saved(person, f"Save attention as {ending}", tmp_path).stat().st_size > 500
    read = arrays_of(saved(person, "Save attention as npz", tmp_path))
    expected = seen.attention("encoder", 1, 1, words=True)
    assert np.allclose(read["values"], expected, atol=HALF)
    leaf = Leaf(saved(person, "Save attention as HTML", tmp_path))
    assert {"svg", "table"} <= set(leaf.tags)
    assert np.allclose(leaf.values, expected.ravel(), atol=HALF)


def test_the_command_and_the_page_keep_the_same(open_file, person, models, tmp_path, capsys):
    asked = ["--kind", "encoder", "--layer", "1", "--head", "0", "--query", "it"]
    path = tmp_path / "inspect.html"
    assert run(["inspect", str(models["translation"]), CAT, *asked, "--words", "--save", str(path)]) == 0
    capsys.readouterr()
    person.inspect(model="translation", text=CAT, kind="encoder", layer=1, head=0, query=4)
    person.page.get_by_label("Save attention", exact=True).click()
    page = saved(person, "Save the sentence as HTML", tmp_path)
    kept = [open_file(file) for file in (path, page)]
    assert kept[0].shown_head() == kept[1].shown_head() == ("encoder", 1, 0)
    for one in kept:
        expect(one.page.locator(".words.source").get_by_role("button").nth(4)).to_have_attribute(
            "aria-pressed", "true"
        )
    expect(
        kept[1].page.locator(".words.target .gloss").first
    ).to_be_visible()  # what the studio knows of words
    assert np.allclose(numbers(kept[0].matrix), numbers(kept[1].matrix), atol=HALF)
