"""Traces are kept by what they are of, and the one that was not asked for longest goes first."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from regard.service.http_errors import Gone
from regard.service.traces import Traces, id_of


@dataclass
class Fake:
    """Something to keep."""

    id: str
    size: int = 1


def test_the_one_unused_longest_goes_first():
    traces = Traces(most=2)
    for name in ("a", "b"):
        traces.keep(Fake(name))
    assert traces["a"].id == "a"
    traces.keep(Fake("c"))
    assert traces.find("b") is None
    assert (traces["a"].id, traces["c"].id) == ("a", "c")
    with pytest.raises(Gone, match="request them again"):
        traces["b"]


def test_large_ones_make_room():
    traces = Traces(most=10, size=100)
    for number in range(5):
        traces.keep(Fake(str(number), 40))
    assert len(traces) == 2
    traces.keep(Fake("huge", 1000))  # the latest is always kept: somebody is about to ask for it
    assert (len(traces), traces["huge"].id) == (1, "huge")


def test_an_id_tells_requests_and_models_apart():
    ids = {
        id_of({"text": "a", "ablate": []}, "key"),
        id_of({"text": "b", "ablate": []}, "key"),
        id_of({"text": "a", "ablate": ["scaling"]}, "key"),
        id_of({"text": "a", "ablate": []}, "other"),
    }
    assert len(ids) == 4
    assert id_of({"ablate": [], "text": "a"}, "key") in ids


def test_the_size_of_a_trace_grows_with_its_text(client, ask, models):
    from regard.service import handlers
    from regard.service.requests import TraceRequest

    traces = Traces()
    short, long = (
        handlers.trace(models, traces, TraceRequest(model="small", text=text, target="la"))
        for text in ("The", "The animal was too tired because it was too tired.")
    )
    kept = [sum(part.nbytes for part in _parts(each.inspection)) for each in (short, long)]
    assert short.size < long.size
    assert all(size > held / 4 for size, held in zip((short.size, long.size), kept, strict=True))


def _parts(seen):
    return (seen.recording[name] for name in seen.recording.names if name.endswith((".weights", ".scores")))
