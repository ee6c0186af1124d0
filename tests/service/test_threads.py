"""Many at once: each gets the answer that it would have got alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np

from regard.inspection.render.payload import unpack

API = "/studio/api/"
SUBJECTS, ADJECTIVES = ("cat", "dog", "bird", "child", "king"), ("red", "small", "tired", "wise", "old")
OFF = ([], ["scaling"], [["encoder", 0, 1], ["cross", 1, 2]], [["decoder", 1, 0], "positions"])


def requests() -> list[dict]:
    """Sentences that differ, with other parts off, some of them changed; each twice."""
    found = []
    for number, noun in enumerate(SUBJECTS):
        for place, adjective in enumerate(ADJECTIVES):
            asked = {"text": f"the {adjective} {noun} sees the dog.", "ablate": OFF[(number + place) % 4]}
            if (number + place) % 3 == 0:
                row = [0.0, 1.0]
                asked["interventions"] = [{"kind": "decoder", "layer": 0, "head": 1, "query": 1, "row": row}]
                asked["target"] = "le chat"
            found.append({"model": "translate", **asked})
    return found * 2


def answer(client, asked: dict) -> tuple:
    """A sentence as the page asks about it: several requests, one after the other."""
    trace = client.post(API + "trace", json=asked).json()
    sheets = [
        client.get(f"{API}trace/{trace['trace']}/{route}").content
        for route in ("attention/encoder/1", "attention/cross/0", "next/1", "steps/decoder/1/2/1")
    ]
    plain = {name: value for name, value in asked.items() if name not in ("target", "interventions")}
    translated = client.post(API + "translate", json={**plain, "beams": 2}).json()
    arrays = [array for sheet in sheets for array in unpack(sheet).arrays.values()]
    return trace["trace"], trace["translation"], translated["text"], arrays


def test_answers_do_not_mix(client):
    asked = requests()
    alone = [answer(client, one) for one in asked[: len(asked) // 2]] * 2
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda one: answer(client, one), asked))
    for one, other in zip(alone, together, strict=True):
        assert one[:3] == other[:3]
        assert all(map(np.array_equal, one[3], other[3]))


def test_answers_do_not_mix_where_nothing_is_kept(models):
    """No trace is found ready, so that all of them are computed while others are."""
    from fastapi.testclient import TestClient

    from regard.service.studio import make_studio
    from regard.service.traces import Traces

    asked = requests()[::2]
    alone = [answer(TestClient(make_studio(models), base_url="http://localhost"), one) for one in asked]
    gate = Barrier(8)

    def late(one):
        gate.wait(60)
        return answer(client, one)

    asked = asked[: len(asked) // 8 * 8]
    app = make_studio(models, Traces(most=len(asked)))
    with TestClient(app, base_url="http://localhost") as client, ThreadPoolExecutor(8) as pool:
        together = list(pool.map(late, asked))
    for one, other in zip(alone, together, strict=False):
        assert one[:3] == other[:3]
        assert all(map(np.array_equal, one[3], other[3]))


def test_the_same_sentence_at_once_is_inspected_once(models, monkeypatch):
    from regard.service import handlers
    from regard.service.requests import TraceRequest
    from regard.service.traces import Traces

    made, real = [], handlers.inspect_request
    monkeypatch.setattr(handlers, "inspect_request", lambda *given: made.append(1) or real(*given))
    traces, gate = Traces(), Barrier(6)

    def ask(_):
        gate.wait(60)
        return handlers.trace(models, traces, TraceRequest(model="small", text="The animal."))

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ask, range(6)))
    assert len(made) == 1
    assert len({id(trace) for trace in found}) == 1


def test_a_model_is_loaded_once(model_folders, monkeypatch):
    from regard.inference import loading
    from regard.service.models import open_models

    loads, real = [], loading.load
    monkeypatch.setattr(loading, "load", lambda *given, **options: loads.append(1) or real(*given, **options))
    (entry,) = open_models([model_folders["fill"]]).entries.values()
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: entry.loaded(), range(6)))
    assert len(loads) == 1
    assert len({id(each) for each in found}) == 1
