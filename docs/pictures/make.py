"""Take the screenshots of the studio in a real browser.

    python docs/pictures/make.py MODEL [--out DIR] [--only NAME ...]

MODEL is the folder of a trained demo. Of other models only the picture `minilm` is taken, with --only; its
MODEL is the folder of an encoder. The pictures studio-NAME.png go to DIR, by default the folder of this file.
The same model, browser and fonts give the same pictures.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from regard.inspection.render.payload import unpack

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))  # the browser helpers are those of the tests

from tests.studio import chromium  # noqa: E402
from tests.studio.person import MATRIX, Person  # noqa: E402
from tests.studio.serving import serve  # noqa: E402

TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
TIMEOUT = 120_000  # milliseconds; the machine may be busy
PRONOUNS = ("il", "elle")
# Resolves when nothing on the page has changed for `pause` milliseconds.
QUIET = """pause => new Promise(done => {
    let timer = setTimeout(done, pause);
    new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(done, pause); })
        .observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
})"""


Cell = Mapping[str, Any]  # address parameters: kind, layer, head, query, key


@dataclass(frozen=True)
class Shot:
    """One picture: its file name, window, address parameters and preparation.

    `parameters` takes the cell that `find_cell` returns.
    """

    name: str
    parameters: Callable[[Cell], Mapping[str, Any]]
    prepare: Callable[[Page], None]
    width: int
    height: int
    scheme: Literal["light", "dark"] = "light"
    scale: int = 1  # device pixels per CSS pixel

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture in pixels."""
        return self.width * self.scale, self.height * self.scale

    @property
    def file(self) -> str:
        """The file name."""
        return f"studio-{self.name}.png"


def find_cell(home: str, model: str | None) -> dict[str, Any]:
    """The encoder's cell with the highest weight from "it" to "animal"."""
    models = ask(f"{home}/studio/api/models")["models"]
    trace = ask(f"{home}/studio/api/trace", {"model": model or models[0]["name"], "text": TIRED})
    words = [token["text"].strip() for token in trace["sides"]["source"]["tokens"]]
    query, key = words.index("it"), words.index("animal")
    (layers,) = [kind["layers"] for kind in trace["kinds"] if kind["name"] == "encoder"]
    weights = []
    for layer in range(layers):
        address = f"{home}/studio/api/trace/{trace['trace']}/attention/encoder/{layer}"
        with urllib.request.urlopen(address) as answer:
            weights.append(np.asarray(unpack(answer.read()).arrays["weights"])[:, query, key])
    layer, head = map(int, np.unravel_index(np.argmax(weights), np.shape(weights)))
    return {"kind": "encoder", "layer": layer, "head": head, "query": query, "key": key}


def ask(address: str, body: Mapping[str, Any] | None = None) -> Any:
    """The studio's JSON response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT / 1000) as answer:
        return json.load(answer)


def wait_for_head(page: Page) -> None:
    """Wait until one head is drawn and the steps of its cell are checked."""
    expect(page.get_by_role("grid", name=MATRIX).get_by_role("gridcell", selected=True)).to_be_attached()
    expect(page.get_by_text("equal the model")).to_be_visible()


def scroll_to_lines(page: Page) -> None:
    """Wait until the head is drawn as lines, and scroll to it in the one-column layout."""
    expect(page.locator(".lines-curves path").first).to_be_attached()
    expect(page.get_by_text("equal the model")).to_be_visible()
    page.locator(".panel.picture").evaluate("card => scrollTo(0, card.offsetTop - 12)")


def wait_for_difference(page: Page) -> None:
    """Wait until the heads are ranked."""
    difference_map = page.get_by_role("grid", name=re.compile("^Difference map"))
    expect(difference_map.get_by_role("gridcell").first).to_be_attached()


def decode_to_pronoun(page: Page) -> None:
    """Step the decoder to "il" or "elle", and scroll the tree, which is wider than the page, to its end."""
    expect(page.get_by_role("tree").locator(".node.best").first).to_be_visible()
    page.locator(".tree-room").evaluate("room => room.scrollTo(room.scrollWidth, 0)")
    decoder = page.locator(".decoding")
    word, next_step = decoder.locator(".now"), decoder.get_by_role("button", name="Next", exact=True)
    expect(word).to_be_visible()
    while word.inner_text().strip() not in PRONOUNS and next_step.is_enabled():
        before = decoder.locator(".counter").inner_text()
        next_step.click()
        expect(decoder.locator(".counter")).not_to_have_text(before)


def wait_for_matrices(page: Page) -> None:
    """Wait until the last step is computed."""
    expect(page.locator('table.grid[data-matrix="Z"]').first).to_be_visible()


def write_to_pronoun(page: Page) -> None:
    """Take the most probable word until the next one is "il" or "elle", or the text has ended."""
    words = page.get_by_role("group", name=re.compile("^Words; choose one")).locator(".own")
    likeliest = page.get_by_role("button", name="Take the likeliest")
    best = page.locator(".shares tbody tr").first.get_by_role("rowheader")
    for count in range(1, 30):
        expect(best).to_be_visible()
        if best.inner_text().strip("␣ ") in PRONOUNS or likeliest.is_disabled():
            return
        likeliest.click()
        expect(words).to_have_count(count)
        page.evaluate(QUIET, 100)


def wait_for_lesson(page: Page) -> None:
    """Wait until the figure is drawn."""
    expect(page.locator(".lesson-verdict")).to_be_visible()
    page.locator(".lesson-figure").evaluate("image => image.decode()")


def inspect_head(cell: Cell) -> dict[str, Any]:
    """The tab Inspect with the cell pinned."""
    return dict(text=TIRED, **cell)


def inspect_lines(cell: Cell) -> dict[str, Any]:
    """The tab Inspect with the head drawn as lines between the words."""
    return dict(inspect_head(cell), picture="lines")


SHOTS = (
    Shot("inspect", inspect_head, wait_for_head, 1440, 1074),
    Shot("inspect-dark", inspect_head, wait_for_head, 1440, 1074, scheme="dark"),
    Shot("inspect-narrow", inspect_lines, scroll_to_lines, 390, 760, scale=2),
    Shot("compare", lambda _: dict(text=TIRED, second=WIDE, tab="compare"), wait_for_difference, 1200, 1280),
    Shot("translate", lambda _: dict(text=TIRED, tab="translate"), decode_to_pronoun, 1200, 1700),
    Shot("byhand", lambda _: dict(tab="byhand"), wait_for_matrices, 1200, 1704),
    Shot(
        "write",
        lambda _: dict(text=TIRED, tab="write", temperature=2, topk=10),
        write_to_pronoun,
        1200,
        955,
    ),
    Shot("lessons", lambda _: dict(tab="lessons", lesson="scaling"), wait_for_lesson, 1200, 1000),
)
ENCODER_SHOTS = (Shot("minilm", inspect_head, wait_for_head, 1440, 1074),)


def take(
    browser: Browser,
    home: str,
    shots: Iterable[Shot],
    folder: Path,
    model: str | None = None,
    pause: int = 1500,
) -> list[Path]:
    """Take pictures of the studio at the address `home`, of the given model or its first one."""
    cell = find_cell(home, model)
    choice = {"model": model} if model else {}
    return [_take(browser, home, shot, {**choice, **shot.parameters(cell)}, folder, pause) for shot in shots]


def _take(
    browser: Browser, home: str, shot: Shot, parameters: Mapping[str, Any], folder: Path, pause: int
) -> Path:
    """Open a window, prepare the page, and save a screenshot."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        device_scale_factor=shot.scale,
        color_scheme=shot.scheme,
        reduced_motion="reduce",
        locale="en-GB",
    )
    context.set_default_timeout(TIMEOUT)
    try:
        page = Person(context.new_page(), home).visit(**parameters).page
        shot.prepare(page)
        expect(page.locator(".regard.is-busy")).to_have_count(0)
        page.evaluate(QUIET, pause)
        screenshot = page.screenshot(animations="disabled", caret="hide")
    finally:
        context.close()
    return save(screenshot, folder / shot.file)


def save(screenshot: bytes, path: Path) -> Path:
    """Save a picture with 256 colours, which takes a third of the size without a visible difference."""
    picture = Image.open(BytesIO(screenshot)).convert("RGB")
    reduced = picture.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    reduced.save(path, optimize=True)
    return path


def main() -> None:
    """Parse the arguments, start the studio and the browser, and take the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", metavar="MODEL", help="the folder of a trained demo, or of an encoder")
    parser.add_argument("--out", type=Path, metavar="DIR", default=HERE, help="output folder")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=[shot.name for shot in (*SHOTS, *ENCODER_SHOTS)],
        default=[shot.name for shot in SHOTS],
        help="only these pictures",
    )
    arguments = parser.parse_args()
    shots = [shot for shot in (*SHOTS, *ENCODER_SHOTS) if shot.name in arguments.only]
    arguments.out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright, serve(arguments.model) as home:
        browser = playwright.chromium.launch(
            executable_path=chromium.find(), args=chromium.ARGUMENTS, timeout=TIMEOUT
        )
        for path in take(browser, home, shots, arguments.out):
            print(f"{path} {path.stat().st_size // 1000} kB")
        browser.close()


if __name__ == "__main__":
    main()
