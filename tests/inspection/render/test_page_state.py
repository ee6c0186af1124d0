"""A state of the page: what the view has, and nothing else."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from regard.errors import SettingError
from regard.inspection.render.bundle import VIEW
from regard.inspection.render.page_state import PageState, Tab

SCRIPTS = {file: file.read_text(encoding="utf-8") for file in VIEW.rglob("*.js")}


def test_the_tabs_are_those_of_the_view():
    entries = [
        text for file, text in SCRIPTS.items() if file.name == "tab.js" and "/tabs/" in file.as_posix()
    ]
    names = {found[1] for text in entries if (found := re.search(r'^ {2}name: "(\w+)",$', text, re.M))}
    assert len(names) == len(entries)
    assert set(get_args(Tab)) == names - {"demo"}  # which is there only where no model is trained


def test_every_field_is_one_that_the_page_reads():
    state = next(text for file, text in SCRIPTS.items() if file.name == "state.js")
    listed = set(re.findall(r"^ {2}(\w+): [A-Z]+,$", state, re.M))
    read = {name for text in SCRIPTS.values() for name in re.findall(r'\.get\("(\w+)"\)', text)}
    assert set(PageState.model_fields) <= listed | read


def test_an_address_is_read_and_written():
    state = PageState(tab="inspect", text="it was & is", kind="cross", layer=0, head=2, temperature=0.5)
    assert state.address == "tab=inspect&text=it+was+%26+is&kind=cross&layer=0&head=2&temperature=0.5"
    assert PageState.of(state.address) == state


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tab=inspekt", r"tab \('inspekt'\): input should be"),
        ("text=it", "tab is missing"),
        ("tab=inspect&haed=1", "unknown setting 'haed'; did you mean head"),
        ("tab=inspect&head=one", r"head \(one\) must be a number"),
        ("tab=inspect&layer=-1", "greater than or equal to 0"),
        ("tab=inspect&ablate=scale", "ablate"),
        ("tab=byhand&example=E", "example"),
        ("tab=byhand&rules=scaled", "rules"),
    ],
)
def test_what_the_page_does_not_have_is_refused(address, message):
    with pytest.raises(SettingError, match=message):
        PageState.of(address)
