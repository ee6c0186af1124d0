"""Inspections by what they are of: the same request gives the same one, and those long unused are let go."""

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
    seen: Inspection
    overview: Overview
    told: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def overview_sheet(self) -> bytes:
        """The sheet of all small maps."""
        from regard.inspection.render.payload import overview_sheet

        return overview_sheet(self.overview)

    @cached_property
    def size(self) -> int:
        """About how many bytes its recording may come to hold."""
        seen = self.seen
        between = sum(
            seen.layers(kind) * seen.heads * prod(map(len, seen.sides(kind))) for kind in seen.kinds
        )
        return min(seen.recording.budget, 16 * between) + seen.recording.output.nbytes


class Traces:
    """The traces that are kept; several threads may ask."""

    def __init__(self, most: int = MOST, size: int = BYTES):
        self._most, self._size = most, size
        self._kept: OrderedDict[str, Trace] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, name: str) -> Trace | None:
        """The trace of this id, if it is still there."""
        with self._lock:
            found = self._kept.get(name)
            if found is not None:
                self._kept.move_to_end(name)
            return found

    def __getitem__(self, name: str) -> Trace:
        found = self.find(name)
        if found is None:
            raise Gone("this sentence was let go to make room; ask for it again")
        return found

    def keep(self, trace: Trace) -> None:
        """Keep a trace, and let go of those that were not asked for longest."""
        with self._lock:
            self._kept[trace.id] = trace
            while len(self._kept) > 1 and not self._fits():
                self._kept.popitem(last=False)

    def _fits(self) -> bool:
        return len(self._kept) <= self._most and sum(each.size for each in self._kept.values()) <= self._size


def id_of(request: Any, key: str) -> str:
    """A hash of a request to the model of a key."""
    said = json.dumps([key, request], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(said.encode()).hexdigest()[:24]
