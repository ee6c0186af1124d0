"""By hand: the lectures' matrices in cells that a person changes; numpy does the same arithmetic here."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from regard.inspection.by_hand.solution import round_to_whole

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def tab(person):
    """The tab with the lectures' example of three inputs."""
    person.visit(tab="byhand", example="B")
    return person.page.get_by_role("tabpanel", name="By hand")


def given(tab, name):
    """The numbers typed into a matrix."""
    table = tab.locator(f'[data-matrix="{name}"]')
    rows = table.locator("tbody tr").evaluate_all(
        "all => all.map(row => [...row.querySelectorAll('input')].map(one => Number(one.value)))"
    )
    return np.array(rows)


def shown(tab, name):
    """The numbers of a matrix that was worked out; not a number where it is masked."""
    table = tab.locator(f'table.grid[data-matrix="{name}"]').first
    rows = table.locator("tbody tr").evaluate_all(
        """all => all.map(row => [...row.querySelectorAll('td:not(.sum)')].map(
            one => one.dataset.value === undefined ? null : Number(one.dataset.value)))"""
    )
    return np.array(rows, dtype=float)


def attend(tab, divide=False, temperature=1.0, causal=False):
    """Queries, scores, weights and output, worked out again from what is typed."""
    x, query, key, value = (given(tab, name) for name in ("x", "wq", "wk", "wv"))
    scores = (x @ query) @ (x @ key).T
    scaled = scores / (np.sqrt(key.shape[1]) if divide else 1) / temperature
    if causal:
        scaled = np.where(np.tril(np.ones_like(scaled)) > 0, scaled, -np.inf)
    weights = np.exp(scaled - scaled.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    return {
        "Q": x @ query,
        "K": x @ key,
        "V": x @ value,
        "S": scores,
        "A": weights,
        "Z": weights @ (x @ value),
    }


def test_every_matrix_follows_from_what_is_given(tab):
    assert given(tab, "x").tolist() == [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]
    for name, expected in attend(tab).items():
        assert np.allclose(shown(tab, name), expected, atol=1e-9), name


def test_one_changed_entry_changes_every_step(tab):
    before = attend(tab)
    cell = tab.get_by_role("textbox", name="X, row 0, column 1")
    cell.fill("3")
    cell.press("Tab")
    after = attend(tab)
    expect(tab.locator('[data-matrix="Q"]').first.locator("td.changed").first).to_be_visible()
    for name, expected in after.items():
        assert not np.allclose(expected, before[name]), name
        assert np.allclose(shown(tab, name), expected, atol=1e-9), name


def test_every_weight_matrix_can_be_changed(tab):
    for number, name in enumerate(("W^Q", "W^K", "W^V")):
        cell = tab.get_by_role("textbox", name=f"{name}, row 1, column 2")
        cell.fill(str(2 + number))
        cell.press("Tab")
    for name, expected in attend(tab).items():
        assert np.allclose(shown(tab, name), expected, atol=1e-9), name


def test_the_rules_are_switched(tab):
    tab.get_by_role("checkbox", name="Divide by √dₖ").check()
    expect(tab.get_by_role("heading", name="Divide by √dₖ").first).to_be_visible()
    assert np.allclose(shown(tab, "A"), attend(tab, divide=True)["A"])
    tab.get_by_role("spinbutton", name="Softmax temperature, typed").fill("2")
    assert np.allclose(shown(tab, "A"), attend(tab, divide=True, temperature=2)["A"])
    tab.get_by_role("checkbox", name="Causal mask").check()
    masked = attend(tab, divide=True, temperature=2, causal=True)
    assert np.allclose(np.nan_to_num(shown(tab, "A")), masked["A"])
    assert np.allclose(shown(tab, "Z"), masked["Z"])


def test_early_rounding(tab):
    tab.get_by_role("checkbox", name="Round the weights early").check()
    tab.get_by_role("spinbutton", name="Decimals kept, typed").fill("1")
    worked = attend(tab)
    rounded = round_to_whole(worked["A"], 1)
    assert np.allclose(shown(tab, "rounded A"), rounded)
    assert np.allclose(shown(tab, "rounded Z"), rounded @ worked["V"])


def test_a_matrix_is_turned_to_the_decks_way_round(tab):
    upright = shown(tab, "A")
    tab.get_by_role("checkbox", name="A word is a column, as on the slides").check()
    expect(tab.get_by_text("the slides write the scores QᵀK")).to_be_visible()
    assert np.allclose(shown(tab, "A"), upright.T)


@pytest.mark.parametrize(
    ("example", "button", "first"),
    [
        ("A", "A Two words", "scores"),
        ("C", "C A masked pattern", "scores"),
        ("D", "D Words in context", "weights"),
    ],
)
def test_the_other_examples(tab, example, button, first):
    tab.get_by_role("button", name=button).click()
    expect(tab.locator(f'[data-matrix="{first}"]')).to_be_visible()
    matrix, weights = given(tab, first), shown(tab, "A")
    assert np.allclose(np.nan_to_num(weights).sum(1), 1, atol=0.02)
    if example == "A":
        assert np.allclose(matrix, [[112, 96]])
        assert np.allclose(weights, [[0.8808, 0.1192]], atol=1e-4)
    if example == "C":
        assert np.isnan(weights[0, 1:]).all()


def test_what_is_no_number_is_said_and_nothing_breaks(tab):
    before = shown(tab, "Z")
    cell = tab.get_by_role("textbox", name="X, row 0, column 0")
    cell.fill("abc")
    cell.press("Tab")
    expect(cell).to_have_attribute("aria-invalid", "true")
    assert np.allclose(shown(tab, "Z"), before)
    cell.fill("1")
    cell.press("Tab")
    expect(cell).not_to_have_attribute("aria-invalid", "true")
