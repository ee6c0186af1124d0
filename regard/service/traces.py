"""A cache of inspections by request; those unused for longest are evicted."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any

from regard.service.http_errors import Gone

if TYPE_CHECKING:
    from regard.inspection.analysis.overview import Overview
    from regard.inspection.inspection import Inspection
    from regard.service.models import Entry, Loaded

MOST = 64
BYTES = 1 << 29


@dataclass(frozen=True, eq=False)
class Trace:
    """The inspection of a sentence and its overview."""

    id: str
    entry: Entry
    loaded: Loaded
    inspection: Inspection
    overview: Overview
    description: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def overview_sheet(self) -> bytes:
        """The sheet of all small maps."""
        from regard.inspection.render.payload import overview_sheet

        return overview_sheet(self.overview)

    @cached_property
    def size(self) -> int:
        """An estimate of the largest size of its recording in bytes."""
        inspection = self.inspection
        between = sum(
            inspection.layers(kind) * inspection.heads * prod(map(len, inspection.sides(kind)))
            for kind in inspection.kinds
        )
        return min(inspection.recording.budget, 16 * between) + inspection.recording.output.nbytes


class Traces:
    """The stored traces; safe for several threads."""

    def __init__(self, most: int = MOST, size: int = BYTES):
        self._most, self._size = most, size
        self._kept: OrderedDict[str, Trace] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, name: str) -> Trace | None:
        """The trace with this id, or None."""
        with self._lock:
            trace = self._kept.get(name)
            if trace is not None:
                self._kept.move_to_end(name)
            return trace

    def __getitem__(self, name: str) -> Trace:
        trace = self.find(name)
        if trace is None:
            raise Gone("the results of this sentence were evicted; request them again")
        return trace

    def keep(self, trace: Trace) -> None:
        """Store a trace, and evict those unused for longest."""
        with self._lock:
            self._kept[trace.id] = trace
            while len(self._kept) > 1 and not self._fits():
                self._kept.popitem(last=False)

    def _fits(self) -> bool:
        size = sum(trace.size for trace in self._kept.values())
        return len(self._kept) <= self._most and size <= self._size


def id_of(request: Any, key: str) -> str:
    """A hash of a request and the key of its model."""
    text = json.dumps([key, request], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
