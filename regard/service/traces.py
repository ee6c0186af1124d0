"""A cache of inspections by request; those unused for longest are evicted."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from regard.service.http_errors import Gone

if TYPE_CHECKING:
    from regard.inspection.inspection import Inspection
    from regard.service.models import Entry, Loaded, Models
    from regard.service.requests import TraceRequest

MOST = 64
BYTES = 1 << 29


@dataclass(frozen=True, eq=False)
class Trace:
    """The inspection of a sentence, with two responses that are sent as they are."""

    id: str
    entry: Entry
    loaded: Loaded
    inspection: Inspection
    description: bytes  # JSON
    overview: bytes  # the sheet of all small maps

    @property
    def size(self) -> int:
        """The memory that it holds now, in bytes; it grows where a recording is completed on request."""
        recording = self.inspection.recording
        return recording.held_bytes + recording.output.nbytes + len(self.description) + len(self.overview)

    def needs_pass(self, weights_only: bool = False) -> bool:
        """Whether reading its values, or its attention weights alone, may need another forward pass."""
        recording = self.inspection.recording
        return not (recording.holds_weights if weights_only else recording.holds_everything)

    def lock(self, weights_only: bool = False) -> AbstractContextManager[object]:
        """The lock of the model where a value may need another forward pass."""
        return self.loaded.lock if self.needs_pass(weights_only) else nullcontext()


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
            self._evict()

    def limit(self) -> None:
        """Evict traces if those that are kept have grown too large."""
        with self._lock:
            self._evict()

    def _evict(self) -> None:
        while len(self._kept) > 1 and not self._fits():
            self._kept.popitem(last=False)

    def _fits(self) -> bool:
        size = sum(trace.size for trace in self._kept.values())
        return len(self._kept) <= self._most and size <= self._size


def id_of(request: TraceRequest, key: str) -> str:
    """A hash of a request and the key of its model."""
    text = json.dumps([key, request.model_dump(mode="json")], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def stored_trace(models: Models, traces: Traces, request: TraceRequest) -> Trace | None:
    """The stored trace of a request, found without a lock and without loading the model."""
    key = models[request.model].key(request.snapshot)
    return None if key is None else traces.find(id_of(request, key))
