"""How quick the studio is, measured in the browser: `python -m tests.studio.measure MODEL`.

Not a test: figures depend on the machine, and mean something only where nothing else runs.

first paint        from asking for the page to the first thing seen, in a browser that was never here; the
                   model is loaded
first attention    the same to the first matrix
keystroke          from a key to the matrix of the new sentence, the wait for the next key included
hovering           over 100 x 100 cells: the work of a frame, and the time from frame to frame
512 tokens         a text of 512 tokens in a model of 12 layers and 12 heads: until it is drawn, of which the
                   model itself; and another layer of it
load               the lines of `python -m tests.studio.load`, which needs no browser
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
from playwright.sync_api import Browser, Page, expect, sync_playwright

from . import chromium, load
from .person import Person
from .serving import serve

WORDS = [f"word{number}" for number in range(600)]
# From an event to the first frame after the grid, and with it the canvas, was made anew.
WATCH = """event => new Promise(done => {
    const grid = document.querySelector(".picture-matrix [role=grid]");
    let begun = null;
    document.addEventListener(event, input => { begun ??= input.timeStamp; }, { once: true, capture: true });
    const watch = new MutationObserver(() => {
        if (begun === null) return;
        watch.disconnect();
        requestAnimationFrame(() => { const drawn = performance.now(); done(drawn - begun); });
    });
    watch.observe(grid, { childList: true });
})"""
# Until nothing has been drawn for a while: what follows belongs to what is done next.
SETTLED = """pause => new Promise(done => {
    const grid = document.querySelector(".picture-matrix [role=grid]");
    let timer = setTimeout(done, pause);
    new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(done, pause); })
        .observe(grid, { childList: true });
})"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
DRAWN = """() => new Promise(done => {
    const look = () => document.querySelector(".picture-matrix [role=gridcell]")
        ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look);
    look();
})"""
HOVER = """async points => {
    const stage = document.querySelector(".picture-matrix .matrix-stage");
    const box = stage.getBoundingClientRect();
    const request = window.requestAnimationFrame;
    let callbacks = 0;
    window.requestAnimationFrame = call => request(now => {
        const begun = performance.now();
        call(now);
        callbacks += performance.now() - begun;
    });
    const work = [], between = [];
    let last = await new Promise(done => request(done));
    for (const [x, y] of points) {
        callbacks = 0;
        const begun = performance.now();
        const place = { clientX: box.left + x, clientY: box.top + y, bubbles: true };
        stage.dispatchEvent(new PointerEvent("pointermove", place));
        const handled = performance.now() - begun;
        const now = await new Promise(done => request(done));
        work.push(handled + callbacks);
        between.push(now - last);
        last = now;
    }
    window.requestAnimationFrame = request;
    return { work, between };
}"""


def say(name: str, times: list[float]) -> None:
    """One line: the median in milliseconds, the largest, how many."""
    print(f"{name:<42} {median(times):8.1f} ms   at most {max(times):8.1f}   of {len(times)}", flush=True)


@contextmanager
def tab(browser: Browser, home: str) -> Iterator[Person]:
    """A tab of a browser that was never here."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(120_000)
    try:
        yield Person(context.new_page(), home)
    finally:
        context.close()


def first_paint(browser: Browser, home: str, times: int) -> None:
    """From asking for the page to what is seen."""
    painted, drawn = [], []
    with tab(browser, home) as person:
        person.inspect()
    for _ in range(times):
        with tab(browser, home) as person:
            person.page.goto(f"{home}/studio", wait_until="commit")
            drawn.append(person.page.evaluate(DRAWN))
            painted.append(person.page.evaluate(PAINT))
    say("first paint", painted)
    say("first attention", drawn)


def timed(page: Page, event: str, act: Callable[[], None], pause: int = 500) -> float:
    """From an event that `act` causes to the frame in which it is drawn, once all has been quiet."""
    page.evaluate(SETTLED, pause)
    waiting = page.evaluate_handle(f"event => ({{ told: ({WATCH})(event) }})", event)
    act()
    return waiting.evaluate("waiting => waiting.told")


def keystroke(browser: Browser, home: str, times: int) -> None:
    """From a key to the matrix of the new sentence."""
    with tab(browser, home) as person:
        person.inspect()
        person.field.click()
        person.page.keyboard.press("End")
        found = []
        for number in range(times):
            key = "Backspace" if number % 2 else "s"
            person.page.wait_for_timeout(250)  # as people type; faster keys share a request
            found.append(timed(person.page, "input", lambda key=key: person.page.keyboard.press(key)))
    say("keystroke to drawn attention", found)


def hovering(browser: Browser, home: str, times: int) -> None:
    """What a frame costs while the pointer goes over 100 x 100 cells."""
    with tab(browser, home) as person:
        person.inspect(text=" ".join(WORDS[:98]), kind="encoder", layer=0, head=0, words=0)
        box = person.page.locator(".picture-matrix .matrix-stage").bounding_box()
        assert box is not None
        draw = np.random.default_rng(1)
        points = draw.uniform([100, 100], [box["width"] - 5, box["height"] - 5], (times, 2)).tolist()
        told = person.page.evaluate(HOVER, points)
    say("hovering 100 x 100, work of a frame", told["work"])
    say("hovering 100 x 100, frame to frame", told["between"])


def many_tokens(browser: Browser, home: str, times: int) -> None:
    """A text of 512 tokens, drawn; of which the model; and another layer of the same."""
    drawn, modelled, layers = [], [], []
    with tab(browser, home) as person:
        person.inspect(text="word1 word2", kind="encoder", layer=0, head=0, words=0)
        for number in range(times):
            text = " ".join(WORDS[number : number + 510])
            person.page.evaluate("performance.clearResourceTimings()")
            drawn.append(timed(person.page, "input", lambda text=text: person.field.fill(text), 2000))
            asked = "performance.getEntriesByType('resource').filter(one => one.name.endsWith('/trace'))"
            # A repeated request for the same text is answered from the cache.
            modelled.append(person.page.evaluate(f"Math.max(...{asked}.map(one => one.duration))"))
            block = person.page.get_by_role("group", name="The stack, as a map")
            button = block.get_by_role("button", name=f"Encoder, layer {number % 11 + 1}", exact=True)
            layers.append(timed(person.page, "click", lambda button=button: button.click(), 2000))
    say("512 tokens, 12 x 12 heads, drawn", drawn)
    say("  of which the model's own pass", modelled)
    say("512 tokens, another layer", layers)


def large_model(folder: Path) -> Path:
    """An encoder of 12 layers and 12 heads with room for 512 tokens; it has learned nothing."""
    import torch

    from regard.checkpoints.folder import save_model
    from regard.model.config import ModelConfig
    from regard.model.transformer import build_model
    from regard.text.tokenizer import Tokenizer, Tokenizers

    torch.manual_seed(0)
    tokenizer = Tokenizer.train([" ".join(WORDS)], kind="word", vocabulary=1000)
    config = ModelConfig(
        family="encoder-only", output="masked", vocabulary=tokenizer.vocabulary, layers=12, heads=12,
        width=768, feed_forward_width=3072, context=512,
    )  # fmt: skip
    save_model(folder / "large", build_model(config).eval(), Tokenizers.joint(tokenizer))
    return folder / "large"


def main() -> None:
    """Measure everything and print medians."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.studio.measure", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "model", metavar="MODEL", help="the folder of a small trained model, such as the demo's"
    )
    parser.add_argument(
        "--times", type=int, metavar="N", help="how often each is done; else 7, 21, 300 and 5 times"
    )
    given = parser.parse_args()
    expect.set_options(timeout=120_000)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=chromium.ARGUMENTS)
        with serve(given.model) as home:
            first_paint(browser, home, given.times or 7)
            keystroke(browser, home, given.times or 21)
            load.measure(home, given.times or 100)
        with serve(large_model(Path(folder))) as home:
            hovering(browser, home, given.times or 300)
            many_tokens(browser, home, given.times or 5)
        browser.close()


if __name__ == "__main__":
    main()
