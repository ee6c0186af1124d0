"""Attribution: gradients against finite differences, integrated gradients against completeness."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.errors import RegardError
from regard.inspection.analysis.ablation import chance
from regard.inspection.analysis.attribution import attribute
from regard.inspection.inspection import inspect
from regard.model.blocks import LayerNorm, RMSNorm
from regard.model.watch import replace_row, watch

from ..conftest import ENGLISH, FAMILIES, inspected, subject

POSITION = 6


def lively(seen):
    """The same with norms that let the input through; those of the drawn weights shrink it to nothing."""
    for module in seen.model.modules():
        if isinstance(module, LayerNorm | RMSNorm):
            module.weight.data += 1
    return seen.again(seen.recording.ablated, seen.recording.patch)


def log_odds(seen, scales: dict[str, np.ndarray], word: int, instead: int) -> float:
    """The log-odds in float64 with the embedding of each token multiplied by its number."""
    model = seen.model.double()
    names = {f"{side}.tokens": torch.as_tensor(numbers) for side, numbers in scales.items()}
    patch = {name: lambda x, s=numbers: x * s[None, :, None] for name, numbers in names.items()}
    ids = [torch.as_tensor(side.ids)[None] for side in seen.all_sides]
    with torch.no_grad(), watch(model, (), seen.recording.ablated, {**seen.recording.patch, **patch}):
        output = model(*ids)[0]
    model.float()
    row = output[POSITION] if output.dim() == 2 else output
    return float(row[word] - row[instead])


@pytest.mark.parametrize(
    ("family", "variant"),
    [
        ("encoder-decoder", "paper"),
        ("encoder-decoder", "llama"),
        ("decoder-only", "pre"),
        ("encoder-only", "paper"),
    ],
)
def test_input_times_gradient_is_the_slope_by_the_size_of_an_embedding(words, family, variant):
    seen = lively(inspected(words, variant, family))
    found = attribute(seen, 5, 9, POSITION, method="gradient")
    assert found.start is found.gap is None
    step = 1e-5
    for side in seen.all_sides:
        for place in range(len(side)):
            scales = {each.name: np.ones(len(each)) for each in seen.all_sides}
            odds = []
            for sign in (1, -1):
                scales[side.name][place] = 1 + sign * step
                odds.append(log_odds(seen, scales, 5, 9))
            slope = (odds[0] - odds[1]) / (2 * step)
            assert found.tokens[side.name][place] == pytest.approx(slope, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_integrated_gradients_are_complete(words, family):
    seen = lively(inspected(words, family=family))
    word, instead = int(seen.logits[POSITION].argmax()), int(seen.logits[POSITION].argmin())
    found = attribute(seen, word, instead, POSITION, points=100)
    ones = {side.name: np.ones(len(side)) for side in seen.all_sides}
    zeros = {name: np.zeros_like(numbers) for name, numbers in ones.items()}
    difference = log_odds(seen, ones, word, instead) - log_odds(seen, zeros, word, instead)
    assert found.total == pytest.approx(difference, rel=0.02)
    assert found.gap == pytest.approx(found.total - difference, abs=1e-3)
    assert abs(difference) > 0.1, "the test would hold for shares of zero"


def test_tokens_that_cannot_be_seen_have_no_share(words):
    seen = inspected(words, family="decoder-only")
    for method in ("gradient", "integrated"):
        shares = attribute(seen, 5, 9, POSITION, method, points=4).tokens["target"]
        assert (shares[POSITION + 1 :] == 0).all()
        assert (shares[: POSITION + 1] != 0).all()


def test_the_question_without_words_is_why_it_wrote_what_it_wrote(words):
    seen = inspected(words)
    found = attribute(seen, position=POSITION, points=1)
    assert found.word.ids == (seen.target.ids[POSITION + 1],)
    others = [each for each in seen.next(POSITION, top=2) if each.id != found.word.ids[0]]
    assert found.instead.ids == (others[0].id,)
    assert found.instead.probability == pytest.approx(others[0].probability)
    assert found.score == pytest.approx(np.log(found.word.probability / found.instead.probability), abs=1e-4)
    masked = attribute(inspected(words, family="encoder-only"), position=2, points=1)
    assert masked.word.probability >= masked.instead.probability
    json.dumps(found.as_dict(), allow_nan=False)


def test_words_in_pieces_are_asked_by_the_ways_in_which_they_begin(pieces):
    seen = inspected(pieces)
    found = attribute(seen, "trop", "la", POSITION, "gradient")
    odds = np.log(chance(seen, "trop", POSITION) / chance(seen, "la", POSITION))
    assert found.score == pytest.approx(odds, abs=1e-4)


def test_parts_that_are_off_and_rows_that_are_set_stay_so(words):
    row = np.eye(13)[5]
    patch = {"encoder.0.attention.weights": replace_row(query=7, row=row, head=1)}
    plain = lively(inspected(words))
    changed = plain.again(ablate=[("cross", 1, 0), "positions"], patch=patch)
    found = attribute(changed, 5, 9, POSITION, points=100)
    assert found.score == pytest.approx(changed.logits[POSITION, 5] - changed.logits[POSITION, 9], abs=1e-4)
    assert found.gap == pytest.approx(0, abs=0.02 * abs(found.score - found.start))
    assert found.score != pytest.approx(attribute(plain, 5, 9, POSITION, "gradient").score, abs=1e-3)


def test_a_class_against_another(words):
    seen = lively(inspect(subject(words, family="encoder-only", output="classes", classes=3), ENGLISH))
    found = attribute(seen, 2, 0, points=100)
    assert found.position is None
    assert found.gap == pytest.approx(0, abs=0.02 * abs(found.score - found.start))
    logits = seen.recording.output
    assert found.score == pytest.approx(float(logits[2] - logits[0]), abs=1e-5)
    best = attribute(seen, points=1)
    assert best.word.probability > best.instead.probability
    with pytest.raises(RegardError, match="'good' must be the number of a class"):
        attribute(seen, "good")
    with pytest.raises(RegardError, match="no class 3; there are 3"):
        attribute(seen, 3)


def test_dropout_is_off_and_the_model_keeps_no_gradients(words):
    model = subject(words, dropout=0.5)
    model.model.train()
    seen = inspect(model, ENGLISH, "L'animal")
    one, two = (attribute(seen, 5, 9, 1, points=2).total for _ in range(2))
    assert one == two
    assert model.model.training
    assert all(parameter.grad is None for parameter in model.model.parameters())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (dict(method="gradients"), "unknown method 'gradients'; did you mean gradient"),
        (dict(points=0), r"points \(0\) must be at least 1; try 48"),
        (dict(position=99), "no token 99 in the target"),
        (dict(word="xyz"), "'xyz' is not in the vocabulary"),
        (dict(word=10**6), "no id 1000000; there are"),
        (dict(word="il", instead="il"), "begin with the same token; give two different words"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(words, asked, message):
    with pytest.raises(RegardError, match=message) as raised:
        attribute(inspected(words), **asked)
    assert "\n" not in str(raised.value)


def test_a_model_without_words_or_classes_has_no_answers(words):
    with pytest.raises(RegardError, match="gives vectors, not words"):
        attribute(inspect(subject(words, family="encoder-only", output="vectors"), ENGLISH))
