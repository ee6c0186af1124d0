"""The requests of the tab Layers, for every family: what is answered is what Python computes."""

from __future__ import annotations

import numpy as np
import pytest

from regard.inspection.analysis.attribution import attribute
from regard.inspection.analysis.lens import logit_lens
from regard.inspection.analysis.rollout import rollout
from regard.inspection.analysis.value_weighted import value_weighted
from regard.inspection.record.tokens import merge_words

from .asking import TEXTS, seen_by_python

API = "/studio/api/"


@pytest.fixture
def traced(ask, models):
    """A trace, and what Python sees."""

    def trace(name: str, **asked):
        text = TEXTS[name]
        description = ask("trace", model=name, text=text, **asked).json()
        return description, seen_by_python(models, name, **asked)

    return trace


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "classify"])
def test_the_lens_of_every_layer(traced, read_sheet, name):
    trace, seen = traced(name)
    sheet = read_sheet(trace, "lens")
    lens = logit_lens(seen)
    ids, written = sheet.arrays["ids"].astype(int), seen.written
    for layer in range(lens.layers):
        for position in (0, len(written) - 1):
            best = lens.next(layer, position, top=5)
            assert ids[layer, position].tolist() == [each.id for each in best]
            assert sheet.arrays["probabilities"][layer, position] == pytest.approx(
                [each.probability for each in best], rel=1e-4
            )
            assert sheet.meta["texts"][str(best[0].id)] == best[0].text
    final = ids[-1, 1]
    assert sheet.arrays["course"][0, 1] == pytest.approx(lens.probabilities(0)[1, final], rel=1e-4)
    if name == "fill":
        assert sheet.meta["followed"] is None
        return
    followed = seen.followed
    assert sheet.meta["followed"] == followed.tolist()
    chances = lens.probabilities(0)[np.arange(len(followed)), followed]
    assert sheet.arrays["written"][0] == pytest.approx(chances, rel=1e-4)


@pytest.mark.parametrize("name", TEXTS)
def test_where_information_comes_from(traced, read_sheet, name):
    trace, seen = traced(name)
    for kind in seen.kinds:
        sheets = {
            (measure, words): read_sheet(trace, f"flow/{measure}/{kind}?words={int(words)}")
            for measure in ("attention", "values", "rollout")
            for words in (False, True)
        }
        layers = seen.layers(kind)
        for words in (False, True):
            mean, lengths, shares = (
                sheets[measure, words].arrays["values"] for measure in ("attention", "values", "rollout")
            )
            own = seen.attention(kind, 1, words=words).mean(0)
            assert mean.shape == (layers, *own.shape)
            assert mean[1] == pytest.approx(own, abs=1e-3)
            assert lengths[0] == pytest.approx(value_weighted(seen, kind, 0, words=words), rel=2e-3, abs=1e-3)
            whole = rollout(seen, kind)
            rolled = merge_words(whole, *seen.sides(kind)) if words else whole
            assert shares[-1] == pytest.approx(rolled, abs=1e-3)
            visible = sheets["values", words].arrays["visible"]
            assert np.array_equal(visible, seen.visible(kind, 0, words=words))


@pytest.mark.parametrize("name", TEXTS)
def test_why_this_word_and_not_that_one(traced, read_sheet, name):
    trace, seen = traced(name)
    position = 0 if name == "classify" else 1
    for method in ("gradient", "integrated"):
        asked = f"word=1&instead=2&method={method}"
        sheet = read_sheet(trace, f"attribution/{position}?{asked}")
        own = attribute(seen, 1, 2, position, method)
        assert sheet.meta["score"] == pytest.approx(own.score)
        assert sheet.meta["word"]["ids"] == [1]
        for side in seen.all_sides:
            assert sheet.arrays[side.name] == pytest.approx(own.tokens[side.name], rel=1e-4, abs=1e-6)
    assert "start" in sheet.meta
    plain = read_sheet(trace, f"attribution/{position}")
    assert plain.meta["word"]["ids"] == list(attribute(seen, position=position, points=1).word.ids)


def test_an_output_that_is_forced_is_the_one_that_is_explained(ask, read_sheet):
    text, target = TEXTS["small"], "L'animal n'a pas"
    trace = ask("trace", model="small", text=text, target=target).json()
    assert trace["translation"] == target
    sheet = read_sheet(trace, "lens")
    assert sheet.arrays["ids"].shape[1] == len(trace["sides"]["target"]["tokens"])
    position = len(trace["sides"]["target"]["tokens"]) - 1
    assert is_finite(read_sheet(trace, f"attribution/{position}"))


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("flow/magic/encoder", 400, "unknown measure 'magic'"),
        ("flow/values/crss", 400, "unknown kind of attention 'crss'"),
        ("attribution/99", 400, "no position 99; there are"),
        ("attribution/-1", 422, "position (-1) must be 0 or more; count from 0"),
        ("attribution/1?word=-1", 422, "word (-1) must be 0 or more; count from 0"),
        ("attribution/1?word=99999", 400, "no id 99999; there are"),
        ("attribution/1?method=guess", 422, "method: input should be 'gradient' or 'integrated'"),
    ],
)
def test_what_cannot_be_asked(client, traced, path, status, message):
    trace, _ = traced("small")
    answer = client.get(f"{API}trace/{trace['trace']}/{path}")
    assert answer.status_code == status
    assert answer.json()["error"].startswith(message)


def test_a_model_without_words_has_no_lens(client, traced):
    trace, _ = traced("classify")
    answer = client.get(f"{API}trace/{trace['trace']}/lens")
    assert answer.status_code == 400
    assert answer.json()["error"] == "this model gives classes, not words; it has no logit lens"


def is_finite(sheet) -> bool:
    return all(np.isfinite(array).all() for array in sheet.arrays.values())
