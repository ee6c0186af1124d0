"""One cell, step by step: the digits on the page are those of the model, and the ticks are earned."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from .person import values

pytestmark = pytest.mark.xdist_group("browser")
CAT = "The cat sleeps because it is tired."
SIX = {
    "Make query, key and value": ["input", "normed", "query", "keys", "values"],
    "Score": ["products", "scores"],
    "Divide by √dₖ": ["scaled"],
    "Softmax": ["masked", "exponentials", "sum", "weights"],
    "Weight the values": ["weighted"],
    "Sum, and hand on": ["head", "contribution", "contributions", "bias", "output", "residual", "norm"],
}
BARS = ("scores", "scaled", "masked", "exponentials", "weights")


def expected_of(steps, name, key):
    """What a step shows of one key, as columns of numbers."""
    value = {step.name: step.value for step in steps}
    shown = {
        "keys": ["keys"],
        "products": ["query", "keys", "products"],
        "values": ["values"],
        "weighted": ["values", "weighted"],
        "residual": ["input", "output", "residual"],
    }.get(name, [name])
    if name == "contributions":
        return value[name].T
    return np.stack([value[each][key] if value[each].ndim == 2 else value[each] for each in shown], axis=1)


def read_step(item):
    """The numbers of the open step: its bars, or the table behind its strips."""
    if item.locator(".bars").count():
        return np.array(values(item.locator(".bars li")))
    item.get_by_label(re.compile("^As a table")).click()
    cells = item.get_by_role("table").locator("td")
    expect(cells.first).to_be_visible()
    columns = item.get_by_role("columnheader").count() - 1
    return np.array(values(cells)).reshape(-1, columns)


@pytest.mark.parametrize(
    ("model", "text", "place"),
    [
        ("translation", CAT, dict(kind="encoder", layer=1, head=1, query=4, key=1)),
        ("translation", CAT, dict(kind="cross", layer=0, head=2, query=3, key=2)),
        ("writing", "I arrived at the", dict(kind="decoder", layer=1, head=0, query=3, key=2)),
    ],
)
def test_every_step_shows_the_models_numbers(person, inspect, model, text, place):
    person.inspect(model=model, text=text, words=0, **place)
    seen = inspect(model, text)
    steps = seen.steps(place["kind"], place["layer"], place["head"], place["query"])
    page, shown = person.page, []
    for number, (title, names) in enumerate(SIX.items()):
        expect(page.get_by_text(f"Step {number + 1} of 6")).to_be_visible()
        group = page.locator(".step-group.is-open")
        expect(group.locator(".group-title")).to_have_text(title)
        for step in (step for name in names for step in steps if step.name == name):
            item = group.locator(f".step[data-step={step.name}]")
            if item.locator(".step-open").get_attribute("aria-expanded") == "false":
                item.locator(".step-open").click()
            expect(item.locator(".step-saying")).to_have_text(step.saying)
            if step.name in BARS:
                assert np.allclose(read_step(item), step.value, rtol=1e-5, atol=1e-5), step.name
            elif step.name != "sum":
                wanted = expected_of(steps, step.name, place["key"])
                assert np.allclose(read_step(item), wanted, rtol=1e-5, atol=1e-5), step.name
            expect(item.get_by_text("equals the model’s number")).to_have_count(1 if step.agrees else 0)
            shown.append(step.name)
        if number < 5:
            person.button("Next").locator("visible=true").click()
    expect(person.button("Next").locator("visible=true")).to_be_disabled()
    assert sorted(shown) == sorted(step.name for step in steps), "no formula is left out of the six steps"
    compared = sum(step.agrees is not None for step in steps)
    expect(person.page.get_by_text(f"{compared} of {compared} equal the model")).to_be_visible()


def test_the_digits_of_the_cell_are_written_out(person, inspect):
    person.inspect(model="translation", text=CAT, kind="encoder", layer=1, head=1, query=4, key=1)
    steps = inspect("translation", CAT).steps("encoder", 1, 1, 4)
    value = {step.name: step.value for step in steps}
    total = float(value["sum"])

    def line(name):
        step = next(number for number, names in enumerate(SIX.values()) if name in names)
        text = person.page.locator(f".group-open[data-step='{step}'] .step-line").inner_text()
        return [float(digits.replace("−", "-")) for digits in re.findall(r"−?\d+\.\d+", text)]

    assert line("scores") == pytest.approx([value["scores"][1]], abs=1e-4)
    assert line("scaled") == pytest.approx(
        [value["scores"][1], np.sqrt(12), value["scores"][1] / np.sqrt(12)], abs=1e-4
    )
    assert line("weights") == pytest.approx(
        [value["exponentials"][1], total, value["exponentials"][1] / total], abs=1e-4
    )
    assert person.matrix.get_by_role("gridcell", selected=True).inner_text() == f"{line('weights')[-1]:.4f}"


def test_back_and_next_walk_the_six_steps_and_a_formula_opens_by_itself(person):
    person.inspect(model="translation", text=CAT)
    back, forward = (person.button(name).locator("visible=true") for name in ("Back", "Next"))
    title = person.page.locator(".step-group.is-open .group-title")
    expect(person.page.locator(".step-group")).to_have_count(6)
    expect(title).to_have_text("Make query, key and value")
    expect(back).to_be_disabled()
    person.page.locator(".step[data-step=keys] .step-open").click()
    expect(person.page.locator(".step.is-open")).to_have_attribute("data-step", "keys")
    forward.click()
    expect(title).to_have_text("Score")
    expect(person.page.locator(".step.is-open")).to_have_attribute("data-step", "scores")
    back.click()
    expect(title).to_have_text("Make query, key and value")
    person.page.get_by_role("button", name=re.compile("^Softmax")).click()
    expect(title).to_have_text("Softmax")
    person.page.get_by_role("button", name=re.compile("^Softmax")).click()
    expect(title).to_have_count(0)


def test_the_mask_is_a_step_of_its_own(person):
    person.inspect(
        model="writing", text="I arrived at the", words=0, kind="decoder", layer=0, head=0, query=1, key=3
    )
    person.page.get_by_role("button", name=re.compile("^Softmax")).click()
    expect(person.page.locator(".step[data-step=masked] .step-line")).to_have_text("−∞: may not look")
    expect(person.matrix.get_by_role("gridcell", selected=True)).to_have_text("masked")
