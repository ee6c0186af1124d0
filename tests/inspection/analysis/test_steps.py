"""The steps of one row: each equal to the model's own, and to arithmetic done another way."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.errors import RegardError
from regard.inspection.analysis.steps import STEPS
from regard.inspection.inspection import inspect
from regard.model.similarity import SIMILARITIES
from regard.model.watch import replace_row

from ..conftest import ENGLISH, FAMILIES, VARIANTS, inspected, subject


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_step_is_the_models_own(words, variant, family):
    seen = inspected(words, variant, family)
    for kind in seen.kinds:
        for layer in range(2):
            for head in range(4):
                for query in (0, 5, -1):
                    steps = seen.steps(kind, layer, head, query)
                    assert steps.agree, [(step.name, step.deviation) for step in steps]
                    compared = {step.name for step in steps if step.agrees}
                    assert compared >= {
                        "query",
                        "keys",
                        "scores",
                        "scaled",
                        "weights",
                        "values",
                        "head",
                        "output",
                    }
                    assert compared & {"norm", "residual"}


def test_the_steps_are_equation_1(words):
    seen = inspected(words)
    steps = seen.steps("decoder", layer=1, head=2, query=6)
    q, k, v = steps["query"].value, steps["keys"].value, steps["values"].value
    assert np.allclose(steps["products"].value, q * k, atol=1e-5)
    assert np.allclose(steps["scores"].value, k @ q, atol=1e-5)
    assert steps.divisor == pytest.approx(np.sqrt(len(q)))
    assert np.allclose(steps["scaled"].value, k @ q / 2, atol=1e-5)
    assert np.isneginf(steps["masked"].value[7:]).all()
    assert np.isfinite(steps["masked"].value[:7]).all()
    assert steps["exponentials"].value.max() == 1.0
    assert steps["sum"].value == steps["exponentials"].value.sum()
    assert np.allclose(steps["weights"].value, seen.attention("decoder", 1, 2)[6], atol=1e-6)
    assert np.allclose(steps["weighted"].value.sum(0), steps["weights"].value @ v, atol=1e-5)
    written = steps["contributions"].value
    assert np.allclose(written[2], steps["contribution"].value)
    assert np.allclose(written.sum(0) + steps["bias"].value, steps["output"].value)
    assert np.allclose(steps["input"].value + steps["output"].value, steps["residual"].value, atol=1e-5)
    norm = torch.nn.functional.layer_norm(
        torch.as_tensor(steps["residual"].value),
        (16,),
        *(p.detach().double() for p in seen.model.decoder.blocks[1].around_attention.norm.parameters()),
    )
    assert np.allclose(norm, steps["norm"].value)


def test_a_wrong_step_would_be_noticed(words):
    seen = inspected(words)
    with torch.no_grad():
        seen.model.encoder.blocks[1].attention.output.weight[3, 5] += 1e-3
    steps = seen.steps("encoder", 1, 1, "it")
    assert [step.name for step in steps if step.agrees is False] == ["output"]
    assert steps["output"].deviation > 1e-5
    assert not steps.agree


def test_a_row_pulled_by_hand_shows_where_it_departs(words):
    row = np.full(13, 1 / 13)
    seen = inspected(words).again(patch={"encoder.0.attention.weights": replace_row(7, row, head=1)})
    steps = seen.steps("encoder", 0, 1, 7)
    assert [step.name for step in steps if step.agrees is False] == ["weights"]
    assert seen.steps("encoder", 0, 2, 7).agree


@pytest.mark.parametrize("variant", ["paper", "pre", "llama"])
def test_what_is_switched_off_is_left_out(words, variant):
    heads = inspected(words, variant, ablate=[("encoder", 1, 2)]).steps("encoder", 1, 2, 3)
    assert heads.agree
    assert not heads["head"].value.any()
    assert "switched off" in heads["head"].saying
    for part in ("scaling", "positions", "residual", "norm"):
        steps = inspected(words, variant, ablate=[part]).steps("encoder", 1, 2, 3)
        assert steps.agree, part
        names = [step.name for step in steps]
        assert part != "norm" or not {"norm", "normed"} & set(names)
        assert part != "scaling" or (steps.divisor, steps["scaled"].formula) == (1.0, "s, not divided")
        assert part != "residual" or np.allclose(steps["residual"].value, steps["output"].value, atol=1e-5)


def test_a_similarity_from_outside_keeps_its_own_scores(words):
    class Distance(torch.nn.Module):
        scale = 1.0

        def __init__(self, heads, key_width):
            super().__init__()

        def forward(self, query, key):
            return -torch.cdist(query, key)

        def as_dot(self, query, key):
            return None

    SIMILARITIES["distance"] = Distance
    try:
        steps = inspect(subject(words, similarity="distance"), ENGLISH, "il").steps("encoder", 0, 0, 2)
    finally:
        del SIMILARITIES["distance"]
    assert steps["scores"].agrees is None
    assert steps.agree
    assert "products" not in [step.name for step in steps]


def test_the_steps_as_json(words):
    steps = inspected(words, "pre").steps("decoder", 0, 1, query=2)
    told = json.loads(json.dumps(steps.as_dict(), allow_nan=False))
    assert (told["kind"], told["layer"], told["head"], told["query"], told["word"]) == (
        "decoder",
        0,
        1,
        2,
        "animal",
    )
    by_name = {step["name"]: step for step in told["steps"]}
    assert by_name["masked"]["value"][3] is None
    assert by_name["weights"]["value"] == steps["weights"].value.tolist()
    assert by_name["sum"]["value"] == float(steps["sum"].value)
    assert all(step["formula"] and step["saying"] for step in told["steps"])
    assert set(by_name) <= set(STEPS)


def test_an_unknown_step_is_answered(words):
    with pytest.raises(RegardError, match="no step 'wieghts'; did you mean weights"):
        inspected(words).steps("encoder", 0, 0, 0)["wieghts"]
    with pytest.raises(RegardError, match="no head 9"):
        inspected(words).steps("encoder", 0, 9, 0)
