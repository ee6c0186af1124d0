"""A trace as a file to take away."""

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
from regard.service.http_errors import NotThere, Refused
from regard.service.traces import Trace

KINDS = {
    "npz": "application/octet-stream",
    "html": "text/html; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
MOST_CELLS = 2_000_000  # of a table; more would not open anywhere
_drawing = Lock()  # matplotlib keeps settings for the whole process


def check_ending(ending: str) -> str:
    """The media type of an ending, refused where there is none."""
    if ending not in KINDS:
        raise NotThere(f"nothing is saved as {ending[:20]!r}; {nearest(ending[:20], KINDS)}")
    return KINDS[ending]


def saved(kept: Trace, ending: str, choice: Choice) -> bytes:
    """The bytes of a file that holds what was chosen; an archive always holds everything of its kind."""
    if ending == "npz":
        choice = replace(choice, layer=None, head=None)
    if ending == "csv":
        _check_cells(kept.seen, choice)
    with kept.loaded.lock, _drawing, tempfile.TemporaryDirectory() as folder:
        return save(kept.seen, Path(folder, f"saved.{ending}"), choice, kept.entry.notes).read_bytes()


def file_name(kept: Trace, ending: str, choice: Choice) -> str:
    """A name that says what is in the file, in plain letters."""
    parts = [kept.entry.name, choice.kind, *([choice.layer, choice.head] if ending != "npz" else [])]
    said = "-".join(str(part) for part in parts if part is not None)
    return f"{re.sub(r'[^A-Za-z0-9.-]+', '-', said)}.{ending}"


def _check_cells(seen: Inspection, choice: Choice) -> None:
    cells = 0
    for kind in [choice.kind] if choice.kind is not None else seen.kinds:
        layers = seen.layers(kind) if choice.layer is None else 1
        heads = seen.heads if choice.head is None else 1
        cells += layers * heads * prod(map(len, seen.sides(kind)))
    if cells > MOST_CELLS:
        raise Refused(f"a table of {cells:,} cells; choose a kind, a layer or a head, or save .npz")
