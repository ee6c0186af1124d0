"""Traces are kept by what they are of, and the one that was not asked for longest goes first."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import pytest
import torch

from regard.service import handlers
from regard.service.http_errors import Gone
from regard.service.requests import TraceRequest
from regard.service.traces import Traces, id_of

from .asking import TEXTS


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
    asked = [
        {"model": "m", "text": "a"},
        {"model": "m", "text": "b"},
        {"model": "m", "text": "a", "ablate": ["scaling"]},
        {"model": "m", "text": "a", "snapshot": 3},
    ]
    ids = {id_of(TraceRequest(**one), "key") for one in asked} | {id_of(TraceRequest(**asked[0]), "other")}
    assert len(ids) == 5
    assert id_of(TraceRequest(text="a", model="m"), "key") in ids


@pytest.mark.parametrize(("name", "text"), TEXTS.items())
def test_the_size_of_a_trace_is_the_memory_that_it_holds(models, name, text):
    """Counted with the garbage collector: every tensor that exists after the trace and did not before."""
    models[name].loaded()
    handlers.trace(models, Traces(), TraceRequest(model=name, text=text))  # fills the caches of the model
    before = _storages()
    trace = handlers.trace(models, Traces(), TraceRequest(model=name, text=text))
    held = sum(size for place, size in _storages().items() if place not in before)
    held += len(trace.description) + len(trace.overview)
    assert held <= trace.size <= held + 1024 * len(trace.inspection.recording.names)


def test_a_trace_that_grows_evicts_others(models, monkeypatch):
    from regard.inspection.record import recording

    monkeypatch.setattr(recording.Recording, "_rough_size", lambda *_: 1 << 40)
    traces = Traces()
    short, long = (
        handlers.trace(models, traces, TraceRequest(model="small", text=text, target="la"))
        for text in ("The", "The animal was too tired because it was too tired.")
    )
    assert long.needs_pass()
    assert not long.needs_pass(weights_only=True)
    traces._size = short.size + long.size
    traces.limit()
    assert len(traces) == 2
    before = long.size
    handlers.vectors(long, "source")
    assert long.size > before
    traces.limit()
    assert (len(traces), traces.find(short.id)) == (1, None)


def _storages() -> dict[int, int]:
    """Address and size of the memory of every tensor that exists.

    Other tests of the process may have left tensors without memory, such as those with which torch.compile
    traces.
    """
    gc.collect()
    tensors = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)]
    storages = [each.untyped_storage() for each in tensors if each.device.type == "cpu"]
    return {storage.data_ptr(): storage.nbytes() for storage in storages if storage.nbytes()}


def test_tensors_without_memory_are_not_counted():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        without_memory = [torch.ones(3), torch.nn.Parameter(torch.ones(3))]
    real = torch.ones(3)
    assert _storages()[real.data_ptr()] == 12
    assert without_memory[0].shape == real.shape
