"""What a person does on the page, and what can be read back from it."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import numpy as np
from PIL import Image
from playwright.sync_api import Error, Locator, Page, expect

from regard.inspection.render.bundle import bundle

from .chromium import PATIENCE

MATRIX = "Attention: rows ask, columns answer"
KINDS = {"Encoder": "encoder", "Decoder, self": "decoder", "Decoder, cross": "cross"}
HALF = 6e-4  # what a weight may be off: the page gets it in 16 bits
READ_GRID = """grid => [...grid.querySelectorAll("[role=row]")].slice(1).map(
    row => [...row.querySelectorAll("[role=gridcell]")].map(
        cell => cell.dataset.value === undefined ? null : Number(cell.dataset.value)))"""
READ_COLOURS = """([root, names]) => names.map(name => {
    const probe = document.createElement("span");
    probe.style.setProperty("forced-color-adjust", "none");
    probe.style.setProperty("color", `var(${name})`);
    root.append(probe);
    const colour = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
    probe.remove();
    return colour;
})"""
# Resolves when nothing was under way for some frames: what comes into view in one may ask for more.
REST = """patience => new Promise((done, fail) => {
    const until = performance.now() + patience;
    let quiet = 0;
    const look = () => {
        quiet = document.querySelector("[aria-busy=true]") ? 0 : quiet + 1;
        if (quiet > 3) done();
        else if (performance.now() > until) fail(new Error("something is still under way"));
        else setTimeout(() => requestAnimationFrame(look));
    };
    look();
})"""
# Where cells stand is the view's own matter; what colour stands there is not.
PLAN = f"([labels, box]) => {bundle('pictures/matrix_plan.js')}.planOf(labels, box.width, box.height)"


class Person:
    """Somebody in front of one tab."""

    def __init__(self, page: Page, home: str):
        self.page, self.home = page, home
        self.heard: list[str] = []
        page.on("console", lambda message: self.heard.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.heard.append(f"thrown: {error}"))

    def arrive(self, **chosen: Any) -> Person:
        """Open the studio, with things chosen in the address, and wait for a tab; panels may be empty."""
        self.page.goto(f"{self.home}/studio" + (f"#{urlencode(chosen)}" if chosen else ""))
        expect(self.page.get_by_role("tab", selected=True)).to_be_visible()
        return self

    def visit(self, **chosen: Any) -> Person:
        """Open the studio, with things chosen in the address, and wait until all of it is drawn."""
        return self.arrive(**chosen).settle()

    def settle(self) -> Person:
        """Wait until the page says that all that was asked for is drawn."""
        try:
            expect(self.page.locator(".main")).to_have_attribute("aria-busy", "false")
            rest(self.page)
        except (AssertionError, Error) as late:
            raise AssertionError(f"the page does not come to rest. {self.told()}") from late
        return self

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for something that the page does not say by itself, such as what a canvas shows."""
        until = time.monotonic() + PATIENCE / 1000
        while not holds():
            assert time.monotonic() < until, f"{what}. {self.told()}"
            self.page.wait_for_timeout(50)

    def told(self) -> str:
        """What the page says of itself, for a test that fails: its alert, its status, its console."""
        said = {role: self.page.get_by_role(role).all_inner_texts() for role in ("alert", "status")}
        return f"{self.page.url} says {said}; its console: {self.heard}"

    def inspect(self, **chosen: Any) -> Person:
        """Open the tab Inspect and wait until it is drawn: what is drawn later moves what is clicked."""
        self.visit(**chosen)
        expect(self.page.get_by_role("heading", name=re.compile(r", head \d+:"))).to_be_visible()
        expect(self.page.get_by_text("equal the model")).to_be_visible()
        return self

    @property
    def matrix(self) -> Locator:
        """The large matrix of Look."""
        return self.page.get_by_role("grid", name=MATRIX)

    @property
    def field(self) -> Locator:
        """Where the sentence is typed."""
        return self.page.get_by_role("textbox", name="Your sentence").locator("visible=true")

    def button(self, name: str | re.Pattern[str], **options: Any) -> Locator:
        """A button by its whole name."""
        exact = {} if isinstance(name, re.Pattern) else {"exact": True}
        return self.page.get_by_role("button", name=name, **exact, **options)

    def panel(self, heading: str | re.Pattern[str]) -> Locator:
        """A card by its heading."""
        return self.page.locator(".panel").filter(has=self.page.get_by_role("heading", name=heading))

    def type(self, text: str) -> None:
        """Replace the sentence, key by key."""
        self.field.click()
        self.page.keyboard.press("Control+A")
        self.field.press_sequentially(text)

    def open_tab(self, name: str) -> Locator:
        """Go to a tab and give its panel."""
        self.page.get_by_role("tab", name=name, exact=True).click()
        panel = self.page.get_by_role("tabpanel", name=name, exact=True)
        expect(panel).to_be_visible()
        return panel

    def shown_head(self) -> tuple[str, int, int]:
        """Kind, layer and head of the large picture, as its heading says."""
        heading = self.page.get_by_role("heading", name=re.compile(r", head \d+:")).inner_text()
        found = re.match(r"(.+), layer (\d+), head (\d+):", heading)
        assert found, heading
        return KINDS[found[1]], int(found[2]), int(found[3])

    def reads(self, asks: str, answers: str, weight: float) -> None:
        """Expect that the page says how much one word looks at another."""
        reading = self.page.locator(".picture .reading")
        expect(reading).to_have_text(re.compile(f"^“{asks}” looks at “{answers}” with weight"))
        said = float(reading.inner_text().split()[-1].strip("."))
        assert abs(said - weight) < 2 * HALF, f"{asks} to {answers}: {said} is not {weight}"

    def spots(self) -> np.ndarray:
        """The middle of each cell of the large matrix on its canvas, rows x columns x (x, y)."""
        rest(self.page)
        labels = {
            "rows": self.matrix.get_by_role("rowheader").all_inner_texts(),
            "columns": self.matrix.get_by_role("columnheader").all_inner_texts()[1:],
        }
        room = self.page.locator(".picture-matrix").bounding_box()
        assert room is not None
        box = {"width": room["width"], "height": max(280, min(580, room["width"] * 0.86))}
        plan = self.page.evaluate(PLAN, [labels, box])
        columns = plan["left"] + plan["cellWidth"] * (np.arange(len(labels["columns"])) + 0.5)
        rows = plan["top"] + plan["cellHeight"] * (np.arange(len(labels["rows"])) + 0.5)
        return np.stack(np.meshgrid(columns, rows), axis=-1)

    def drawn_colours(self) -> np.ndarray:
        """The colour of each cell of the large matrix, a little above its middle, where no digit stands."""
        spots, canvas = self.spots(), self.page.locator(".picture-matrix canvas").first
        height, box = spots[1, 0, 1] - spots[0, 0, 1], canvas.bounding_box()
        drawn = pixels(canvas)
        assert box is not None
        x, y = np.moveaxis((spots - [0, 0.36 * height]) * drawn.shape[1] / box["width"], -1, 0).astype(int)
        return drawn[y, x, :3]

    def cell(self, row: int, column: int) -> dict[str, float]:
        """Where to click for a cell."""
        x, y = self.spots()[row, column].tolist()
        return {"x": x, "y": y}

    def scale(self) -> np.ndarray:
        """The 256 colours of weights from 0 to 1, from the page's style."""
        names = [f"--scale-{number}" for number in range(6)]
        stops = np.array(
            self.page.evaluate(READ_COLOURS, [self.page.locator(".regard").element_handle(), names])
        )
        places = np.linspace(0, len(stops) - 1, 256)
        return np.stack([np.interp(places, np.arange(len(stops)), channel) for channel in stops.T], axis=1)


def rest(page: Page) -> None:
    """Wait until nothing is under way on a page; what is read then belongs to what was done before."""
    page.evaluate(REST, PATIENCE)


def row_names(seen: Any, kind: str) -> list[str]:
    """What the rows of the large matrix are called; a decoder's by the word that they write."""
    queries = seen.sides(kind)[0]
    words = queries.labels(words=True)
    if seen.source is None or queries.name != "target":
        return words
    return [f"{read} → {then}" for read, then in zip(words, [*words[1:], "<end>"], strict=True)]


def numbers(grid: Locator) -> np.ndarray:
    """The numbers of a grid's cells; not a number where a cell is masked."""
    rest(grid.page)
    return np.array(grid.evaluate(READ_GRID), dtype=float)


def part_shown(grid: Locator, array: np.ndarray) -> np.ndarray:
    """The part of an array whose cells a grid has: of a long one, only those around the current cell."""
    place = "(all, name) => [...new Set(all.map(one => Number(one.dataset[name])))]"
    cells = grid.get_by_role("gridcell")
    return array[np.ix_(cells.evaluate_all(place, "row"), cells.evaluate_all(place, "column"))]


def comes_to(mark: Locator, number: float) -> None:
    """Wait until an element carries a number; its digits may differ where a model is trained elsewhere."""
    until = time.monotonic() + PATIENCE / 1000
    while abs(values(mark)[0] - number) > HALF:
        assert time.monotonic() < until, f"{values(mark)[0]} is not {number}"
        mark.page.wait_for_timeout(50)


def pixels(canvas: Locator) -> np.ndarray:
    """All pixels of a canvas, rows x columns x (red, green, blue, how opaque)."""
    rest(canvas.page)
    picture = canvas.evaluate("canvas => canvas.toDataURL()").partition(",")[2]
    return np.array(Image.open(BytesIO(base64.b64decode(picture))).convert("RGBA")).astype(int)


def values(marks: Locator) -> list[float]:
    """What elements carry in data-value, in order."""
    rest(marks.page)
    return [float(value) for value in marks.evaluate_all("all => all.map(one => one.dataset.value)")]
