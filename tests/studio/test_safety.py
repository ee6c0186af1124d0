"""Hostile text stays text, hostile addresses do no harm, tabs do not mix, and an error is a sentence."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.service.access import Token
from regard.service.models import open_models
from regard.service.studio import make_studio

from .person import HALF, Person, numbers, part_shown, row_names
from .serving import serve_here
from .taking import saved
from .watching import visitor

pytestmark = pytest.mark.xdist_group("browser")
SENTENCE = "The sentence, shaded by what is looked at"
LOADED = "document.querySelectorAll('script, img, iframe, object, link, style').length"
CAT = ["The", "cat", "sleeps", ".", "<end>"]
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)> <!-- it",
    "שלום עולם, it is \u202e detrever",
    "😀 👩‍👩‍👧 it 東京",
    '"it\'s" & {{1+1}} ${1} %s \\u003c \u2028 \u0007 end',
]


@pytest.fixture
def page(browser, studio):
    """A tab in which a dialog is a failure."""
    with visitor(browser, studio) as (context, watch):
        page = context.new_page()
        page.on(
            "dialog", lambda dialog: (watch.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )
        yield page


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("model", ["translation", "writing"])
def test_hostile_text_stays_text(person, inspect, model, text):
    person.inspect(model=model)
    count = person.page.evaluate(LOADED)
    person.field.fill(text)
    person.settle()
    seen = inspect(model, text)
    side = seen.source or seen.target
    words = person.page.locator(".words").first.locator(".word-text")
    expect(words).to_have_count(len(side.words))
    shown = "".join(words.all_inner_texts())
    for part in re.findall(r"[\w<>/()=]+", text):
        assert part in re.sub(r"\s", "", shown) or model == "writing"
    kind, layer, head = person.shown_head()
    visible = part_shown(person.matrix, seen.visible(kind, layer, words=True))
    weights = part_shown(person.matrix, seen.attention(kind, layer, head, words=True))
    assert np.allclose(numbers(person.matrix)[visible], weights[visible], atol=HALF)
    assert person.page.evaluate(LOADED) == count


@pytest.mark.parametrize("text", [HOSTILE[0], HOSTILE[-1]])
@pytest.mark.parametrize("tab", ["translate", "write", "compare", "training", "read"])
def test_hostile_text_in_every_other_tab(person, tab, text):
    model = "masked" if tab == "read" else "translation"
    person.visit(model=model, tab=tab, text=text, second=f"{text} it")
    expect(person.page.get_by_role("tabpanel").locator("textarea").first).to_have_value(text)
    person.settle()
    assert person.page.evaluate("document.querySelectorAll('main script, main img, main iframe').length") == 0


def test_a_drawing_of_hostile_text_is_still_xml(person, tmp_path):
    person.inspect(model="translation")
    person.field.fill(HOSTILE[-1])
    expect(person.page.locator(".words").first).to_contain_text("{{1")
    person.page.get_by_label("Save attention", exact=True).click()
    path = saved(person, "Save attention as SVG", tmp_path)
    assert len(list(ElementTree.parse(path).iter())) > 20


def test_ten_thousand_characters(browser, studio):
    with visitor(browser, studio) as (context, watch):
        person = Person(context.new_page(), studio).inspect(model="translation")
        person.field.fill("the cat " * 1250)
        alert = person.page.get_by_role("alert").first
        expect(alert).to_contain_text(
            re.compile(r"has .*tokens, and the context of this model is 128; shorten it")
        )
        person.field.fill("x" * 10_000)
        expect(alert).to_be_empty()
        expect(person.page.locator(".words").first.get_by_role("button")).to_have_count(2)
        assert person.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        person.field.fill("The cat sleeps.")
        expect(person.page.locator(".words").first.locator(".word-text")).to_have_text(CAT)
        assert len(watch.refusals) == 1


@pytest.mark.parametrize(
    "chosen",
    [
        dict(model="<script>alert(1)</script>", tab="nowhere"),
        dict(kind="__proto__", layer="1e9", head="-1", query="NaN", key="x"),
        dict(model="translation", ablate="%%%,encoder.9.9,scaling,nonsense"),
        dict(model="translation", interventions='[{"kind":1}]'),
        dict(model="translation", interventions="{", heads="9.9.x", picture="constructor"),
        dict(model="translation", snapshot="7", tab="training", checkpoint="<b>"),
        dict(
            model="writing",
            tab="write",
            ids="1.2.99999999.x",
            temperature="-1",
            topk="x",
            topp="9",
            seed="-3",
        ),
        dict(tab="byhand", example="__proto__", cells="{", rules="[1"),
        dict(model="masked", tab="translate"),
    ],
)
def test_a_hostile_address_does_no_harm(browser, studio, chosen):
    with visitor(browser, studio) as (context, _):
        page = context.new_page()
        page.goto(f"{studio}/studio#{urlencode(chosen)}")
        expect(page.get_by_role("tab", selected=True)).to_be_visible()
        person = Person(page, studio).settle()
        page.goto(
            f"{studio}/studio#{urlencode(dict(model='translation', tab='inspect', text='The cat sleeps.'))}"
        )
        page.reload()
        expect(person.page.locator(".words").first.locator(".word-text")).to_have_text(CAT)
        expect(person.matrix.get_by_role("gridcell").first).to_be_attached()


def test_tabs_at_the_same_time_do_not_mix(browser, studio, inspect):
    asked = [
        ("translation", "The cat sleeps."),
        ("translation", "The old dog crossed the street because it was tired."),
        ("writing", "The quick brown"),
        ("masked", "A [MASK] sat on the mat."),
        ("translation", "I am a student"),
    ]
    with visitor(browser, studio) as (context, _):
        people = [Person(context.new_page(), studio) for _ in asked]
        for person, (model, _) in zip(people, asked, strict=True):
            person.inspect(model=model)
        for person, (_, text) in zip(people, asked, strict=True):
            person.field.fill(text[:-3])
        for person, (_, text) in zip(people, asked, strict=True):
            person.field.fill(text)
        for person, (model, text) in zip(people, asked, strict=True):
            seen = inspect(model, text)
            side = seen.source or seen.target
            expect(person.page.locator(".words").first.get_by_role("button")).to_have_count(len(side.words))
            kind, layer, head = person.shown_head()
            expect(person.matrix.get_by_role("rowheader")).to_have_text(row_names(seen, kind))
            visible = seen.visible(kind, layer, words=True)
            expected = seen.attention(kind, layer, head, words=True)[visible]
            assert np.allclose(numbers(person.matrix)[visible], expected, atol=HALF), text


def test_a_studio_that_has_ended_is_said_and_the_picture_stays(browser, models):
    app = make_studio(open_models([str(models["translation"])]))
    with serve_here(app) as home, visitor(browser, home) as (context, watch):
        person = Person(context.new_page(), home).inspect(text="The cat sleeps.")
        before = numbers(person.matrix)
        context.route("**/studio/api/**", lambda route: route.abort())
        person.field.fill("The dog sleeps.")
        expect(person.page.get_by_role("alert").first).to_contain_text("The studio does not answer")
        assert np.array_equal(numbers(person.matrix), before)
        context.unroute("**/studio/api/**")
        person.field.fill("The dog sleeps")
        expect(person.page.get_by_role("alert").first).to_be_empty()
        expect(person.page.locator(".words").first.locator(".word-text").nth(1)).to_have_text("dog")
        watch.complaints.clear()


def test_the_address_with_its_token_opens_the_page(browser, models, tmp_path):
    """Also by a link on a page of somebody else, and again from the same browser without the token."""
    token = Token()
    app = make_studio(open_models([str(models["masked"])]), token=token)
    with serve_here(app) as home, visitor(browser, home) as (context, watch):
        page = context.new_page()
        page.goto(f"{home}/studio")
        expect(page.get_by_text("This address needs the token of the studio")).to_be_visible()
        (tmp_path / "link.html").write_text(f'<a href="{home}/?token={token.value}">open</a>')
        page.goto((tmp_path / "link.html").as_uri())
        page.get_by_role("link", name="open").click()
        expect(page.get_by_role("tab", name="Inspect")).to_be_visible()
        assert page.url.startswith(f"{home}/studio")
        assert token.value not in page.url
        assert token.value not in page.evaluate("document.cookie")
        person = Person(context.new_page(), home).inspect(text="The film was good.")
        expect(person.matrix).to_be_visible()
        watch.requests[:] = [address for address in watch.requests if not address.startswith("file:")]


@pytest.mark.parametrize(
    ("content", "noticed"),
    [
        ("<img src='http://example.org/x.png'>", "asked elsewhere: http://example"),
        ("<script>setTimeout(() => { throw new Error('planted'); })</script>", "thrown: planted"),
        ("<script>console.error('complaint')</script>", "error: complaint"),
    ],
)
def test_what_must_not_happen_would_be_noticed(browser, studio, content, noticed):
    def visit():
        with visitor(browser, studio) as (context, watch):
            person = Person(context.new_page(), studio)
            person.page.set_content(content)
            person.wait_until(lambda: watch.strangers or watch.complaints, "nothing was noticed")

    with pytest.raises(AssertionError, match=noticed):
        visit()
