"""Two sentences side by side, and parts switched off, as the page asks for them."""

from __future__ import annotations

import numpy as np
import pytest

from regard.inference.loading import load

from .asking import TEXTS, seen_by_python


def test_two_sentences(ask, models, lines):
    english = lines[0]
    other = english.replace("tired", "wide")
    it = english.split().index("it")
    told = ask("compare", model="small", first=english, second=other, side="source", word=it).json()
    assert told["first"]["words"][it]["text"] == "it"
    assert "tired/wide" in [pair["label"] for pair in told["pairs"]]
    assert len(told["changes"]) == 8
    distances = [change["distance"] for change in told["changes"]]
    assert distances == sorted(distances, reverse=True)
    first = seen_by_python(models, "small", text=english)
    best = told["changes"][0]
    row = first.attention(best["kind"], best["layer"], best["head"], words=True)[it]
    assert np.allclose(best["first"], row, atol=1e-6)
    assert told["outputs"][0] == first.target.text
    assert {"id", "text", "first", "second", "change"} == set(told["next"][0])
    target = ask("compare", model="small", first=english, second=other, side="target", word=0).json()
    assert {(change["kind"], change["keys"]) for change in target["changes"]} == {
        ("decoder", "target"),
        ("cross", "source"),
    }


def test_a_word_without_a_partner_gives_way_to_the_nearest_with_one(ask):
    texts = dict(model="small", first="The street.", second="The", side="source")
    told = ask("compare", **texts, word=1, nearest=True).json()
    assert told["word"] == 0
    assert told["changes"] == ask("compare", **texts, word=0).json()["changes"]
    assert ask("compare", **texts, word=0, nearest=True).json() == told


@pytest.mark.parametrize("name", ["complete", "fill", "classify"])
def test_two_sentences_of_every_family(ask, name):
    text = TEXTS[name]
    told = ask("compare", model=name, first=text, second=text.replace("sees", "hears"), word=0).json()
    assert told["changes"]
    assert all(isinstance(output, str) for output in told["outputs"])
    assert (told["next"] == []) == (name == "classify")
    if name == "classify":
        assert set(told["outputs"]) <= {"bad", "fair", "good"}


def test_two_texts_are_each_followed_by_a_word_of_their_own(ask, models):
    first, second = "the red cat sees the", "the red cat sees the old dog"
    told = ask("compare", model="complete", first=first, second=second, word=0).json()["next"]
    before, after = (
        seen_by_python(models, "complete", text=text).probabilities[-1] for text in (first, second)
    )
    assert np.allclose([each["first"] for each in told], [before[each["id"]] for each in told], atol=1e-6)
    assert np.allclose([each["second"] for each in told], [after[each["id"]] for each in told], atol=1e-6)
    assert abs(told[0]["change"]) == pytest.approx(np.abs(after - before).max(), abs=1e-6)


def test_what_switching_off_does(ask, models):
    ablate = [["cross", 1, head] for head in range(4)]
    told = ask("ablation", model="translate", text=TEXTS["translate"], ablate=ablate).json()
    parts = [tuple(part) for part in ablate]
    seen = seen_by_python(models, "translate")
    without = seen.again(ablate=parts)
    assert told["log_probability"] == pytest.approx(seen.log_probability, abs=1e-4)
    assert told["without"] == pytest.approx(without.log_probability, abs=1e-4)
    assert told["ablated"] == [f"cross.1.{head}" for head in range(4)]
    subject = load(models["translate"].location.model)
    anew = subject.translate(TEXTS["translate"], ablate=parts).text
    assert (told["text"], told["text_without"]) == (seen.target.text, anew)
    rivals = told["rivals"]
    assert rivals["before"][0] == pytest.approx(seen.probabilities[rivals["position"]].max(), abs=1e-5)
    said = f"“{rivals['words'][0]}” {rivals['before'][0]:.2f} to {rivals['after'][0]:.2f}"
    assert told["sentence"].startswith(said)
    assert told["sentence"].endswith("stays the same." if not told["flips"] else f"flips to “{anew}”.")


def test_nothing_off_changes_nothing(ask):
    told = ask("ablation", model="translate", text=TEXTS["translate"]).json()
    assert told["sentence"] == "Nothing is switched off."
    assert told["change"] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("name", ["complete", "fill", "classify"])
def test_switching_off_in_every_family(ask, name):
    kind = "decoder" if name == "complete" else "encoder"
    ablate = [[kind, layer, head] for layer in range(2) for head in range(4)]
    told = ask("ablation", model=name, text=TEXTS[name], ablate=ablate).json()
    assert told["rivals"]["before"] != told["rivals"]["after"]
    assert "“" in told["sentence"]
    assert (told["log_probability"] is None) == (name != "complete")
