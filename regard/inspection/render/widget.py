"""The view in a notebook, and a still picture where there is none.

    seen                                    # at the end of a cell: the view, or the picture
    show(seen, kind="encoder", query="it")  # the same with a choice pinned

The widget holds what a kept page does, so it works without the model and in a saved notebook too.
"""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.errors import MissingPackage
from regard.inspection.record.inspection import Inspection
from regard.inspection.render.html_export import Choice, bundle, keep, read_style
from regard.inspection.render.payload import look_over
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
    seen: Inspection,
    kind: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    query: int | str | None = None,
    words: bool = False,
) -> Any:
    """The studio's view of this inspection as a notebook widget; what is left open is chosen well."""
    view = _widget_class()
    data = keep(seen, Choice(kind, layer, head, query, words))
    return view(data=data, picture=draw(seen, data["trace"]["pinned"], words))


def script() -> str:
    """The view as the module that anywidget loads."""
    return f"const view = {bundle()};{RENDER}"


def draw(seen: Inspection, pinned: dict[str, Any], words: bool = False) -> str:
    """The pinned head as a still picture, in SVG."""
    from regard.inspection.render.figure import draw_head, write_figure

    kind, layer, head = (pinned[name] for name in ("kind", "layer", "head"))
    title = f"{kind.capitalize()} attention, layer {layer}, head {head}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "picture.svg")
        write_figure(draw_head(heat_of(seen, kind, layer, head, words), title), file)
        return file.read_text(encoding="utf-8")


def offer(seen: Inspection) -> tuple[dict[str, Any], dict[str, Any]]:
    """What may be shown for an inspection, by MIME type, and metadata of it.

    In a notebook the widget, with the picture for places that do not run it; elsewhere, and without
    anywidget, the picture; in a terminal nothing.
    """
    shell = _shell()
    if shell is not None and not hasattr(shell, "kernel"):
        return {}, {}
    if shell is None or not _is_installed():
        return {PICTURE: draw(seen, vars(look_over(seen).pinned))}, {}
    return show(seen)._repr_mimebundle_()


def _shell() -> Any:
    """The interactive shell that runs us, where one does."""
    interactive = sys.modules.get("IPython")
    return interactive and interactive.get_ipython()


def _is_installed() -> bool:
    try:
        return find_spec("anywidget") is not None
    except ValueError:  # a module that stands in for it has no spec
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
        """The view, its data, and the picture that stands for it where scripts do not run."""

        _esm = script()
        _css = read_style()
        data = traitlets.Dict().tag(sync=True)
        picture = traitlets.Unicode()

        def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
            data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
            return {**data, PICTURE: self.picture}, metadata

    return View
