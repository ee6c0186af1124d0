"""The view in a notebook, with a picture where scripts do not run.

    seen                                    # at the end of a cell: the view, or the picture
    show(seen, kind="encoder", query="it")  # the view with a choice pinned

The widget holds the data of an exported page, so it works without the model and in a saved notebook.
"""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.errors import MissingPackage
from regard.inspection.record.record import Record
from regard.inspection.render.bundle import bundle, read_style
from regard.inspection.render.html_export import Choice, page_data
from regard.inspection.render.payload import annotated_overview
from regard.inspection.render.terminal import heat_of

PICTURE = "image/svg+xml"
RENDER = """
export default {
  render({ model, el }) {
    const root = document.createElement("div");
    el.append(root);
    const data = model.get("data");
    return view.startKept(root, data, { address: false, values: data.values }).end;
  },
};
"""


def show(
    record: Record,
    kind: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    query: int | str | None = None,
    words: bool = False,
) -> Any:
    """The studio's view of a record as a notebook widget; a choice that is None is made by the overview."""
    view = _widget_class()
    data = page_data(record, Choice(kind, layer, head, query, words))
    return view(data=data, picture=draw(record, data["trace"]["pinned"], words))


def script() -> str:
    """The view as the module that anywidget loads."""
    return f"const view = {bundle()};{RENDER}"


def draw(record: Record, pinned: dict[str, Any], words: bool = False) -> str:
    """The pinned head as an SVG picture."""
    from regard.inspection.render.figure import draw_head, write_figure

    kind, layer, head = (pinned[name] for name in ("kind", "layer", "head"))
    title = f"{kind.capitalize()} attention, layer {layer}, head {head}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "picture.svg")
        write_figure(draw_head(heat_of(record, kind, layer, head, words), title), file)
        return file.read_text(encoding="utf-8")


def mime_bundle(record: Record) -> tuple[dict[str, Any], dict[str, Any]]:
    """The data of a record by MIME type, and its metadata.

    In a notebook this is the widget, with the picture for viewers that run no scripts. Without a notebook or
    anywidget it is the picture; in a terminal it is empty.
    """
    shell = _shell()
    if shell is not None and not hasattr(shell, "kernel"):
        return {}, {}
    if shell is None or not _is_installed():
        return {PICTURE: draw(record, vars(annotated_overview(record).pinned))}, {}
    return show(record)._repr_mimebundle_()


def _shell() -> Any:
    """The running IPython shell, or None."""
    interactive = sys.modules.get("IPython")
    return interactive and interactive.get_ipython()


def _is_installed() -> bool:
    try:
        return find_spec("anywidget") is not None
    except ValueError:  # a stand-in module has no spec
        return False


@cache
def _widget_class() -> Any:
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise MissingPackage(
            "the view in a notebook needs anywidget, which is not installed; pip install 'regard[notebook]'"
        ) from None

    class View(anywidget.AnyWidget):
        """The view, its data, and the picture for viewers that run no scripts."""

        _esm = script()
        _css = read_style()
        data = traitlets.Dict().tag(sync=True)
        picture = traitlets.Unicode()

        def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
            data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
            return {**data, PICTURE: self.picture}, metadata

    return View
