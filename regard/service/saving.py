"""A trace as a file to take away."""

from __future__ import annotations

import re
import tempfile
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any

from regard.errors import nearest
from regard.inspection.trace import Inspection
from regard.service.refusals import NotThere, Refused
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


def saved(
    kept: Trace, ending: str, kind: str | None, layer: int | None, head: int | None, words: bool
) -> bytes:
    """The bytes of a file that holds what was chosen; an archive always holds everything of its kind."""
    choice: dict[str, Any] = {"kind": kind, "words": words}
    if ending != "npz":
        choice |= {"layer": layer, "head": head}
    if ending == "csv":
        _check_cells(kept.seen, kind, layer, head)
    with kept.loaded.lock, _drawing, tempfile.TemporaryDirectory() as folder:
        return kept.seen.save(Path(folder, f"saved.{ending}"), **choice).read_bytes()


def file_name(kept: Trace, ending: str, kind: str | None, layer: int | None, head: int | None) -> str:
    """A name that says what is in the file, in plain letters."""
    parts = [kept.entry.name, kind, layer, head] if ending != "npz" else [kept.entry.name, kind]
    said = "-".join(str(part) for part in parts if part is not None)
    return f"{re.sub(r'[^A-Za-z0-9.-]+', '-', said)}.{ending}"


def _check_cells(seen: Inspection, kind: str | None, layer: int | None, head: int | None) -> None:
    cells = 0
    for each in [kind] if kind is not None else seen.kinds:
        maps = (1 if layer is not None else seen.layers(each)) * (1 if head is not None else seen.heads)
        cells += maps * prod(map(len, seen.sides(each)))
    if cells > MOST_CELLS:
        raise Refused(f"a table of {cells:,} cells; choose a kind, a layer or a head, or save .npz")
