"""Requests of every panel are delayed, reordered or refused: heading and numbers belong together.

The tabs are read from their folders, so that a new tab is tested without a change here. What a page must show
is what another page shows that opens the same address and meets no delay.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Error, Page, Route, expect

from regard.inspection.render.bundle import VIEW

from .person import Person
from .watching import visitor

pytestmark = pytest.mark.xdist_group("browser")
TABS = {
    re.search(r'^ {2}name: "(\w+)",$', file.read_text(encoding="utf-8"), re.M)[1]: file.parent.name  # type: ignore[index]
    for file in sorted(VIEW.glob("tabs/*/tab.js"))
}
ELSEWHERE = {"demo": "no model of these tests is untrained; test_demo.py tests it"}
TEXTS = {
    "translation": ("The cat sleeps because it is tired.", "The cat sleeps because it is hungry."),
    "writing": ("The quick brown fox", "The quick brown dog"),
    "masked": ("Paris is the [MASK] of France.", "Paris is the [MASK] of Rome."),
    "classes": ("The film was good.", "The film was bad."),
}
ROOM = {"width": 1280, "height": 4000}  # panels below the fold ask for nothing
READ = """() => [...document.querySelectorAll("[role=tabpanel]:not([hidden]) [data-panel]")].filter(
    (panel) => panel.checkVisibility()).map((panel) => {
        const hidden = panel.matches(".is-blank") || panel.closest(".is-empty") !== null;
        const numbers = hidden ? [] : [...panel.querySelectorAll("[data-value]:not(button)")];
        const grids = [...panel.querySelectorAll("[role=grid]")].map((grid) => grid.innerText);
        const text = grids.reduce((all, grid) => all.replace(grid, ""), panel.innerText);
        return { name: panel.dataset.panel, heading: panel.querySelector("h2, h3")?.textContent ?? "",
                 text: hidden ? "" : text, values: numbers.map((one) => one.dataset.value) };
    })"""
RECORD = f"""() => {{
    window.recorded = [];
    let last = "";
    new MutationObserver(() => {{
        const now = JSON.stringify(({READ})());
        if (now !== last) window.recorded.push(JSON.parse(now));
        last = now;
    }}).observe(document.querySelector("main"), {{ subtree: true, childList: true, characterData: true }});
}}"""


USE = """() => {
    const all = ":is(button, select, input, [role=grid])";
    const event = (name) => new Event(name, { bubbles: true });
    const tell = (one, ...names) => names.forEach((name) => one.dispatchEvent(event(name)));
    for (const one of document.querySelectorAll(`[role=tabpanel]:not([hidden]) ${all}`)) {
        if (!one.checkVisibility({ visibilityProperty: true }) || one.disabled) continue;
        if (one.matches("button, [type=checkbox]")) one.click();
        else if (one.matches("select")) {
            one.selectedIndex = one.options.length - 1;
            tell(one, "change");
        } else if (one.matches("input")) {
            one.value = "1";
            tell(one, "input", "change");
        } else {
            one.focus();
            for (const key of ["ArrowDown", "End", "Enter", "Escape"])
                one.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        }
    }
}"""


class Gate:
    """All requests of a page: let through, held (or all but those that begin a tab), or refused."""

    def __init__(self, page: Page):
        self.mode, self.held, self.met = "open", [], 0
        page.route(re.compile("/studio/api/"), self.meet)

    def meet(self, route: Route) -> None:
        """Decide what becomes of a request."""
        self.met += 1
        begins = route.request.url.endswith(("/models", "/trace"))
        if self.mode == "hold" or (self.mode == "begin" and not begins):
            self.held.append(route)
        elif self.mode == "refuse":
            route.fulfill(status=503, json={"error": "refused by the test"})
        else:
            route.continue_()

    def release_newest(self) -> None:
        """Answer the newest request that is held; one that the page has aborted wants no answer."""
        with suppress(Error):
            self.held.pop().continue_()


class Racer:
    """Somebody who clicks and types faster than the answers come."""

    def __init__(self, person: Person, tab: str):
        self.person, self.page, self.tab = person, person.page, tab
        self.page.set_viewport_size(ROOM)
        self.gate = Gate(self.page)
        self.known: dict[str, list[dict[str, Any]]] = {}
        self.model, self.texts = "", ("", "")

    def open(self, **chosen: Any) -> bool:
        """Open the tab; False if the model has no such tab."""
        self.page.goto("about:blank")
        self.person.visit(tab=self.tab, **chosen)
        return self.page.locator(f".tab.{self.tab}:not([hidden])").count() == 1

    def expected(self) -> list[dict[str, Any]]:
        """What a page shows that opens the present address."""
        address = self.page.evaluate("() => location.href")
        if address not in self.known:
            with visitor(self.page.context.browser, self.person.home, viewport=ROOM) as (context, _):
                other = Person(context.new_page(), self.person.home)
                other.page.goto(address)
                expect(other.page.get_by_role("tab", selected=True)).to_be_visible()
                unfold(other.settle().page)
                self.known[address] = read(other.settle().page)
        return self.known[address]

    def rested(self) -> list[dict[str, Any]]:
        """What the page shows now that nothing is delayed."""
        shown = read(self.person.settle().page)
        self.known[self.page.evaluate("() => location.href")] = shown
        return shown

    def choose(self, **values: Any) -> None:
        """Change the address as a link does."""
        self.page.evaluate(
            """(values) => {
                const all = new URLSearchParams(location.hash.slice(1));
                for (const [name, value] of Object.entries(values)) all.set(name, value);
                location.hash = all.toString();
            }""",
            values,
        )
        self.page.wait_for_timeout(40)

    def let_all_through(self) -> None:
        """Answer what is held, the newest first, and what is asked then, until the page rests."""
        while True:
            self.page.wait_for_timeout(15)
            if self.gate.held:
                self.gate.release_newest()
            elif self.page.locator(".main").get_attribute("aria-busy") == "false":
                break
        self.gate.mode = "open"
        self.person.settle()

    def check(self) -> None:
        """Expect that every panel shows what it shows on a page without delays, and no error."""
        unfold(self.page)  # of a tab that another model led to; tables that are open already stay as they are
        self.person.settle()
        compare(read(self.page), self.expected(), self.person.told())
        assert not [text for text in self.page.get_by_role("alert").all_inner_texts() if text]


@pytest.fixture(params=[name for name in TABS if name not in ELSEWHERE])
def racer(request, page, studio):
    """A person on a tab with the first model that has it."""
    racer = Racer(Person(page, studio), request.param)
    for model, (text, other) in TEXTS.items():
        racer.model, racer.texts = model, (text, other)
        place = {"kind": kind_of(racer), "layer": 1, "head": 2, "query": 1, "lesson": "order"}
        if racer.open(model=model, text=text, second=other, **place):
            unfold(racer.page)
            return racer
    raise AssertionError(
        f"no model of these tests has the tab {request.param}; add one, or name it in ELSEWHERE"
    )


def test_what_is_shown_belongs_together_whatever_is_late(racer):
    first, second = racer.texts
    back_and_forth(racer, {"text": first}, {"text": second})
    back_and_forth(racer, {"head": 2}, {"head": 0})
    back_and_forth(racer, {"ablate": ""}, {"ablate": f"{kind_of(racer)}.0.1"})
    if racer.tab == "lessons":
        back_and_forth(racer, {"lesson": "order"}, {"lesson": "scaling"})
    type_while_waiting(racer, second)
    refuse_then_answer(racer, first, second)
    change_model_while_waiting(racer)


def test_no_control_is_offered_before_what_it_acts_on_is_there(racer):
    """Somebody quick uses all that can be seen before the first answers; no exception, and the page rests."""
    text, _ = racer.texts
    racer.page.goto("about:blank")
    racer.gate.mode = "begin"
    racer.person.arrive(tab=racer.tab, model=racer.model, text=text)
    racer.page.wait_for_timeout(500)
    racer.page.evaluate(USE)
    racer.page.wait_for_timeout(100)
    racer.let_all_through()
    assert not [line for line in racer.person.heard if line.startswith("thrown")]


def back_and_forth(racer: Racer, one: dict[str, Any], other: dict[str, Any]) -> None:
    """One, other, one, other, one, before anything is answered; at no time are two of them mixed."""
    racer.choose(**other)
    wanted = [racer.rested()]
    racer.choose(**one)
    wanted.append(racer.rested())
    racer.gate.mode = "hold"
    racer.page.evaluate(RECORD)
    for values in (other, one, other, one):
        racer.choose(**values)
    racer.let_all_through()
    racer.check()
    for shown in racer.page.evaluate("() => window.recorded"):
        for panel in shown:
            assert any(is_of(panel, known) for known in wanted), (
                f"{panel['name']} mixes {one} and {other}: {panel}"
            )


def type_while_waiting(racer: Racer, text: str) -> None:
    """While no answer comes, a sentence typed letter by letter sends one trace; the last one waits."""
    field = racer.page.locator(".tab:not([hidden]) .sentence-field").first
    if not field.count():
        return
    racer.gate.mode, racer.gate.met = "hold", 0
    field.fill("")
    field.press_sequentially(text, delay=5)
    racer.page.wait_for_timeout(300)
    sent = [route for route in racer.gate.held if route.request.url.endswith("/trace")]
    assert len(sent) <= 1, f"{len(text)} letters sent {len(sent)} traces before the first answer"
    racer.let_all_through()
    racer.check()


def refuse_then_answer(racer: Racer, first: str, second: str) -> None:
    """An error is shown, and the next success clears it."""
    racer.choose(text=first)
    racer.person.settle()
    racer.gate.mode, racer.gate.met = "refuse", 0
    racer.choose(text=f"{second} Again.")
    racer.person.settle()
    if racer.gate.met:
        expect(racer.page.get_by_text("refused by the test").first).to_be_visible()
    racer.gate.mode = "open"
    racer.choose(text=second)
    racer.person.settle()
    racer.check()


def change_model_while_waiting(racer: Racer) -> None:
    """The picture of the old model is hidden at once; it stays hidden if the new one cannot be read."""
    others = [model for model in TEXTS if model != racer.model]
    racer.gate.mode = "refuse"
    racer.page.get_by_label("Model", exact=True).select_option(others[0])
    racer.person.settle()
    shown = [panel for panel in read(racer.page) if panel["values"]]
    assert not shown, f"the old picture under the name of {others[0]}: {shown}"
    racer.gate.mode = "hold"
    for model in (others[1], racer.model, others[0]):
        racer.page.get_by_label("Model", exact=True).select_option(model)
        racer.page.wait_for_timeout(40)
    racer.let_all_through()
    racer.check()


def kind_of(racer: Racer) -> str:
    """The first kind of attention of the model."""
    return "decoder" if racer.model == "writing" else "encoder"


def unfold(page: Page) -> None:
    """Open the tables that stand for pictures."""
    page.evaluate("""() => {
        for (const fold of document.querySelectorAll("[role=tabpanel]:not([hidden]) .panel-foot > .as-table"))
            fold.open = true;
    }""")


def read(page: Page) -> list[dict[str, Any]]:
    """What every panel shows: its heading, its text, its numbers."""
    return page.evaluate(READ)


def compare(shown: list[dict[str, Any]], wanted: list[dict[str, Any]], told: str) -> None:
    """Expect the same panels with the same headings, texts and numbers."""
    assert [panel["name"] for panel in shown] == [panel["name"] for panel in wanted], told
    for panel, other in zip(shown, wanted, strict=True):
        assert panel["heading"] == other["heading"], told
        assert panel["text"].splitlines() == other["text"].splitlines(), told
        assert same_numbers(panel["values"], other["values"]), f"{panel['name']}: other numbers. {told}"


def is_of(panel: dict[str, Any], wanted: list[dict[str, Any]]) -> bool:
    """Whether a panel at some moment was empty, or had a heading and the numbers that belong to it."""
    if not panel["values"]:
        return True
    return any(
        known["name"] == panel["name"]
        and known["heading"] == panel["heading"]
        and same_numbers(panel["values"], known["values"])
        for known in wanted
    )


def same_numbers(some: list[str], others: list[str]) -> bool:
    """Whether numbers are equal up to 16 bits; the pinned row becomes exact when its steps arrive."""
    return len(some) == len(others) and np.allclose(
        *([float(value or "nan") for value in values] for values in (some, others)),
        atol=2e-3,
        equal_nan=True,
    )
