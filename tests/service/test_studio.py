"""Every request of the page, for every family: what is answered is what Python sees."""

from __future__ import annotations

import re

import numpy as np
import pytest

from regard.inference.loading import load
from regard.inspection.inspection import inspect
from regard.inspection.render.payload import unpack

from .asking import TEXTS, seen_by_python

API = "/studio/api/"


def test_the_models(client):
    cards = client.get(API + "models").json()["models"]
    assert [card["name"] for card in cards] == ["small", "translate", "complete", "fill", "classify"]
    assert [card["family"] for card in cards] == [
        *["encoder-decoder"] * 2,
        "decoder-only",
        *["encoder-only"] * 2,
    ]
    assert [card["output"] for card in cards] == ["words", "words", "words", "masked", "classes"]
    assert {card["state"] for card in cards} == {"ready"}
    small, classify = cards[0], cards[4]
    assert small["title"] == "small, English to French, 2+2 layers, 4 heads, 9.6 k weights"
    assert small["layers"] == {"encoder": 2, "decoder": 2}
    assert (small["heads"], small["width"], small["head_width"], small["context"]) == (4, 16, 4, 40)
    assert small["snapshots"] == [0, 20]
    assert small["pairs"][0][2] == "it"
    assert all(first.split() != second.split() for first, second, _ in small["pairs"])
    assert (small["known_words"], classify["known_words"]) == (True, False)
    assert classify["labels"] == ["bad", "fair", "good"]
    assert cards[3]["examples"] == ["Paris is the [MASK] of France."]
    assert cards[2]["layers"] == {"encoder": 0, "decoder": 2}


def test_a_models_size_is_counted(client, models):
    for card in client.get(API + "models").json()["models"]:
        loaded = models[card["name"]].loaded().subject.model
        assert card["parameters"] == sum(weight.numel() for weight in loaded.parameters())


def test_the_vocabulary(client, models):
    tokens = client.get(API + "models/small/vocabulary").json()["tokens"]
    tokenizer = models["small"].tokenizers.target
    assert len(tokens) == tokenizer.vocabulary
    assert tokens[tokenizer.start] == "<start>"
    assert tokens[tokenizer.encode("animal")[0]] == "animal"
    spaced = client.get(API + "models/translate/vocabulary").json()["tokens"]
    assert " the" in spaced


@pytest.mark.parametrize("name", TEXTS)
def test_every_number_is_the_models_own(ask, read_sheet, models, name):
    trace = ask("trace", model=name, text=TEXTS[name]).json()
    seen = seen_by_python(models, name)
    for side in filter(None, (seen.source, seen.target)):
        told = trace["sides"][side.name]
        assert [token["id"] for token in told["tokens"]] == side.ids.tolist()
        assert [tuple(word["positions"]) for word in told["words"]] == [word.positions for word in side.words]
        vectors = read_sheet(trace, f"vectors/{side.name}")
        assert np.allclose(vectors.arrays["embeddings"], seen.embeddings(side.name), atol=1e-2)
    for kind in seen.kinds:
        for layer in range(2):
            found = read_sheet(trace, f"attention/{kind}/{layer}").arrays
            assert np.abs(found["weights"] - seen.attention(kind, layer)).max() < 5e-4
            merged = read_sheet(trace, f"attention/{kind}/{layer}?words=1").arrays["weights"]
            assert np.abs(merged - seen.attention(kind, layer, words=True)).max() < 5e-4
        query = min(3, len(seen.sides(kind)[0]) - 1)
        steps = read_sheet(trace, f"steps/{kind}/1/2/{query}")
        assert steps.meta["agree"]
        assert np.allclose(steps.arrays["weights"], seen.attention(kind, 1, 2)[query], atol=1e-6)
    overview = read_sheet(trace, "overview").arrays
    assert {kind: maps.shape[:2] for kind, maps in overview.items()} == dict.fromkeys(seen.kinds, (2, 4))
    if name != "classify":
        assert np.allclose(read_sheet(trace, "next/1").arrays["logits"], seen.logits[1], atol=1e-5)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("text", ["", " ", "\n", "</script><b>", "\u202eאבג", "👩‍👩‍👧 é", "\0 </s> <pad>"])
def test_any_text_stays_text(ask, client, name, text):
    trace = ask("trace", model=name, text=text).json()
    side = trace["sides"]["target" if name == "complete" else "source"]
    assert (trace["text"], side["text"]) == (text, text)
    assert {token["special"] for token in side["tokens"]} <= {None, "start", "end", "unknown"}
    assert client.get(f"{API}trace/{trace['trace']}/overview").status_code == 200
    if name in ("small", "translate"):
        told = ask("translate", model=name, text=text).json()
        assert bool(told["tree"]) == bool(text.strip())
    elif name == "complete":
        ask("next", model=name, text=text)


def test_a_trace_is_made_once(ask):
    first, again = (ask("trace", model="small", text="The street.").json() for _ in range(2))
    assert first == again
    other = ask("trace", model="small", text="The street.", ablate=["scaling"]).json()
    assert other["trace"] != first["trace"]


def test_parts_that_are_off(ask, read_sheet, models):
    ablate = [["encoder", 1, 2], "positions"]
    trace = ask("trace", model="translate", text=TEXTS["translate"], ablate=ablate).json()
    assert trace["ablated"] == ablate
    seen = seen_by_python(models, "translate", ablate=[("encoder", 1, 2), "positions"])
    assert np.allclose(read_sheet(trace, "next/0").arrays["logits"], seen.logits[0], atol=1e-5)


def test_a_target_in_words_and_in_ids(ask, models):
    target = models["small"].tokenizers.target
    by_text = ask("trace", model="small", text="The street.", target="la rue").json()
    ids = target.encode("la rue")
    by_ids = ask("trace", model="small", text="The street.", target_ids=[*ids, target.end]).json()
    assert by_text["sides"] == by_ids["sides"]
    assert by_text["log_probability"] == by_ids["log_probability"]
    going_on = ask("trace", model="complete", text="the red", target=" cat").json()
    assert going_on["sides"]["target"]["text"] == "the red cat"


def test_a_snapshot_is_another_model(ask, read_sheet, models):
    whole = ask("trace", model="small", text=TEXTS["small"], target="la rue").json()
    for step in (0, 20):
        trace = ask("trace", model="small", text=TEXTS["small"], target="la rue", snapshot=step).json()
        folder = models["small"].location.run / "weights" / f"step-{step:08}"
        seen = inspect(load(folder), TEXTS["small"], "la rue")
        assert trace["trace"] != whole["trace"]
        assert trace["log_probability"] == pytest.approx(seen.log_probability, abs=1e-4)


def test_an_intervention_moves_what_follows(ask, read_sheet):
    asked = {"model": "small", "text": TEXTS["small"], "target": "la rue"}
    keys = len(ask("trace", **asked).json()["sides"]["source"]["tokens"])
    intervention = {"kind": "cross", "layer": 1, "head": 0, "query": 1, "row": [1.0, *[0.0] * (keys - 1)]}
    whole, changed = ask("trace", **asked).json(), ask("trace", **asked, interventions=[intervention]).json()
    assert read_sheet(changed, "attention/cross/1").arrays["weights"][0, 1].tolist() == intervention["row"]
    before, after = (read_sheet(each, "next/1").arrays["logits"] for each in (whole, changed))
    assert np.abs(before - after).max() > 1e-3
    unmoved = [read_sheet(each, "next/0").arrays["logits"] for each in (whole, changed)]
    assert np.allclose(*unmoved, atol=1e-5)


def test_an_intervention_lets_the_translation_be_written_anew(ask):
    asked = {"model": "translate", "text": TEXTS["translate"]}
    whole = ask("trace", **asked).json()
    keys = len(whole["sides"]["source"]["tokens"])
    interventions = [
        {"kind": "encoder", "layer": layer, "head": head, "query": query, "row": [1.0, *[0.0] * (keys - 1)]}
        for layer in range(2)
        for head in range(4)
        for query in range(min(keys, 8))
    ][:64]
    changed = ask("trace", **asked, interventions=interventions).json()
    assert changed["translation"] != whole["translation"]
    kept = [token["id"] for token in whole["sides"]["target"]["tokens"][1:]]
    again = ask("trace", **asked, interventions=interventions, target_ids=kept).json()
    assert again["translation"] == whole["translation"]


@pytest.mark.parametrize("name", ["small", "complete"])
def test_writing_token_by_token(ask, models, name):
    trace = ask("trace", model=name, text=TEXTS[name]).json()
    written = [token["id"] for token in trace["sides"]["target"]["tokens"]]
    ids = written[1:3] if name == "small" else []
    sheet = unpack(ask("next", model=name, text=TEXTS[name], ids=ids).content)
    seen = seen_by_python(models, name)
    expected = seen.logits[len(ids) if name == "small" else -1]
    assert np.allclose(sheet.arrays["logits"], expected, atol=1e-5)
    context = models[name].folder.config.context
    assert sheet.meta["room"] == context - (1 + len(ids) if name == "small" else len(written))
    assert sheet.meta["ended"] is False
    assert [token["id"] for token in sheet.meta["tokens"]] == ids


def test_going_on_after_a_beginning(ask, models):
    tokenizer = models["complete"].writes
    ids = tokenizer.encode(" the dog")
    sheet = unpack(ask("next", model="complete", text="the cat sees", ids=ids).content)
    assert sheet.meta["text"] == "the cat sees the dog"
    assert "".join(token["text"] for token in sheet.meta["tokens"]) == " the dog"
    empty = unpack(ask("next", model="complete", text="").content)
    assert empty.meta["text"] == ""


def test_an_end_is_an_end(ask, models):
    end = models["small"].tokenizers.target.end
    sheet = unpack(ask("next", model="small", text="The street.", ids=[end]).content)
    assert sheet.meta["ended"] is True


def test_a_translation_with_its_tree(ask, models):
    told = ask("translate", model="translate", text=TEXTS["translate"], beams=3).json()
    found = load(models["translate"].location.model).translate(
        TEXTS["translate"], beams=3, n_best=3, tree=True, length_penalty=0.6
    )
    assert told["text"] == found.text
    assert told["score"] == pytest.approx(found.score, abs=1e-5)
    assert [each["text"] for each in told["best"]] == [found.text, *(each.text for each in found.others)]
    assert "".join(token["text"] for token in told["tokens"]) == found.text
    assert len(told["tree"]) == len(found.tree.nodes)
    root, *nodes = told["tree"]
    assert (root["parent"], root["text"]) == (None, "")
    assert all(node["parent"] < node["number"] for node in nodes)
    assert {node["fate"] for node in nodes} >= {"kept", "outranked"}
    assert [node for node in nodes if node["place"] == 0]


def test_fill_and_classify(ask, models):
    told = ask("fill", model="fill", text=TEXTS["fill"], top=3).json()
    reader = load(models["fill"].location.model, engine="torch")  # as the page, which can ablate parts
    assert told == reader.fill(TEXTS["fill"], top=3).as_dict()
    told = ask("classify", model="classify", text=TEXTS["classify"]).json()
    assert told["label"] in ("bad", "fair", "good")
    assert sum(told["probabilities"].values()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("name", ["fill", "classify"])
def test_fill_and_classify_with_changes(client, ask, models, name):
    """The same probabilities as those of an inspection with the same parts off and the same row replaced."""
    asked = {"model": name, "text": TEXTS[name]}
    whole = ask(name, **asked).json()
    ablate = [["encoder", 0, 1], ["encoder", 1, 2], "positions"]
    keys = len(seen_by_python(models, name).source)
    row = {"kind": "encoder", "layer": 1, "head": 0, "query": 2, "row": [1.0, *[0.0] * (keys - 1)]}
    for changes in ({"ablate": ablate}, {"interventions": [row]}, {"ablate": ablate, "interventions": [row]}):
        changed = ask(name, **asked, **changes).json()
        assert changed != whole
        trace = ask("trace", **asked, **changes).json()
        inspection = client.app.state.studio.traces[trace["trace"]].inspection
        logits = inspection.recording.output.double()
        if name == "classify":
            expected = dict(zip(("bad", "fair", "good"), logits.softmax(-1).tolist(), strict=True))
            assert changed["probabilities"] == pytest.approx(expected, abs=1e-5)
        else:
            place = [token.special for token in inspection.source.tokens].index("mask")
            shares = logits[place].softmax(-1)
            for choice in changed["masks"][0]:
                assert choice["probability"] == pytest.approx(float(shares[choice["id"]]), abs=1e-5)
    assert ask(name, **asked).json() == whole


def test_fill_and_classify_at_a_snapshot_and_without_room(client):
    for name in ("fill", "classify"):
        found = client.post(API + name, json={"model": name, "text": "the [MASK] " * 200})
        assert found.status_code == 400
        assert "and the context of this model is" in found.json()["error"]
        found = client.post(API + name, json={"model": name, "text": TEXTS[name], "snapshot": 3})
        assert (found.status_code, found.json()["error"]) == (
            404, f"{name} has no snapshot of step 3; it has none",
        )  # fmt: skip


def test_the_course_of_a_run(client):
    told = client.get(API + "progress/small").json()
    assert told["steps"][0] == {"step": 1, "loss": 8.75}
    assert len(told["steps"]) == 20
    assert told["validations"] == [{"step": 20, "loss": 4.0, "bleu": None}]
    assert (told["snapshots"], told["live"], told["total"]) == ([0, 20], False, 20)
    assert client.get(API + "progress/fill").json() == {
        "steps": [], "validations": [], "snapshots": [], "live": False, "total": 0,
    }  # fmt: skip


@pytest.mark.parametrize("ending", ["npz", "html", "csv", "svg", "png"])
def test_files_to_take_away(client, ask, ending):
    trace = ask("trace", model="small", text="The street.").json()["trace"]
    found = client.get(f"{API}trace/{trace}/save.{ending}?kind=encoder&layer=1&head=2")
    assert found.status_code == 200, found.text
    beginning = {
        "npz": b"PK",
        "html": b"<!doctype html",
        "csv": b"kind,layer",
        "svg": b"<?xml",
        "png": b"\x89PNG",
    }
    assert found.content.startswith(beginning[ending])
    name = "small-encoder.npz" if ending == "npz" else f"small-encoder-1-2.{ending}"
    assert found.headers["content-disposition"] == f'attachment; filename="{name}"'
    if ending == "html":
        pinned = client.get(f"{API}trace/{trace}/save.html?kind=encoder&layer=1&head=2&query=1").text
        assert '"pinned":{"kind":"encoder","layer":1,"head":2,"query":1}' in pinned
    if ending == "csv":
        assert {line.split(",")[1] for line in found.text.splitlines()[1:]} == {"1"}


def test_the_page_takes_three_requests(client):
    assert client.get("/", follow_redirects=False).headers["location"] == "/studio"
    page = client.get("/studio")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert b"<!doctype html>" in page.content.lower()
    kinds = {"view.js": ("text/javascript", b"startLive"), "view.css": ("text/css", b"--")}
    for name, (kind, content) in kinds.items():
        assert f"/studio/{name}".encode() in page.content
        response = client.get(f"/studio/{name}")
        assert response.headers["content-type"] == f"{kind}; charset=utf-8"
        assert content in response.content
    assert len(re.findall(rb"(?:src|href)=\"/", page.content)) == len(kinds)


@pytest.mark.parametrize(
    "path",
    [
        "view/..%2fwire.py", "view/%2e%2e/wire.py", "view/", "view/nothing.js", "view/%00.js",
        "view/..%2f..%2fservice%2fpage.html", "view/%2fetc%2fpasswd", "page.html", "view/studio.js",
    ],
)  # fmt: skip
def test_nothing_else_is_served(client, path):
    found = client.get(f"/studio/{path}", follow_redirects=False)
    assert found.status_code == 404
    assert set(found.json()) == {"error"}


def test_the_inspected_translation_is_the_default_one(ask, models):
    translator = load(models["translate"].location.model)
    heads = [["cross", layer, head] for layer in range(2) for head in range(3)]
    differs = 0
    for text in ("the red cat sees the dog.", "the dog", "the cat sees the red dog.", "the old bird sings."):
        for ablate in ([], heads, ["positions"], ["residual"]):
            parts = [part if isinstance(part, str) else tuple(part) for part in ablate]
            expected = translator.translate(text, ablate=parts).text
            assert ask("trace", model="translate", text=text, ablate=ablate).json()["translation"] == expected
            assert inspect(translator, text, ablate=parts).target.text == expected
            differs += expected != translator.translate(text, beams=1, ablate=parts).text
    assert differs  # a greedy search would have been noticed
