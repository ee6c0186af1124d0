"""Type and see: words and pieces, vectors, the stack, heads, the matrix and the other pictures of a head."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.inspection.analysis.overview import caption
from regard.inspection.render.payload import annotated_overview
from regard.service.notes import notes_of

from .person import HALF, numbers, pixels, row_names, values

pytestmark = pytest.mark.xdist_group("browser")
CAT = "The cat sleeps because it is tired."
SENTENCE = "The sentence, shaded by what is looked at"
WRITTEN = "What the model writes"


def test_typing_shows_the_words_and_what_they_look_at(person, inspect):
    person.inspect(model="translation")
    person.type(CAT)
    seen = inspect("translation", CAT)
    words = person.page.get_by_role("list", name=SENTENCE).get_by_role("button")
    expect(words.locator(".word-text")).to_have_text(seen.source.labels(words=True))
    kind, layer, head = person.shown_head()
    expect(person.matrix.get_by_role("rowheader")).to_have_text(row_names(seen, kind))
    assert np.allclose(numbers(person.matrix), seen.attention(kind, layer, head, words=True), atol=HALF)


def test_the_first_head_shown_lets_it_look_at_a_noun(person, inspect, models):
    person.inspect(model="translation")
    seen = inspect("translation", person.field.input_value())
    notes = notes_of(models["translation"])
    first = annotated_overview(seen, notes).pinned
    assert person.shown_head() == (first.kind, first.layer, first.head)
    keys = seen.sides(first.kind)[1]
    assert keys.tokens[first.key].word in notes.nouns(keys)
    asks = caption(seen, first).partition(" looks at ")[0]
    reading = person.page.locator(".picture .reading")
    expect(reading).to_have_text(re.compile(f"^{re.escape(asks)} looks most at “"))


def test_a_row_of_a_translation_is_the_step_that_writes(person, inspect):
    seen = inspect("translation", CAT)
    last = len(seen.target) - 1
    for query, told in ((0, f"“{seen.target.words[1].text}”"), (last, "the end")):
        person.inspect(model="translation", text=CAT, kind="cross", layer=0, head=1, query=query)
        reading = person.page.locator(".picture .reading")
        expect(reading).to_have_text(re.compile(f"^The step that writes {re.escape(told)} looks most at “"))


def test_what_the_canvas_shows_is_the_models_attention(person, inspect):
    person.inspect(model="translation", text=CAT, kind="cross", layer=1, head=2)
    seen = inspect("translation", CAT)
    expected = seen.attention("cross", 1, 2, words=True)
    wanted = person.scale()[np.rint(expected * 255).astype(int)]
    assert np.abs(person.drawn_colours() - wanted).max() <= 4
    assert expected.max() - expected.min() > 0.2, "a flat map would prove nothing"


def test_every_thumbnail_is_painted_in_its_heads_weights(person, inspect):
    person.inspect(model="translation", text=CAT)
    seen, scale = inspect("translation", CAT), person.scale()
    titles = {"encoder": "Encoder", "decoder": "Decoder, self", "cross": "Decoder, cross"}
    for kind, title in titles.items():
        for layer in range(2):
            for head in range(4):
                thumb = person.button(f"{title}, layer {layer}, head {head}").locator("canvas")
                wanted = scale[np.rint(seen.attention(kind, layer, head) * 255).astype(int)]
                assert np.abs(pixels(thumb)[..., :3] - wanted).max() <= 6, (kind, layer, head)


def test_a_thumbnail_opens_its_head_and_a_block_its_layer(person):
    person.inspect(model="translation", text=CAT)
    person.button("Decoder, cross, layer 0, head 3").click()
    expect(
        person.page.get_by_role("heading", name=re.compile("^Decoder, cross, layer 0, head 3"))
    ).to_be_visible()
    person.page.get_by_role("group", name="The stack, as a map").get_by_role(
        "button", name="Encoder, layer 1", exact=True
    ).click()
    expect(person.page.get_by_role("heading", name=re.compile("^Encoder, layer 1, head"))).to_be_visible()


def test_hovering_previews_a_head_and_leaving_ends_it(person, inspect):
    person.inspect(model="translation", text=CAT, kind="encoder", layer=0, head=0)
    seen = inspect("translation", CAT)
    before = numbers(person.matrix)
    person.button("Encoder, layer 1, head 3").hover()
    expect(person.page.get_by_role("heading", name=re.compile("^Encoder, layer 1, head 3"))).to_be_visible()
    assert np.allclose(numbers(person.matrix), seen.attention("encoder", 1, 3, words=True), atol=HALF)
    person.page.mouse.move(5, 5)
    expect(person.page.get_by_role("heading", name=re.compile("^Encoder, layer 0, head 0"))).to_be_visible()
    assert np.array_equal(numbers(person.matrix), before)


def test_a_cell_is_previewed_pinned_and_isolated(person, inspect):
    person.inspect(model="translation", text=CAT, kind="encoder", layer=0, head=1)
    weights = inspect("translation", CAT).attention("encoder", 0, 1, words=True)
    stage = person.page.locator(".picture-matrix .matrix-stage")
    stage.hover(position=person.cell(4, 1))
    person.reads("it", "cat", weights[4, 1])
    stage.click(position=person.cell(4, 1))
    pinned = person.matrix.get_by_role("gridcell", selected=True)
    expect(pinned).to_have_text(f"{weights[4, 1]:.4f}")
    expect(person.page.get_by_role("heading", name="How “it” came to look at “cat”")).to_be_visible()
    veil = person.page.locator(".picture-matrix canvas").nth(1)
    before = pixels(veil)[..., 3].mean()
    stage.dblclick(position=person.cell(4, 1))
    person.page.mouse.move(5, 5)
    person.wait_until(lambda: pixels(veil)[..., 3].mean() > before + 100, "all rows but one are veiled")


def test_words_and_pieces(person, inspect):
    text = "I arrived at the bank"
    person.inspect(model="writing", text=text)
    seen = inspect("writing", text)
    assert len(seen.target.tokens) > len(seen.target.words), "some word must be cut"
    for unit, words in (("Pieces", False), ("Words", True)):
        person.button(unit).click()
        expect(person.matrix.get_by_role("rowheader")).to_have_text(seen.target.labels(words))
        kind, layer, head = person.shown_head()
        weights = seen.attention(kind, layer, head, words)
        visible = seen.visible(kind, layer, words=words)
        shown = numbers(person.matrix)
        assert np.array_equal(np.isnan(shown), ~visible)
        assert np.allclose(shown[visible], weights[visible], atol=HALF)


def test_a_decoder_says_why_a_word_cannot_look_at_later_ones(person):
    person.inspect(model="writing", text="I arrived at the bank")
    expect(
        person.page.get_by_text("so a word can look only at itself and at what stands before it")
    ).to_be_visible()
    expect(person.matrix.get_by_role("gridcell", name="masked").first).to_be_attached()


def test_the_sentence_is_shaded_by_what_the_pinned_word_looks_at(person, inspect):
    person.inspect(model="translation", text=CAT, kind="encoder", layer=1, head=1)
    row = person.page.get_by_role("list", name=SENTENCE).get_by_role("button")
    row.filter(has_text=re.compile("^it")).click()
    expected = inspect("translation", CAT).attention("encoder", 1, 1, words=True)[4]
    assert np.allclose(values(row), expected, atol=HALF)
    place = int(expected.argmax())
    colour = row.nth(place).evaluate(
        "one => getComputedStyle(one).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert np.abs(person.scale()[round(float(expected[place]) * 255)] - colour[:3]).max() <= 4


def test_lines_are_as_strong_as_their_weights(person, inspect):
    person.inspect(model="translation", text=CAT, kind="encoder", layer=1, head=1, picture="lines")
    expected = inspect("translation", CAT).attention("encoder", 1, 1, words=True)
    curves = person.page.locator(".lines-curves path")
    expect(curves).to_have_count(int((expected >= 0.02).sum()))
    drawn = sorted(values(curves))
    assert np.allclose(drawn, np.sort(expected[expected >= 0.02]), atol=HALF)
    widths = curves.evaluate_all("all => all.map(one => Number(one.getAttribute('stroke-width')))")
    assert np.argsort(widths).tolist() == np.argsort(values(curves)).tolist()
    read = "all => all.map(one => Number(one.getAttribute('stroke-opacity')))"
    assert np.allclose(curves.evaluate_all(read), values(curves)), "the opacity is the weight"
    samples = person.page.locator(".picture .legend .line-sample path")
    assert samples.evaluate_all(read) == values(samples) == [0.1, 0.25, 0.5, 1]
    others = person.page.locator(".lines-curves g:not(.is-strong)").first
    assert others.evaluate("one => getComputedStyle(one).opacity") == "0.25"
    expect(person.page.locator(".picture .legend")).to_contain_text(
        "beside a chosen word, the others at 25 % of it"
    )


def test_rows_of_the_decoder_are_named_by_the_word_they_write(person, inspect):
    person.inspect(model="translation", text=CAT, kind="cross", layer=1, head=1, query=2)
    words = [word.text for word in inspect("translation", CAT).words("target")]
    headers = person.matrix.get_by_role("rowheader")
    assert headers.all_inner_texts() == row_names(inspect("translation", CAT), "cross")
    assert headers.nth(2).inner_text() == f"{words[2]} → {words[3]}"
    expect(person.page.locator(".picture .reading")).to_have_text(
        re.compile(f"^The step that writes “{re.escape(words[3])}” looks most at ")
    )
    expect(
        person.page.get_by_role("heading", name=f"How the step that writes “{words[3]}” came")
    ).to_be_visible()
    written = person.page.get_by_role("list", name="What the model writes").get_by_role("button")
    expect(written.nth(3)).to_have_attribute("aria-pressed", "true")
    written.nth(1).click()
    expect(person.page.locator(".picture .reading")).to_contain_text(f"The step that writes “{words[1]}”")
    person.button("Lines").click()
    expect(person.page.get_by_role("list", name="Words that ask").get_by_role("button").first).to_have_text(
        f"{words[0]} → {words[1]}"
    )


def test_heads_stand_side_by_side_for_one_word(person, inspect):
    person.inspect(model="translation", text=CAT, kind="encoder", layer=1, head=1, query=4, picture="heads")
    table = person.page.get_by_role("table", name="What each head looks at for “it”.")
    expected = inspect("translation", CAT).attention("encoder", 1, words=True)[:, 4]
    shown = np.array(values(table.locator("td[data-value]"))).reshape(-1, 4).T
    assert np.allclose(shown, expected, atol=HALF)
    person.page.get_by_role("group", name="Heads to show").get_by_role("button", name="head 2").click()
    expect(table.get_by_role("columnheader")).to_have_text(["looks at", "head 0", "head 1", "head 3"])


def shows(grid, array):
    """Whether a grid shows the first columns of an array."""
    shown = numbers(grid)
    return shown.size and np.allclose(shown, array[:, : shown.shape[1]], rtol=2e-3, atol=2e-3)


def test_embeddings_and_positions_are_those_of_the_model(person, inspect):
    person.inspect(model="translation", text=CAT, kind="encoder", layer=1, head=1, query=4)
    seen = inspect("translation", CAT)
    heat = person.page.get_by_role("grid", name="Vectors: a row for each token, a column for each number")
    arrays = {"Embeddings": seen.embeddings("source"), "Positions": seen.positions("source")}
    arrays["Sum"] = arrays["Embeddings"] + arrays["Positions"]
    person.page.locator(".vectors").scroll_into_view_if_needed()
    for name, array in arrays.items():
        person.button(name).click()
        person.wait_until(lambda array=array: shows(heat, array), name)
    strip = person.page.get_by_role("slider", name="The vector of it")
    strip.focus()
    person.page.keyboard.press("End")
    last = [f"{array[4, -1]:.4f}".replace("-", "−") for array in (arrays["Embeddings"], arrays["Positions"])]
    said = strip.get_attribute("aria-valuetext")
    numbers_said = [float(n.replace("−", "-")) for n in re.findall(r"−?\d+\.\d+", said)]
    assert np.allclose(numbers_said[:2], [float(n.replace("−", "-")) for n in last], atol=2e-3)


def test_the_vectors_offer_nothing_to_click_before_they_are_drawn(person):
    held = []
    person.page.route("**/vectors/*", lambda route: held.append(route))
    person.inspect(model="translation", text=CAT)
    card = person.page.locator(".vectors")
    card.scroll_into_view_if_needed()
    person.wait_until(lambda: held, "the vectors are not asked for")
    expect(card.get_by_role("heading")).to_be_visible()
    expect(card.get_by_role("button", name="Embeddings")).to_be_hidden()
    held[0].continue_()
    expect(card.get_by_role("button", name="Embeddings")).to_be_visible()


def test_a_word_that_the_model_never_met_is_marked(person):
    person.inspect(model="translation", text="The zebra sleeps.")
    expect(person.page.get_by_text("The model has not met “zebra” in training")).to_be_visible()


def test_a_table_stands_for_the_picture(person, inspect):
    person.inspect(model="translation", text=CAT, kind="encoder", layer=1, head=1)
    person.page.get_by_label("As a table: The weights of this head").click()
    table = person.page.get_by_role("table", name="The weights of this head")
    expected = inspect("translation", CAT).attention("encoder", 1, 1, words=True)
    expect(table.get_by_role("cell")).to_have_count(expected.size)
    assert np.allclose(values(table.get_by_role("cell")), expected.ravel(), atol=HALF)
