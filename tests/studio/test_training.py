"""Through training: attention at each checkpoint, the loss beside it, live while a run goes on."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import expect

import regard

from .person import HALF, Person, numbers
from .serving import serve
from .watching import visitor

pytestmark = pytest.mark.xdist_group("browser")
CAT = "The cat sleeps because it is tired."
STEPS = [0, 30, 60, 90, 120]
GRID = "Attention at the chosen checkpoint"


@pytest.fixture
def tab(person):
    """The tab of a run that is over."""
    chosen = dict(model="translation", text=CAT, tab="training", kind="encoder", layer=1, head=0)
    panel = person.visit(**chosen).page.get_by_role("tabpanel")
    expect(panel.get_by_role("grid", name=GRID).get_by_role("gridcell").first).to_be_attached()
    return panel


def test_the_slider_shows_attention_as_it_was(tab, models):
    slider = tab.get_by_role("slider", name="Step of training")
    slider.focus()
    for step in reversed(STEPS):
        expect(slider).to_have_attribute("aria-valuetext", f"step {step}")
        expect(tab.get_by_role("heading", name=f"Encoder, layer 1, head 0, at step {step}")).to_be_visible()
        then = regard.load(models["translation"] / "weights" / f"step-{step:08d}")
        written = then.translate(CAT).text
        output = re.compile(rf"^At step {step}\b.* it writes: {re.escape(written or 'nothing')}$")
        expect(tab.locator(".output-line")).to_have_text(output)
        weights = regard.inspect(then, CAT, written).attention("encoder", 1, 0, words=True)
        assert np.allclose(numbers(tab.get_by_role("grid", name=GRID)), weights, atol=HALF), step
        tab.page.keyboard.press("ArrowLeft")


def test_the_loss_curve_is_that_of_the_run(tab, models):
    lines = (models["translation"] / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [event["cross_entropy"] for event in map(json.loads, lines) if event["event"] == "step"]
    told = f"Training loss from {losses[0]:.2f} at step 1 to {losses[-1]:.2f} at step 120"
    expect(tab.get_by_role("img", name=re.compile(re.escape(told)))).to_be_visible()
    expect(tab.get_by_text("The run is over.")).to_be_visible()
    marks = tab.locator(".curve text[text-anchor=end]").evaluate_all(
        "all => all.map(one => [Number(one.textContent), Number(one.getAttribute('y'))])"
    )
    (first, top), (second, middle), (third, bottom) = marks[:3]
    logs = np.log([first, second, third])
    assert (top - middle) / (middle - bottom) == pytest.approx(
        (logs[1] - logs[0]) / (logs[2] - logs[1]), rel=0.02
    )
    tab.get_by_label("As a table: The loss of each step").click()
    table = tab.get_by_role("table", name="The loss of each step")
    cells = table.locator("tbody tr td:nth-of-type(1)")
    expect(cells).to_have_count(len(losses))
    shown = cells.evaluate_all("all => all.map(one => Number(one.dataset.value))")
    assert np.allclose(shown, losses)


def test_it_plays_from_chance_to_the_end(tab):
    tab.get_by_role("button", name="Play").click()
    expect(tab.locator(".output-line")).to_contain_text("At step 0 (nothing learned yet)")
    expect(tab.locator(".output-line")).to_contain_text("At step 120")
    expect(tab.get_by_role("button", name="Play")).to_be_visible()


@pytest.fixture
def going(browser, models, tmp_path) -> Iterator[tuple[Person, object]]:
    """A run that goes on: its folder without the last checkpoints, and a studio that looks at it."""
    run = tmp_path / "going"
    shutil.copytree(models["translation"], run)
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    early = [line for line in lines if json.loads(line).get("step", 0) <= 60]
    (run / "metrics.jsonl").write_text("".join(early), encoding="utf-8")
    kept = [(run / "weights" / f"step-{step:08d}") for step in (90, 120)]
    for folder in kept:
        folder.rename(tmp_path / folder.name)

    def go_on() -> None:
        (tmp_path / kept[0].name).rename(kept[0])
        with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(line for line in lines if 60 < json.loads(line).get("step", 0) <= 90)

    with serve(run) as home, visitor(browser, home) as (context, _):
        yield Person(context.new_page(), home), go_on


def test_a_run_that_goes_on_is_seen_live(going):
    person, go_on = going
    tab = person.visit(text=CAT, tab="training").page.get_by_role("tabpanel")
    expect(tab.get_by_text("The run goes on; this page follows it.")).to_be_visible()
    expect(tab.get_by_role("slider", name="Step of training")).to_have_attribute("aria-valuetext", "step 60")
    go_on()
    expect(tab.get_by_role("slider", name="Step of training")).to_have_attribute("aria-valuetext", "step 90")
    expect(tab.get_by_role("img", name=re.compile("at step 90"))).to_be_visible()
