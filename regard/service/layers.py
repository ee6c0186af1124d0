"""The computation of the tab Layers. Imports torch."""

from __future__ import annotations

from regard.inspection.render import layers_payload
from regard.service.traces import Trace

POINTS = 48  # of the integral, at most; a long text has fewer
TOKENS = 1 << 15  # of all passes of an integral


def lens(stored: Trace) -> bytes:
    """What each layer would write."""
    with stored.lock():
        return layers_payload.lens(stored.inspection)


def flow(stored: Trace, measure: str, kind: str, words: bool) -> bytes:
    """What each word takes from each word, layer by layer."""
    with stored.lock():
        return layers_payload.flow(stored.inspection, measure, kind, words)


def attribution(stored: Trace, position: int, word: int | None, instead: int | None, method: str) -> bytes:
    """Why one word is written and not another."""
    with stored.loaded.lock:
        inspection = stored.inspection
        longest = max(len(side) for side in inspection.all_sides)
        points = max(8, min(POINTS, TOKENS // longest))
        return layers_payload.attribution(inspection, position, word, instead, method, points)
