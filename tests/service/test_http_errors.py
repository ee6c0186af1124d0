"""What cannot be answered: one sentence, the right status, and the next request is fine."""

from __future__ import annotations

import json

import pytest

API = "/studio/api/"
SMALL = {"model": "small", "text": "The street."}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is not JSON; send an object"),
        (b"{", "the body is not JSON; send an object"),
        (b"\xff\xfe", "the body is not JSON; send an object"),
        (b"[" * 200_000, "the body is not JSON; send an object"),
        (b'{"model": "small", "text": "\\ud800"}', "the body is not JSON; send an object"),
        (b"[]", "the request: input should be an object"),
        (b"{}", "model is missing; add it"),
        (b'{"model": "small"}', "text is missing; add it"),
        (b'{"model": "small", "text": NaN}', "text: input should be a valid string"),
        (b'{"model": "small", "text": 3}', "text: input should be a valid string"),
        (b'{"model": "small", "text": "a", "snapshot": true}', "snapshot: input should be a valid integer"),
        (
            b'{"model": "small", "text": "a", "snapshot": -1}',
            "snapshot: input should be greater than or equal",
        ),
        (b'{"model": "small", "text": "a", "snapshot": 1e400}', "snapshot: input should be a valid integer"),
        (b'{"model": "small", "text": "a", "of": []}', "unknown key 'of'; remove it"),
        (b'{"model": "small", "text": "a", "ablate": [["encoder", NaN, 1]]}', "ablate: each part is a name"),
        (b'{"model": "small", "text": "a", "ablate": [["encoder", 1]]}', "ablate: each part is a name"),
        (b'{"model": "small", "text": "a", "target_ids": [-1]}', "target_ids.0: input should be greater"),
        (
            b'{"model": "small", "text": "a", "target_ids": [1.5]}',
            "target_ids.0: input should be a valid int",
        ),
    ],
)
def test_a_malformed_request(client, body, said):
    found = client.post(API + "trace", content=body)
    assert found.status_code == 422
    assert found.json()["error"].startswith(said)
    assert client.post(API + "trace", json=SMALL).status_code == 200


def intervention(**changes):
    return {"kind": "encoder", "layer": 0, "head": 0, "query": 0, "row": [1.0, 0.0, 0.0, 0.0], **changes}


@pytest.mark.parametrize(
    ("interventions", "status", "said"),
    [
        ([intervention(row=[float("nan")])], 422, "interventions.0.row.0: input should be a finite number"),
        ([intervention(row=[float("inf")])], 422, "interventions.0.row.0: input should be a finite number"),
        ([intervention(row=[2.0])], 422, "interventions.0.row.0: input should be less than or equal to 1"),
        ([intervention(row=["1"])], 422, "interventions.0.row.0: input should be a valid number"),
        ([intervention(more=1)], 422, "unknown key 'interventions.0.more'; remove it"),
        ([intervention()] * 65, 422, "interventions has more than 64 entries; send fewer"),
        ([intervention(row=[1.0])], 400, "the intervention has 1 weights; this row has 4 keys"),
        ([intervention(query=4)], 400, "no query 4; the source has 4 tokens"),
        ([intervention(layer=7)], 400, "no layer 7 of encoder attention; there are 2"),
        ([intervention(kind="x")], 400, "unknown kind of attention 'x'"),
    ],
)
def test_an_intervention_that_cannot_be(client, interventions, status, said):
    found = client.post(API + "trace", content=json.dumps({**SMALL, "interventions": interventions}))
    assert found.status_code == status
    assert found.json()["error"].startswith(said)


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"text": "x" * 20_001}, 422, "text has 20,001 characters, and at most 20,000 are allowed"),
        ({"text": "the " * 60}, 400, "the text has 61 tokens, and the context of this model is 40"),
        ({"target": "la " * 60}, 400, "the translation has 61 tokens, and the context of this model is 40"),
        ({"target_ids": [5] * 60}, 400, "the output has 61 tokens, and the context of this model is 40"),
        ({"target_ids": [999]}, 400, "id 999 is none of this model's"),
        ({"ablate": ["scalding"]}, 400, "unknown name 'scalding' in this model"),
        ({"ablate": [["encoder", 0, 9]]}, 400, "no head 9 in encoder.0.attention; it has 4"),
        ({"ablate": ["scaling"] * 513}, 422, "ablate has more than 512 entries; send fewer"),
        ({"snapshot": 7}, 404, "small has no snapshot of step 7; it has 0, 20"),
        ({"model": "smal"}, 404, "unknown model 'smal'; did you mean small?"),
        ({"model": "../small"}, 404, "unknown model '../small'"),
        ({"model": "fill", "text": "a", "target": "b"}, 400, "an encoder-only model has no target"),
    ],
)
def test_what_does_not_fit_the_model(client, changes, status, said):
    found = client.post(API + "trace", json={**SMALL, **changes})
    assert found.status_code == status
    assert found.json()["error"].startswith(said)


@pytest.mark.parametrize(
    ("route", "body", "said"),
    [
        ("translate", {"model": "fill", "text": "a"}, "fill does not translate"),
        ("translate", {"model": "small", "text": "the " * 60}, "the text has 61 tokens"),
        ("next", {"model": "fill", "text": "a"}, "an encoder-only model has no next token"),
        ("next", {"model": "complete", "text": "a", "ids": [9999]}, "id 9999 is none of this model's"),
        ("fill", {"model": "small", "text": "a"}, "small has a decoder"),
        ("fill", {"model": "classify", "text": "a [MASK]"}, "this model gives classes and cannot fill"),
        ("fill", {"model": "fill", "text": "a"}, "the text has no mask; write [MASK]"),
        ("classify", {"model": "fill", "text": "a"}, "this model gives masked and cannot classify"),
        ("compare", {"model": "small", "first": "a", "second": "b", "word": 9}, "no word 9 in the first"),
        (
            "compare",
            {"model": "small", "first": "The street.", "second": "The", "word": 1},
            "“street” has no partner in the second sentence",
        ),
        ("compare", {**dict.fromkeys(("first", "second"), "a"), "model": "small", "word": 0, "side": "up"},
         "unknown side 'up'"),
    ],
)  # fmt: skip
def test_a_request_that_this_model_cannot_answer(client, route, body, said):
    found = client.post(API + route, json=body)
    assert found.status_code == 400, found.text
    assert found.json()["error"].startswith(said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"beams": 0}, "beams: input should be greater than or equal to 1"),
        ({"beams": 17}, "beams: input should be less than or equal to 16"),
        ({"beams": 2.5}, "beams: input should be a valid integer"),
        ({"length_penalty": -1}, "length_penalty: input should be greater than or equal to 0"),
    ],
)
def test_a_search_that_cannot_be(client, changes, said):
    found = client.post(API + "translate", json={**SMALL, **changes})
    assert found.status_code == 422
    assert found.json()["error"].startswith(said)


@pytest.mark.parametrize(
    ("route", "status", "said"),
    [
        ("attention/encoder/2", 400, "no layer 2 of encoder attention"),
        ("attention/encoder/-1", 422, "layer (-1) must be 0 or more; count from 0"),
        ("steps/encoder/-1/0/0", 422, "layer (-1) must be 0 or more; count from 0"),
        ("steps/encoder/0/-1/0", 422, "head (-1) must be 0 or more; count from 0"),
        ("steps/encoder/0/0/-1", 422, "query (-1) must be 0 or more; count from 0"),
        ("next/-1", 422, "position (-1) must be 0 or more; count from 0"),
        ("save.csv?layer=-1", 422, "layer (-1) must be 0 or more; count from 0"),
        ("save.csv?head=-2", 422, "head (-2) must be 0 or more; count from 0"),
        ("attention/encoder/x", 422, "layer: input should be a valid integer"),
        ("attention/encoder/0?words=2", 422, "words: input should be less than or equal to 1"),
        ("attention/up/0", 400, "unknown kind of attention 'up'"),
        ("vectors/up", 400, "unknown side 'up'"),
        ("steps/encoder/0/9/0", 400, "no head 9"),
        ("steps/encoder/0/0/99", 400, "no token 99 in the source"),
        ("next/99", 400, "no position 99"),
        ("save.gif", 404, "unknown file type 'gif'"),
        ("save.svg?kind=up", 400, "unknown kind of attention 'up'"),
        ("save.csv?head=9", 400, "no head 9"),
        ("save.csv?head=one", 422, "head: input should be a valid integer"),
        ("save.html?tab=nowhere", 422, "tab: input should be 'inspect', 'translate' or 'write'"),
        ("save.html?query=-1", 422, "query (-1) must be 0 or more; count from 0"),
        ("save.html?query=99", 400, "no token 99"),
        ("save.npz?words=2", 422, "words: input should be less than or equal to 1"),
        ("attention/encoder/0?words=yes", 422, "words: input should be a valid integer"),
        ("nothing", 404, "not found"),
    ],
)
def test_a_part_that_a_trace_does_not_have(client, ask, route, status, said):
    trace = ask("trace", **SMALL).json()["trace"]
    found = client.get(f"{API}trace/{trace}/{route}")
    assert found.status_code == status, found.text
    assert found.json()["error"].startswith(said)


@pytest.mark.parametrize("route", ["overview", "attention/encoder/0", "next/0", "save.csv"])
def test_a_trace_that_was_let_go(client, route):
    found = client.get(f"{API}trace/0123456789abcdef/{route}")
    assert found.status_code == 404
    assert found.json()["gone"] is True


def test_a_table_too_large_to_open(client, ask, monkeypatch):
    from regard.service import saving

    monkeypatch.setattr(saving, "MOST_CELLS", 100)
    trace = ask("trace", **SMALL).json()["trace"]
    found = client.get(f"{API}trace/{trace}/save.csv")
    assert found.status_code == 400
    assert "choose a kind, a layer or a head" in found.json()["error"]
    assert client.get(f"{API}trace/{trace}/save.csv?kind=encoder&layer=0&head=1").status_code == 200
