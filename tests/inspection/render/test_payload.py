"""What the view draws is what the model computed, and JSON can say all of the description."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.errors import RegardError
from regard.inspection.analysis.interventions import Intervention, patches
from regard.inspection.inspection import inspect
from regard.inspection.render import payload
from regard.inspection.render.payload import unpack

from ..conftest import ENGLISH, FAMILIES, FRENCH, inspected, subject


class Planted:
    """Notes made up for a test."""

    def strange(self, side):
        return {2} if side.name == "source" else set()

    def glosses(self, side, other):
        return {1: f"says {other.text[:3]}"} if side.name == "target" else {}

    def nouns(self, side, other):
        return [number for number, word in enumerate(side.words) if word.text in ("animal", "street")]

    def pronouns(self, side, other):
        return list(side.find("it")) if side.name == "source" else []


def described(seen, notes=payload.NOTHING):
    return payload.describe(seen, payload.annotated_overview(seen, notes), notes)


def test_the_description_of_a_translation(words):
    seen = inspected(words)
    told = described(seen)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["written"] == "target"
    assert told["translation"] == FRENCH
    assert told["log_probability"] == pytest.approx(seen.log_probability, abs=1e-4)
    assert [(kind["name"], kind["queries"], kind["keys"], kind["causal"]) for kind in told["kinds"]] == [
        ("encoder", "source", "source", False),
        ("decoder", "target", "target", True),
        ("cross", "target", "source", False),
    ]
    assert [kind["layers"] for kind in told["kinds"]] == [2, 2, 2]
    assert (told["heads"], told["head_width"], told["divisor"]) == (4, 4, 2.0)
    assert told["switches"] == ["scaling", "positions", "residual", "norm"]
    source = told["sides"]["source"]
    assert source["tokens"][1] == {
        "id": int(seen.source.ids[1]), "text": "animal", "word": 1, "special": None, "known": True,
    }  # fmt: skip
    assert source["words"][-1] == {
        "text": "<end>", "positions": [len(seen.source) - 1], "special": "end", "known": True, "gloss": None,
        "span": None,
    }  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_described(words, family):
    told = described(inspected(words, family=family))
    sides = {"encoder-decoder": ["source", "target"], "decoder-only": ["target"], "encoder-only": ["source"]}
    assert list(told["sides"]) == sides[family]
    assert (told["translation"] is None) == (family != "encoder-decoder")
    assert (told["log_probability"] is None) == (family == "encoder-only")
    assert told["pinned"]["kind"] == [kind["name"] for kind in told["kinds"]][-1]


def test_what_is_off_is_told_as_it_was_asked(words):
    told = described(inspected(words, ablate=[("encoder", 1, 2), "scaling"]))
    assert told["ablated"] == [["encoder", 1, 2], "scaling"]
    assert told["divisor"] == 1.0


def test_notes_stand_beside_the_words(words):
    told = described(inspected(words), Planted())
    source, target = told["sides"]["source"], told["sides"]["target"]
    assert [token["known"] for token in source["tokens"]][:4] == [True, True, False, True]
    assert [word["known"] for word in source["words"]][:4] == [True, True, False, True]
    assert [word["gloss"] for word in target["words"]][:3] == [None, "says The", None]


def test_a_word_that_the_tokenizer_does_not_know_shows_itself(words):
    seen = inspect(subject(words), "The zebra was tired.", target="il")
    told = described(seen)["sides"]["source"]
    assert [(token["text"], token["special"]) for token in told["tokens"]][1] == ("zebra", "unknown")
    assert told["words"][1]["text"] == "zebra"
    sheet = unpack(payload.steps(seen, "encoder", 0, 0, 1))
    assert (sheet.meta["word"], sheet.meta["keys"][1]) == ("zebra", "zebra")


def test_a_sheet_of_a_layer_holds_its_weights(pieces):
    seen = inspected(pieces)
    for kind in seen.kinds:
        for words in (False, True):
            sheet = unpack(payload.attention(seen, kind, 1, words))
            expected = seen.attention(kind, 1, words=words)
            assert np.abs(sheet.arrays["weights"] - expected).max() < 5e-4  # float16
            assert np.array_equal(sheet.arrays["visible"], seen.visible(kind, 1, words=words))


def test_a_long_text_has_a_byte_for_each_weight(words):
    model = subject(words, family="encoder-only", context=400)
    seen = inspect(model, " ".join(["it was too tired"] * 70))
    message = payload.attention(seen, "encoder", 0)
    assert b'"dtype": "uint8"' in message
    weights = unpack(message).arrays["weights"]
    assert weights.shape == (4, 282, 282)
    assert np.abs(weights - seen.attention("encoder", 0)).max() <= weights.max() / 509
    assert unpack(payload.overview_sheet(payload.annotated_overview(seen))).arrays["encoder"].shape == (
        2,
        4,
        48,
        48,
    )


def test_the_overview_holds_every_head(words):
    seen = inspected(words)
    sheet = unpack(payload.overview_sheet(payload.annotated_overview(seen)))
    for kind in seen.kinds:
        for layer in range(2):
            assert np.abs(sheet.arrays[kind][layer] - seen.attention(kind, layer)).max() < 1 / 509


def test_vectors_and_positions(words):
    seen = inspected(words)
    sheet = unpack(payload.vectors(seen, "target"))
    assert np.allclose(sheet.arrays["embeddings"], seen.embeddings("target"), atol=2e-3)
    assert np.allclose(sheet.arrays["positions"], seen.positions("target"), atol=1e-3)
    assert "positions" not in unpack(payload.vectors(inspected(words, "llama"), "source")).arrays


def test_the_steps_of_a_cell_are_whole(words):
    seen = inspected(words)
    worked = seen.steps("decoder", 1, 2, 5)
    sheet = unpack(payload.steps(seen, "decoder", 1, 2, 5))
    assert list(sheet.arrays) == [step.name for step in worked]
    for step in worked:
        assert np.array_equal(sheet.arrays[step.name], step.value.astype(np.float32))
    assert np.isneginf(sheet.arrays["masked"][6:]).all()
    assert sheet.meta["agree"] is True
    assert sheet.meta["steps"][0]["saying"] == "The input vector of this word."
    assert sheet.meta["divisor"] == 2.0


def test_an_intervention_is_shown_as_it_was_set(words):
    keys = len(inspected(words).source)
    row = tuple(1.0 if key == 3 else 0.0 for key in range(keys))
    seen = inspected(words, patch=patches([Intervention("encoder", 0, 1, 7, row)]))
    sheet = unpack(payload.steps(seen, "encoder", 0, 1, 7))
    assert sheet.arrays["weights"].tolist() == list(row)
    step = next(step for step in sheet.meta["steps"] if step["name"] == "weights")
    assert (step["agrees"], step["saying"]) == (None, "Set by an intervention.")
    assert sheet.meta["agree"] is True
    beside = unpack(payload.steps(seen, "encoder", 0, 1, 6))
    assert all(step["agrees"] is not False for step in beside.meta["steps"])
    assert np.allclose(beside.arrays["weights"], seen.attention("encoder", 0, 1)[6], atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_may_follow(words, family):
    seen = inspected(words, family=family)
    sheet = unpack(payload.next_logits(seen, 4))
    assert np.array_equal(sheet.arrays["logits"], seen.logits[4])
    expected = None if family == "encoder-only" else int(seen.written.ids[5])
    assert sheet.meta == {"position": 4, "followed": expected}
    last = len(seen.written) - 1
    ends = words.end if family == "encoder-decoder" else None
    assert unpack(payload.next_logits(seen, last)).meta["followed"] == ends
    with pytest.raises(RegardError, match="no position"):
        payload.next_logits(seen, last + 1)


def test_the_vocabulary_as_people_read_it(words):
    told = payload.vocabulary(words, words.vocabulary + 2)
    assert told[words.end] == "<end>"
    assert told[words.encode(ENGLISH)[1]] == "animal"
    assert told[-2:] == ["", ""]


def test_a_model_without_words_has_no_logits(words):
    seen = inspected(words, family="encoder-only")
    plain = subject(words, family="encoder-only", output="vectors")
    with pytest.raises(RegardError, match="gives vectors, not words"):
        payload.next_logits(inspect(plain, seen.source.text), 0)
