"""Make the studio's pictures again, in a real browser.

    python docs/pictures/make.py MODEL [--out DIR] [--only NAME ...]

MODEL is the folder of a trained demo; the pictures, studio-NAME.png, go to DIR, without one to the folder of
this file. The same model, browser and fonts give the same pictures.
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
sys.path.insert(0, str(HERE.parents[1]))  # the browser and the person in front of it are those of the tests

from tests.studio import chromium  # noqa: E402
from tests.studio.person import MATRIX, Person  # noqa: E402
from tests.studio.serving import serve  # noqa: E402

TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
PATIENCE = 120_000  # milliseconds; the machine may be busy
PRONOUNS = ("il", "elle")
# Fulfilled when nothing on the page has changed for so many milliseconds.
QUIET = """pause => new Promise(done => {
    let timer = setTimeout(done, pause);
    new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(done, pause); })
        .observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
})"""


@dataclass(frozen=True)
class Shot:
    """One picture: what the address holds, the window, and what is done and waited for before it is taken.

    `chosen` is given the place of the head that looks most from the pronoun to its noun.
    """

    name: str
    chosen: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    prepare: Callable[[Page], None]
    width: int
    height: int
    scheme: Literal["light", "dark"] = "light"
    sharpness: int = 1  # pixels of the picture for one of the page

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture."""
        return self.width * self.sharpness, self.height * self.sharpness

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"studio-{self.name}.png"


def find_head(home: str, model: str | None) -> dict[str, Any]:
    """The head and the cell that look most from "it", or from where "il" is written, to "animal".

    As the address has them: kind, layer, head, query, key.
    """
    models = ask(f"{home}/studio/api/models")["models"]
    trace = ask(f"{home}/studio/api/trace", {"model": model or models[0]["name"], "text": TIRED})
    words = {
        name: [token["text"].strip() for token in side["tokens"]] for name, side in trace["sides"].items()
    }
    written = [place - 1 for place, word in enumerate(words["target"]) if word in PRONOUNS][:1]
    asking = {"encoder": [words["source"].index("it")], "cross": written}
    key = words["source"].index("animal")
    found = []
    for kind in trace["kinds"]:
        for layer in range(kind["layers"]):
            for query in asking.get(kind["name"], []):
                address = f"{home}/studio/api/trace/{trace['trace']}/attention/{kind['name']}/{layer}"
                with urllib.request.urlopen(address) as answer:
                    weights = np.asarray(unpack(answer.read()).arrays["weights"])[:, query, key]
                head = int(weights.argmax())
                place = {"kind": kind["name"], "layer": layer, "head": head, "query": query, "key": key}
                found.append((float(weights[head]), place))
    return max(found, key=lambda each: each[0])[1]


def ask(address: str, body: Mapping[str, Any] | None = None) -> Any:
    """What the studio answers, from JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE / 1000) as answer:
        return json.load(answer)


def wait_for_head(page: Page) -> None:
    """One head is drawn, and the steps of its cell are checked."""
    expect(page.get_by_role("grid", name=MATRIX).get_by_role("gridcell", selected=True)).to_be_attached()
    expect(page.get_by_text("equal the model")).to_be_visible()


def come_to_the_picture(page: Page) -> None:
    """The head is drawn as lines, and stands at the top where everything is below one another."""
    expect(page.locator(".lines-curves path").first).to_be_attached()
    expect(page.get_by_text("equal the model")).to_be_visible()
    page.locator(".panel.picture").evaluate("card => scrollTo(0, card.offsetTop - 12)")


def wait_for_difference(page: Page) -> None:
    """The heads are ranked."""
    map_of_one = page.get_by_role("grid", name=re.compile("^Difference map"))
    expect(map_of_one.get_by_role("gridcell").first).to_be_attached()


def come_to_the_pronoun(page: Page) -> None:
    """The decoder is where it writes "il"; the tree is wider than the page, and its last words are seen."""
    expect(page.get_by_role("tree").locator(".node.best").first).to_be_visible()
    page.locator(".tree-room").evaluate("room => room.scrollTo(room.scrollWidth, 0)")
    decoder = page.locator(".decoding")
    now, further = decoder.locator(".now"), decoder.get_by_role("button", name="Next", exact=True)
    expect(now).to_be_visible()
    while now.inner_text().strip() not in PRONOUNS and further.is_enabled():
        before = decoder.locator(".counter").inner_text()
        further.click()
        expect(decoder.locator(".counter")).not_to_have_text(before)


def wait_for_matrices(page: Page) -> None:
    """The last step is worked out."""
    expect(page.locator('table.grid[data-matrix="Z"]').first).to_be_visible()


def write_up_to_the_pronoun(page: Page) -> None:
    """Take the likeliest word until the next is "il" or "elle", or the model has ended."""
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


def inspect_head(place: Mapping[str, Any]) -> dict[str, Any]:
    """The tab Inspect with that cell pinned."""
    return dict(text=TIRED, **place)


def inspect_lines(place: Mapping[str, Any]) -> dict[str, Any]:
    """The same as lines between the words."""
    return dict(inspect_head(place), picture="lines")


def align_by(place: Mapping[str, Any]) -> dict[str, Any]:
    """The tab Translate, with that head where it is one of cross-attention."""
    head = {"crosshead": f"{place['layer']}.{place['head']}"} if place["kind"] == "cross" else {}
    return dict(text=TIRED, tab="translate", **head)


SHOTS = (
    Shot("inspect", inspect_head, wait_for_head, 1440, 1074),
    Shot("inspect-dark", inspect_head, wait_for_head, 1440, 1074, scheme="dark"),
    Shot("inspect-narrow", inspect_lines, come_to_the_picture, 390, 760, sharpness=2),
    Shot("compare", lambda _: dict(text=TIRED, second=WIDE, tab="compare"), wait_for_difference, 1200, 1430),
    Shot("translate", align_by, come_to_the_pronoun, 1200, 1655),
    Shot("byhand", lambda _: dict(tab="byhand"), wait_for_matrices, 1200, 1728),
    Shot(
        "write",
        lambda _: dict(text=TIRED, tab="write", temperature=2, topk=10),
        write_up_to_the_pronoun,
        1200,
        928,
    ),
)


def take(
    browser: Browser,
    home: str,
    shots: Iterable[Shot],
    folder: Path,
    model: str | None = None,
    pause: int = 1500,
) -> list[Path]:
    """Take pictures of the studio at an address, of its first model or the one named."""
    place = find_head(home, model)
    named = {"model": model} if model else {}
    return [_take(browser, home, shot, {**named, **shot.chosen(place)}, folder, pause) for shot in shots]


def _take(
    browser: Browser, home: str, shot: Shot, chosen: Mapping[str, Any], folder: Path, pause: int
) -> Path:
    """Open a window of the right kind, prepare what is seen, and keep it."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        device_scale_factor=shot.sharpness,
        color_scheme=shot.scheme,
        reduced_motion="reduce",
        locale="en-GB",
    )
    context.set_default_timeout(PATIENCE)
    try:
        page = Person(context.new_page(), home).visit(**chosen).page
        shot.prepare(page)
        expect(page.locator(".regard.is-busy")).to_have_count(0)
        page.evaluate(QUIET, pause)
        seen = page.screenshot(animations="disabled", caret="hide")
    finally:
        context.close()
    return keep(seen, folder / shot.file)


def keep(seen: bytes, path: Path) -> Path:
    """Write a picture with 256 colours: a third of the size, and the eye does not tell them apart."""
    picture = Image.open(BytesIO(seen)).convert("RGB")
    few = picture.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    return path


def main() -> None:
    """Read what was asked for, start the studio and the browser, and take the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", metavar="MODEL", help="the folder of a trained demo")
    parser.add_argument("--out", type=Path, metavar="DIR", default=HERE, help="where the pictures go")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=[shot.name for shot in SHOTS], help="not all of them"
    )
    given = parser.parse_args()
    shots = [shot for shot in SHOTS if not given.only or shot.name in given.only]
    given.out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright, serve(given.model) as home:
        browser = playwright.chromium.launch(
            executable_path=chromium.find(), args=chromium.ARGUMENTS, timeout=PATIENCE
        )
        for path in take(browser, home, shots, given.out):
            print(f"{path} {path.stat().st_size // 1000} kB")
        browser.close()


if __name__ == "__main__":
    main()
