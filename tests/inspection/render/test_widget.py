"""In a notebook the view, elsewhere a picture; tests/studio/test_notebook.py draws the view itself."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import pytest

from regard.errors import MissingPackage
from regard.inspection.render import widget
from regard.inspection.render.html_export import Choice, page_data
from regard.inspection.render.widget import PICTURE, mime_bundle, show

from ..conftest import inspected

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def shell(monkeypatch):
    """Pretend that this is a notebook (a shell with a kernel) or a terminal (one without)."""

    def pretend(**parts):
        stand_in = SimpleNamespace(get_ipython=lambda: SimpleNamespace(**parts))
        monkeypatch.setitem(sys.modules, "IPython", stand_in)

    widget._widget_class()  # which looks at the true one
    return pretend


@pytest.fixture
def without_anywidget(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    widget._widget_class.cache_clear()
    yield
    widget._widget_class.cache_clear()


def texts_of(picture: str) -> set[str]:
    return {(element.text or "").strip() for element in ElementTree.fromstring(picture).iter()}


def test_the_widget_holds_what_a_kept_page_does(words):
    seen = inspected(words)
    shown = show(seen, kind="encoder", layer=1, head=2, query="it", words=True)
    assert shown.data == page_data(seen, Choice("encoder", 1, 2, "it", True))
    assert "export default" in shown._esm
    assert ".regard" in shown._css
    offered, _ = shown._repr_mimebundle_()
    assert offered[WIDGET]["model_id"] == shown.model_id
    assert {"Encoder attention, layer 1, head 2", "street"} <= texts_of(offered[PICTURE])


def test_a_notebook_is_offered_the_view_and_a_picture(words, shell):
    shell(kernel=True)
    offered, _ = inspected(words)._repr_mimebundle_(include=None, exclude=None)
    assert {WIDGET, PICTURE} <= set(offered)


def test_without_the_package_a_notebook_shows_a_picture(words, shell, without_anywidget):
    shell(kernel=True)
    seen = inspected(words)
    offered, _ = mime_bundle(seen)
    assert set(offered) == {PICTURE}
    pinned = page_data(seen, Choice())["trace"]["pinned"]
    title = "{} attention, layer {}, head {}".format(*pinned.values())
    assert any(text.lower() == title for text in texts_of(offered[PICTURE]))


def test_where_no_shell_runs_there_is_a_picture(words):
    assert set(mime_bundle(inspected(words))[0]) == {PICTURE}


def test_a_terminal_is_offered_nothing(words, shell):
    shell()
    assert mime_bundle(inspected(words)) == ({}, {})


def test_a_missing_package_names_its_command(words, without_anywidget):
    with pytest.raises(MissingPackage, match=r"anywidget.*pip install 'regard\[notebook\]'"):
        show(inspected(words))
