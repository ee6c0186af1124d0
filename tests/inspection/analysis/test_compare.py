"""Two sentences: pairing words, where attention went, what comes next; lens and rollout."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.errors import RegardError
from regard.inspection.analysis.compare import compare, pair_words
from regard.inspection.analysis.lens import logit_lens
from regard.inspection.analysis.rollout import rollout, rollout_to_both
from regard.inspection.inspection import Inspection, inspect
from regard.inspection.record.tokens import Side

from ..conftest import ENGLISH, FAMILIES, FRENCH, inspected, subject

WIDE = ENGLISH.replace("tired", "wide")
ELLE = FRENCH.replace("il", "elle").replace("fatigué", "large")


def side(tokenizer, text):
    return Side.of_text("source", tokenizer, text)


def test_words_are_paired(words):
    pairs = pair_words(side(words, ENGLISH), side(words, WIDE))
    assert [pair.label for pair in pairs][-3:] == ["too", "tired/wide", "."]
    assert all(pair.first == pair.second for pair in pairs)
    pairs = pair_words(side(words, "it was too tired"), side(words, "it was tired"))
    assert [(p.first, p.second, p.label) for p in pairs] == [
        (0, 0, "it"), (1, 1, "was"), (2, None, "too/"), (3, 2, "tired"),
    ]  # fmt: skip
    pairs = pair_words(side(words, "it was"), side(words, "it was too wide"))
    assert [p.label for p in pairs] == ["it", "was", "/too", "/wide"]


@pytest.mark.parametrize("tokens", ["words", "pieces"])
def test_changes_are_ranked_by_total_variation(request, tokens):
    tokenizer = request.getfixturevalue(tokens)
    model = subject(tokenizer)
    tired, wide = inspect(model, ENGLISH, FRENCH), inspect(model, WIDE, ELLE)
    both = compare(tired, wide)
    changes = both.changes("it")
    assert {change.kind for change in changes} == {"encoder"}
    assert len(changes) == 8
    assert [c.distance for c in changes] == sorted((c.distance for c in changes), reverse=True)
    for change in changes:
        rows = [seen.attention("encoder", change.layer, change.head, words=True)[7] for seen in (tired, wide)]
        assert change.first == pytest.approx(rows[0], abs=1e-6)
        assert change.second == pytest.approx(rows[1], abs=1e-6)
        assert change.distance == pytest.approx(np.abs(rows[0] - rows[1]).sum() / 2, abs=1e-6)
        assert change.difference.sum() == pytest.approx(0, abs=1e-6)
    maps = both.difference_map("it", "encoder")
    assert maps.shape == (2, 4, len(both.labels("source")))
    assert maps[changes[0].layer, changes[0].head] == pytest.approx(changes[0].difference)
    assert {change.kind for change in both.changes("rue")} == {"decoder", "cross"}
    json.dumps([change.as_dict() for change in changes])


def test_a_word_that_one_sentence_lacks_counts_in_full(words):
    model = subject(words)
    both = compare(inspect(model, "it was too tired", "il"), inspect(model, "it was tired", "il"))
    change = both.changes("it")[0]
    place = both.labels("source").index("too/")
    assert change.second[place] == 0
    assert change.first[place] > 0
    assert change.distance == pytest.approx(np.abs(change.difference).sum() / 2)
    with pytest.raises(RegardError, match="'too' has no match in 'it was tired'"):
        both.changes("too")
    with pytest.raises(RegardError, match="no word 'xyz'"):
        both.changes("xyz")


def test_the_next_word_is_compared_where_the_outputs_part(words):
    model = subject(words)
    tired, wide = inspect(model, ENGLISH, FRENCH), inspect(model, WIDE, ELLE)
    both = compare(tired, wide)
    assert tired.target.labels()[both.fork] == wide.target.labels()[both.fork] == "qu'"
    changes = both.next(top=5)
    difference = wide.probabilities[both.fork] - tired.probabilities[both.fork]
    assert [c.change for c in changes] == pytest.approx([difference[c.id] for c in changes])
    assert abs(changes[0].change) == pytest.approx(np.abs(difference).max())
    first = both.next(position=0)[0]
    assert first.first == pytest.approx(tired.probabilities[0, first.id])
    assert compare(tired, tired).fork == len(tired.target) - 1
    assert compare(tired, tired).changes("it")[0].distance == 0
    json.dumps(changes[0].as_dict())


def test_each_text_is_followed_by_a_word_of_its_own(words):
    model = subject(words, family="decoder-only")
    first, second = (inspect(model, text) for text in ("The animal", "The street was too"))
    most = compare(first, second).after_both(top=1)[0]
    difference = second.probabilities[-1] - first.probabilities[-1]
    assert abs(most.change) == pytest.approx(np.abs(difference).max())
    assert most.first == pytest.approx(first.probabilities[-1, most.id])


def test_models_with_other_heads_are_not_compared(words):
    other = inspect(subject(words, heads=2), ENGLISH, FRENCH)
    with pytest.raises(RegardError, match="different heads"):
        compare(inspected(words), other)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("variant", ["paper", "pre", "llama"])
def test_the_lens_is_a_model_cut_off_behind_that_layer(words, family, variant):
    seen = inspected(words, variant, family)
    lens = logit_lens(seen)
    assert lens.layers == 2
    assert np.array_equal(lens.logits(1), seen.logits)
    early = lens.logits(0)
    stack = seen.model.encoder if family == "encoder-only" else seen.model.decoder
    stack.blocks = stack.blocks[:1]
    cut = Inspection(seen.model, seen.source, seen.target)
    assert np.allclose(early, cut.logits, atol=1e-5)
    best = logit_lens(cut).next(0, position=3, top=2)
    chances = torch.as_tensor(cut.logits[3]).softmax(-1)
    assert [each.id for each in best] == chances.topk(2).indices.tolist()
    assert best[0].probability == pytest.approx(chances.max().item(), rel=1e-5)


def test_the_lens_as_a_table(words):
    lens = logit_lens(inspected(words))
    table = lens.table(position=2, top=3)
    assert [len(row) for row in table] == [3, 3]
    assert table[-1] == lens.record.next(2, top=3)
    assert lens.probabilities(0).sum(-1) == pytest.approx(1)
    with pytest.raises(RegardError, match="no layer 2; there are 2"):
        lens.logits(2)
    with pytest.raises(RegardError, match="gives vectors, not words"):
        logit_lens(inspect(subject(words, family="encoder-only", output="vectors"), ENGLISH))


def test_rollout_is_abnar_and_zuidemas(words):
    seen = inspected(words)
    for kind in ("encoder", "decoder"):
        expected = np.eye(len(seen.sides(kind)[0]))
        for layer in range(2):
            weights = seen.attention(kind, layer).mean(0)
            expected = (0.5 * weights + 0.5 * np.eye(len(weights))) @ expected
        found = rollout(seen, kind)
        assert found == pytest.approx(expected, abs=1e-6)
        assert found.sum(-1) == pytest.approx(1)
    first = 0.5 * seen.attention("encoder", 0).mean(0) + 0.5 * np.eye(len(seen.source))
    assert rollout(seen, "encoder", layers=1) == pytest.approx(first, abs=1e-6)
    assert np.triu(rollout(seen, "decoder"), 1).max() == 0


def test_rollout_through_cross_attention_to_the_source(words):
    seen = inspected(words)
    targets, sources = len(seen.target), len(seen.source)
    encoder = rollout(seen, "encoder")
    to_target, to_source = np.eye(targets), np.zeros((targets, sources))
    for layer in range(2):
        mixed = 0.5 * np.eye(targets) + 0.5 * seen.attention("decoder", layer).mean(0)
        to_target, to_source = mixed @ to_target, mixed @ to_source
        cross = seen.attention("cross", layer).mean(0)
        to_target, to_source = 0.5 * to_target, 0.5 * to_source + 0.5 * cross @ encoder
    whole = rollout_to_both(seen)
    assert whole == pytest.approx(np.hstack([to_target, to_source]), abs=1e-6)
    assert whole.sum(-1) == pytest.approx(1)
    assert rollout(seen, "cross") == pytest.approx(to_source / to_source.sum(-1, keepdims=True), abs=1e-6)
    assert rollout(seen, "cross").sum(-1) == pytest.approx(1)


def test_rollout_refuses_layers_that_are_not_there(words):
    with pytest.raises(RegardError, match="no layer 2"):
        rollout(inspected(words), "encoder", layers=3)
    with pytest.raises(RegardError, match="unknown kind"):
        rollout(inspected(words, family="decoder-only"), "encoder")
