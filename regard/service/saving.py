"""Export of a trace as a file."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from math import prod
from pathlib import Path
from threading import Lock

from regard.errors import nearest
from regard.inspection.inspection import Inspection
from regard.inspection.render.export import Choice, save
from regard.service.http_errors import NotFound, RequestError
from regard.service.traces import Trace

KINDS = {
    "npz": "application/octet-stream",
    "html": "text/html; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
MOST_CELLS = 2_000_000  # of a CSV table
_drawing = Lock()  # matplotlib's settings are global


def check_ending(ending: str) -> str:
    """The media type of a file ending; raise if it is unknown."""
    if ending not in KINDS:
        raise NotFound(f"unknown file type {ending[:20]!r}; {nearest(ending[:20], KINDS)}")
    return KINDS[ending]


def saved(stored: Trace, ending: str, choice: Choice) -> bytes:
    """The file of the chosen part; an npz archive contains all layers and heads of its kind."""
    if ending == "npz":
        choice = replace(choice, layer=None, head=None)
    if ending == "csv":
        _check_cells(stored.inspection, choice)
    with stored.lock(), _drawing, tempfile.TemporaryDirectory() as folder:
        return save(
            stored.inspection, Path(folder, f"saved.{ending}"), choice, stored.entry.notes
        ).read_bytes()


def file_name(stored: Trace, ending: str, choice: Choice) -> str:
    """A file name in ASCII with the model, kind, layer and head."""
    parts = [stored.entry.name, choice.kind, *([choice.layer, choice.head] if ending != "npz" else [])]
    name = "-".join(str(part) for part in parts if part is not None)
    return f"{re.sub(r'[^A-Za-z0-9.-]+', '-', name)}.{ending}"


def _check_cells(inspection: Inspection, choice: Choice) -> None:
    cells = 0
    for kind in [choice.kind] if choice.kind is not None else inspection.kinds:
        layers = inspection.layers(kind) if choice.layer is None else 1
        heads = inspection.heads if choice.head is None else 1
        cells += layers * heads * prod(map(len, inspection.sides(kind)))
    if cells > MOST_CELLS:
        raise RequestError(f"a table of {cells:,} cells; choose a kind, a layer or a head, or save .npz")
