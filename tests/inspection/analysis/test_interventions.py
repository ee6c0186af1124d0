"""Interventions: applied to their row, refused where they do not fit, and used by the search."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import RegardError
from regard.inspection.analysis.interventions import Intervention, check_intervention, patches
from regard.inspection.inspection import inspect
from regard.inspection.record.inputs import WholePassStepper, translate_by_default

from ..conftest import inspected, subject


def one_hot(keys: int, key: int) -> tuple[float, ...]:
    return tuple(float(number == key) for number in range(keys))


def test_each_row_is_put_in_its_place(words):
    whole = inspected(words)
    keys = len(whole.source)
    interventions = [
        Intervention("encoder", 1, 2, 7, one_hot(keys, 1)),
        Intervention("encoder", 1, 3, 7, one_hot(keys, 2)),
        Intervention("cross", 0, 0, 4, one_hot(keys, 5)),
    ]
    seen = inspected(words, patch=patches(interventions))
    for intervention in interventions:
        row = seen.attention(intervention.kind, intervention.layer, intervention.head)[intervention.query]
        assert row.tolist() == list(intervention.row)
    same = seen.attention("encoder", 1)
    same[2:4, 7] = whole.attention("encoder", 1)[2:4, 7]
    assert np.allclose(same, whole.attention("encoder", 1), atol=1e-6)
    assert not np.allclose(seen.logits, whole.logits, atol=1e-4)


def test_a_decoders_row_fits_outputs_of_other_lengths():
    put = patches([Intervention("decoder", 0, 0, 2, (0.25, 0.5, 0.25, 0.0, 0.0))])[
        "decoder.0.attention.weights"
    ]
    for length in (3, 5, 8):
        row = put(torch.ones(1, 2, length, length))[0, 0, 2].tolist()
        assert row == [0.25, 0.5, 0.25, *[0.0] * (length - 3)]
    assert put(torch.ones(1, 2, 2, 2)).sum() == 8  # the output ends before that row


@pytest.mark.parametrize(
    ("intervention", "complaint"),
    [
        (Intervention("middle", 0, 0, 0, (1.0,)), "unknown kind of attention 'middle'"),
        (Intervention("encoder", 2, 0, 0, one_hot(5, 0)), "no layer 2 of encoder attention; there are 2"),
        (Intervention("cross", 0, 4, 0, one_hot(5, 0)), "no head 4 of cross attention; there are 4"),
        (Intervention("encoder", 0, 0, 5, one_hot(5, 0)), "no query 5; the source has 5 tokens"),
        (
            Intervention("encoder", 0, 0, 0, one_hot(4, 0)),
            "the intervention has 4 weights; this row has 5 keys",
        ),
        (Intervention("encoder", 0, 0, 0, (0.5, 0.4, 0, 0, 0)), "the weights sum to 0.9"),
        (Intervention("encoder", 0, 0, 0, (1.5, -0.5, 0, 0, 0)), "weights of 0 or more"),
    ],
)
def test_what_does_not_fit_is_refused(words, intervention, complaint):
    with pytest.raises(RegardError) as refused:
        check_intervention(subject(words).model, intervention, 5)
    assert complaint in str(refused.value)


def test_a_decoder_row_cannot_attend_to_later_tokens(words):
    model = subject(words).model
    check_intervention(model, Intervention("decoder", 0, 0, 1, (0.5, 0.5, 0.0)))
    with pytest.raises(RegardError, match="attends to later tokens"):
        check_intervention(model, Intervention("decoder", 0, 0, 1, (0.5, 0.4, 0.1)))


@pytest.mark.parametrize("ablate", [(), [("cross", 0, 1), "scaling"]])
def test_a_patch_that_changes_nothing_leaves_the_default_translation(translator, toy_pairs, ablate):
    patch = {"decoder.0.attention.weights": lambda weights: weights}
    for text, _ in toy_pairs(5, 9):
        expected = translator.translate(text, ablate=ablate).tokens.ids.tolist()
        assert translate_by_default(translator, text, ablate, patch) == expected


def test_the_translation_under_interventions_is_scored_as_the_recorded_pass(translator, toy_pairs):
    text = toy_pairs(1, 4)[0][0]
    keys = len(translator.tokenizers.source.encode(text)) + 1
    interventions = [
        Intervention("encoder", 0, head, query, one_hot(keys, 0))
        for head in range(4)
        for query in range(keys)
    ] + [Intervention("cross", 1, head, 3, one_hot(keys, keys - 1)) for head in range(4)]
    seen = inspect(translator, text, patch=patches(interventions))
    assert seen.written.text != inspect(translator, text).written.text
    stepper = WholePassStepper(translator.model, (), patches(interventions))
    stepper.admit([seen.target.ids[:1]], [seen.source.ids])
    for position, number in enumerate(seen.target.ids):
        chances = stepper.step(np.array([number])).log_probabilities[0]
        assert np.allclose(chances, np.log(seen.probabilities[position]), atol=1e-4)
        stepper.reorder(np.array([0, 0]))  # rows do not change one another
        stepper.drop(np.array([0]))
