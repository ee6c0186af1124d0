"""Take it away as numbers: the archive and the page of each picture, read back and compared."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

import regard
from regard.inspection.analysis.compare import compare

from .person import HALF, Person, numbers
from .taking import Leaf, arrays_of, saved, unfold
from .watching import violations, visitor

pytestmark = pytest.mark.xdist_group("browser")
CAT = "The cat sleeps because it is tired."
DOG = "The dog sleeps because it is tired."
HOSTILE = "</blockquote><script>alert(1)</script> <img src=x onerror=alert(1)> &amp; שלום"
PARIS = "Paris is the [MASK] of France."
PLACE = dict(model="translation", text=CAT, kind="encoder", layer=1, head=1, query=4)


def test_the_steps_of_a_cell(person, inspect, tmp_path):
    person.inspect(**PLACE)
    unfold(person, "the steps of this cell")
    read = arrays_of(saved(person, "Save the steps of this cell as npz", tmp_path))
    steps = list(inspect("translation", CAT).steps("encoder", 1, 1, 4))
    assert list(read) == [step.name for step in steps]
    for step in steps:
        assert np.array_equal(read[step.name].ravel(), step.value.astype(np.float32).ravel()), step.name


def test_the_vectors_of_a_sentence(person, inspect, tmp_path):
    person.inspect(**PLACE)
    card = person.page.locator(".panel.vectors")
    card.scroll_into_view_if_needed()
    expect(card.get_by_role("gridcell").first).to_be_attached()
    unfold(person, "vectors")
    read = arrays_of(saved(person, "Save vectors as npz", tmp_path))
    seen = inspect("translation", CAT)
    assert read["tokens"].tolist() == seen.source.labels()
    assert np.allclose(read["embeddings"], seen.embeddings("source"), rtol=1e-3, atol=1e-4)
    assert np.allclose(
        read["sum"], seen.embeddings("source") + seen.positions("source"), rtol=1e-3, atol=2e-3
    )


def test_a_comparison(person, inspect, tmp_path):
    person.visit(tab="compare", model="translation", text=CAT, second=DOG, watched="source.4")
    grid = person.page.get_by_role("grid", name=re.compile("^Difference map"))
    expect(grid.get_by_role("gridcell").first).to_be_attached()
    both = compare(inspect("translation", CAT), inspect("translation", DOG))
    changes = both.changes(4, "source")
    unfold(person, "difference map")
    read = arrays_of(saved(person, "Save difference map as npz", tmp_path))
    assert read["words"].tolist() == both.labels("source")
    assert read["head"].tolist() == [change.head for change in changes]
    assert read["layer"].tolist() == [change.layer for change in changes]
    for name in ("distance", "first", "second"):
        assert np.allclose(read[name], [getattr(change, name) for change in changes], atol=1e-6), name
    leaf = Leaf(saved(person, "Save difference map as HTML", tmp_path))
    assert "svg" in leaf.tags
    assert leaf.heading == "What “it” looks at: what changed, head by head"
    assert leaf.sentences == [CAT, DOG]
    told = [[change.distance, *change.difference] for change in changes]
    assert np.allclose(leaf.values, np.ravel(told), atol=1e-6)
    unfold(person, "one head in both sentences")
    one = arrays_of(saved(person, "Save one head in both sentences as npz", tmp_path))
    assert np.allclose(one["values"][:, :2].T, [changes[0].first, changes[0].second], atol=1e-6)


def test_what_the_model_makes_of_two_sentences(person, inspect, tmp_path):
    person.visit(tab="compare", model="translation", text=CAT, second=DOG, watched="source.4")
    expect(person.page.get_by_role("table", name="The next word where the outputs part")).to_be_visible()
    unfold(person, "what the model makes of them")
    read = arrays_of(saved(person, "Save what the model makes of them as npz", tmp_path))
    expected = compare(inspect("translation", CAT), inspect("translation", DOG)).next()
    told = [[each.first, each.second, each.change] for each in expected]
    assert np.allclose(read["values"], told, atol=1e-6)


@pytest.fixture
def translating(person):
    """The tab Translate, with all that it draws."""
    person.visit(tab="translate", model="translation", text=CAT)
    expect(person.page.get_by_role("tree").locator(".node.best").first).to_be_visible()
    person.page.get_by_label("Cross-attention of").select_option(label="layer 0, head 2")
    return person


def test_an_alignment(translating, inspect, tmp_path):
    unfold(translating, "alignment")
    read = arrays_of(saved(translating, "Save the sentence as npz", tmp_path))
    seen = inspect("translation", CAT)
    expected = np.stack([seen.attention("cross", layer) for layer in range(2)])
    assert np.allclose(read["cross"], expected, atol=1e-5)
    assert set(read) == {"cross", "source", "target"}


def test_the_page_of_a_translation_opens_with_it(translating, browser, inspect, tmp_path):
    unfold(translating, "alignment")
    path = saved(translating, "Save the sentence as HTML", tmp_path)
    home = path.resolve().as_uri()
    with visitor(browser, home) as (context, _):
        kept = Person(context.new_page(), home)
        kept.page.goto(home)
        expect(kept.page.get_by_role("tab", name="Translate", selected=True)).to_be_visible()
        expect(kept.page.get_by_text("It writes:")).to_be_visible()
        kept.page.get_by_label("Cross-attention of").select_option(label="layer 0, head 2")
        kept.button("Matrix").locator("visible=true").click()
        grid = kept.page.get_by_role("grid").locator("visible=true").first
        expect(grid.get_by_role("gridcell").first).to_be_attached()
        seen = inspect("translation", CAT)
        assert np.allclose(numbers(grid), seen.attention("cross", 0, 2, words=True), atol=HALF)
        kept.open_tab("Inspect")
        expect(kept.page.get_by_role("heading", name=re.compile(r", head \d+:"))).to_be_visible()
        assert kept.shown_head() == ("cross", 0, 2)


def test_a_beam(translating, load, tmp_path):
    unfold(translating, "beam tree")
    read = arrays_of(saved(translating, "Save beam tree as npz", tmp_path))
    tree = load("translation").translate(CAT, beams=4, n_best=4, length_penalty=0.6, tree=True).tree.as_dict()
    scores = {node["number"]: node["score"] for node in tree}
    assert len(read["number"]) == len(tree)
    assert np.allclose(read["score"], [scores[number] for number in read["number"].astype(int)], atol=1e-6)
    leaf = Leaf(saved(translating, "Save beam tree as HTML", tmp_path))
    assert {"svg", "table"} <= set(leaf.tags)


@pytest.mark.parametrize(
    ("model", "tab", "name"),
    [("writing", "write", "next word"), ("translation", "translate", "step of the decoder")],
)
def test_every_chance_of_the_next_word(person, inspect, tmp_path, model, tab, name):
    text = CAT if model == "translation" else "The quick brown"
    person.visit(tab=tab, model=model, text=text)
    seen = inspect(model, text)
    expect(person.page.get_by_role("tabpanel").locator(".share-bar").first).to_be_visible()
    unfold(person, name)
    read = arrays_of(saved(person, f"Save {name} as npz", tmp_path))
    chances = seen.probabilities[0 if model == "translation" else -1]
    assert sorted(read["id"]) == list(range(len(chances)))
    assert np.allclose(read["probability"], chances[read["id"].astype(int)], atol=1e-5)
    leaf = Leaf(saved(person, f"Save {name} as HTML", tmp_path))
    assert {"svg", "table"} <= set(leaf.tags)


def test_hostile_text_stays_text_on_a_page_of_a_picture(person, tmp_path):
    person.visit(tab="write", model="writing", text=HOSTILE)
    expect(person.page.get_by_role("tabpanel").locator(".share-bar").first).to_be_visible()
    unfold(person, "next word")
    leaf = Leaf(saved(person, "Save next word as HTML", tmp_path))
    assert leaf.sentences == [HOSTILE]
    assert not {"script", "img"} & set(leaf.tags)


def test_what_a_model_reads(person, load, inspect, tmp_path):
    person.visit(tab="read", model="masked", text=PARIS)
    expect(person.page.get_by_role("table", name="What stands in the gap")).to_be_visible()
    unfold(person, "what the model says")
    read = arrays_of(saved(person, "Save what the model says as npz", tmp_path))
    expected = [choice.probability for choice in load("masked").fill(PARIS, top=10).masks[0]]
    assert np.allclose(read["values"][:, 0], expected, atol=1e-6)
    unfold(person, "what it looks at")
    read = arrays_of(saved(person, "Save the sentence as npz", tmp_path))
    seen = inspect("masked", PARIS)
    assert np.allclose(read["encoder"], [seen.attention("encoder", layer) for layer in range(2)], atol=1e-5)


def test_a_step_of_training(person, models, tmp_path):
    chosen = dict(model="translation", text=CAT, kind="encoder", layer=1, head=0, checkpoint=30)
    person.visit(tab="training", **chosen)
    heading = person.page.get_by_role("heading", name="Encoder, layer 1, head 0, at step 30")
    expect(heading).to_be_visible()
    unfold(person, "attention in training")
    read = arrays_of(saved(person, "Save the sentence as npz", tmp_path))
    then = regard.load(models["translation"] / "weights" / "step-00000030")
    seen = regard.inspect(then, CAT, then.translate(CAT).text)
    assert np.allclose(read["encoder"], [seen.attention("encoder", layer) for layer in range(2)], atol=1e-5)
    unfold(person, "loss")
    loss = arrays_of(saved(person, "Save loss as npz", tmp_path))
    assert {"step", "training_loss", "validation_loss"} == set(loss)
    assert np.isfinite(loss["training_loss"]).all()


@pytest.fixture
def by_hand(person):
    """Attention by hand, the example of three inputs."""
    person.visit(tab="byhand", example="B", cells="x.0.0:2")
    unfold(person, "attention by hand")
    return person


def test_matrices_by_hand(by_hand, tmp_path):
    read = arrays_of(saved(by_hand, "Save attention by hand as npz", tmp_path))
    query, key, value = (read["x"] @ read[name] for name in ("wq", "wk", "wv"))
    weights = np.exp(query @ key.T)
    weights /= weights.sum(1, keepdims=True)
    assert read["words"].tolist() == ["input 1", "input 2", "input 3"]
    for name, expected in dict(query=query, key=key, value=value, scores=query @ key.T).items():
        assert np.allclose(read[name], expected), name
    assert np.allclose(read["weights"], weights)
    assert np.allclose(read["output"], weights @ value)


def test_a_page_of_a_picture_needs_nothing(by_hand, browser, tmp_path):
    archive = arrays_of(saved(by_hand, "Save attention by hand as npz", tmp_path))
    path = saved(by_hand, "Save attention by hand as HTML", tmp_path)
    leaf = Leaf(path)
    assert "script" not in leaf.tags
    assert leaf.heading == "Attention by hand"
    names = ("query", "key", "value", "scores", "scaled", "masked", "weights", "output")
    expected = [number for name in names for row in enumerate(archive[name]) for number in (row[0], *row[1])]
    assert np.allclose(leaf.values, expected)
    home = path.resolve().as_uri()
    with visitor(browser, home) as (context, _):
        page = context.new_page()
        page.goto(home)
        expect(page.get_by_role("img", name="Attention by hand")).to_be_visible()
        assert violations(page) == []
