"""Reader: masks, labels and vectors, each beside one pass of the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import SettingError, ShapeError, UnknownName, UsageError
from regard.inference.reader import Reader

pytestmark = pytest.mark.xdist_group("toy-models")

TEXTS = ["the cat", "the red dog sees the old bird.", "", "a", "le roi âgé " * 3]


def row(reader, text, with_mask=False):
    ids = reader.tokenizer.encode(text, with_mask=with_mask)
    return [reader.tokenizer.start, *ids, reader.tokenizer.end]


def logits(reader, ids):
    with torch.inference_mode():
        return reader.model(torch.tensor([ids]))[0]


def hidden(reader, ids):
    with torch.inference_mode():
        return reader.model.encode(torch.tensor([ids]))[0].numpy()


def test_each_mask_gets_its_likeliest_words(filler):
    text = "the [MASK] sees the[MASK]."
    ids = row(filler, text, with_mask=True)
    found = filler.fill(text, top=7)
    places = [place for place, number in enumerate(ids) if number == filler.tokenizer.mask]
    assert len(found.masks) == len(places) == 2
    everywhere = logits(filler, ids).softmax(-1).numpy()
    for place, mask in zip(places, found.masks, strict=True):
        chances = everywhere[place]
        assert [each.id for each in mask] == np.argsort(-chances, kind="stable")[:7].tolist()
        assert [each.probability for each in mask] == pytest.approx(np.sort(chances)[::-1][:7], abs=1e-6)
        ids[place] = mask[0].id
    assert found.text == filler.tokenizer.decode(ids)
    assert len(filler.fill(text, top=1).masks[0]) == 1


def test_many_texts_are_filled_as_each_alone(filler):
    texts = [f"{text} [MASK] {text}" for text in TEXTS] * 4
    alone = [filler.fill(text) for text in texts]
    for budget in (30, 4096):
        found = filler.fill(texts, batch_tokens=budget)
        assert [each.text for each in found] == [each.text for each in alone]
        for one, other in zip(found, alone, strict=True):
            assert [c.id for m in one.masks for c in m] == [c.id for m in other.masks for c in m]
    assert [each.text for each in filler.fill(iter(texts))] == [each.text for each in alone]


def test_a_text_without_a_mask_is_refused(filler):
    with pytest.raises(UsageError, match=r"the text has no mask; write \[MASK\] where"):
        filler.fill("the cat")
    with pytest.raises(SettingError, match=r"top \(0\)"):
        filler.fill("the [MASK]", top=0)


def test_labels_have_probabilities(classifier):
    for text in TEXTS:
        found = classifier.classify(text)
        chances = logits(classifier, row(classifier, text)).softmax(-1).tolist()
        assert list(found.probabilities) == ["bad", "fair", "good"]
        assert list(found.probabilities.values()) == pytest.approx(chances, abs=1e-6)
        assert found.probability == max(found.probabilities.values())
        assert found.probabilities[found.label] == found.probability
    together = classifier.classify(TEXTS)
    assert [each.label for each in together] == [classifier.classify(text).label for text in TEXTS]


@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("normalise", [True, False])
def test_a_text_becomes_a_vector(filler, pooling, normalise):
    found = filler.embed(TEXTS, pooling=pooling, normalise=normalise)
    assert found.shape == (len(TEXTS), filler.config.width)
    for vector, text in zip(found, TEXTS, strict=True):
        states = hidden(filler, row(filler, text))
        expected = states[0] if pooling == "first" else states.mean(0)
        expected = expected / np.linalg.norm(expected) if normalise else expected
        assert vector == pytest.approx(expected, abs=1e-5)
        assert filler.embed(text, pooling=pooling, normalise=normalise) == pytest.approx(vector, abs=1e-5)
    assert filler.embed([]).shape == (0, filler.config.width)
    assert np.array_equal(filler.embed(TEXTS), filler.embed(TEXTS))


def test_each_token_has_a_vector(filler):
    text = "the red dog sees"
    found = filler.vectors(text)
    assert "".join(piece.text for piece in found.pieces) == text
    assert found.vectors == pytest.approx(hidden(filler, row(filler, text))[1:-1], abs=1e-5)


def test_a_text_too_long_is_refused_or_cut(classifier, filler):
    long = "the cat sees the dog. " * 10
    with pytest.raises(ShapeError, match=r"the text has \d+ tokens and this model reads 46"):
        classifier.classify(long)
    with pytest.raises(ShapeError, match="text number 2"):
        classifier.classify(["a", long])
    kept = classifier.tokenizer.encode(long)[:46]
    chances = logits(classifier, [classifier.tokenizer.start, *kept, classifier.tokenizer.end]).softmax(-1)
    cut = classifier.classify(long, truncate=True)
    assert list(cut.probabilities.values()) == pytest.approx(chances.tolist(), abs=1e-6)
    assert filler.embed(long, truncate=True).shape == (32,)
    assert len(filler.vectors(long, truncate=True).pieces) == 46


def test_a_model_refuses_what_it_was_not_trained_for(filler, classifier):
    with pytest.raises(UsageError, match="gives classes and cannot fill"):
        classifier.fill("the [MASK]")
    with pytest.raises(UsageError, match="gives masked and cannot classify"):
        filler.classify("the cat")
    with pytest.raises(UnknownName, match="unknown pooling 'max'"):
        filler.embed("the cat", pooling="max")


def test_every_class_has_a_label_of_its_own(classifier):
    model, tokenizer = classifier.model, classifier.tokenizer
    names = [f"class {number}" for number in range(model.config.classes)]
    assert Reader(model, tokenizer, names).labels == tuple(names)
    with pytest.raises(SettingError, match="labels hold 'class 0' twice"):
        Reader(model, tokenizer, [*names[:-1], names[0]])
    with pytest.raises(SettingError, match="must be as many as"):
        Reader(model, tokenizer, [*names, "one more"])
