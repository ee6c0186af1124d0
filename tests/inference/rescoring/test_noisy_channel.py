"""Noisy-channel reranking: hypotheses ranked also by the probability of the source given each."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.errors import SettingError
from regard.inference.rescoring.noisy_channel import NoisyChannel
from regard.inference.search.beam import BeamSettings
from regard.inference.translation import Source
from regard.inference.translator import Translator
from regard.text.tokenizer import Tokenizer, Tokenizers

pytestmark = pytest.mark.xdist_group("toy-models")


@pytest.fixture(scope="module")
def sources(toy_pairs):
    return [source for source, _ in toy_pairs(40, 77)]


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def back_by_hand(translator, source, found):
    """The log-probability of a source given a translation, one forward pass of the model and nothing else."""
    words = translator.tokenizers.source
    content = [number for number in found.tokens.ids.tolist() if number != words.end]
    ids = [*words.encode(source), words.end]
    with torch.inference_mode():
        read, said = torch.tensor([[*content, words.end]]), torch.tensor([[words.start, *ids[:-1]]])
        chances = translator.model(read, said)[0].log_softmax(-1)
    return float(sum(chances[place, number] for place, number in enumerate(ids)))


def hypotheses(found):
    return [found, *found.others]


@pytest.mark.parametrize(("weight", "alpha"), [(1.0, 0.6), (0.5, 0.0), (3.0, 2.0)])
def test_hypotheses_are_ranked_by_both_directions(guesser, sources, weight, alpha):
    settings = dict(beams=5, n_best=5, length_penalty=alpha)
    plain = guesser.translate(sources, **settings)
    both = guesser.translate(sources, rescorer=NoisyChannel(guesser, weight), **settings)
    moved = 0
    for source, one_way, found in zip(sources, plain, both, strict=True):
        expected = []
        for each in hypotheses(one_way):
            back = back_by_hand(guesser, source, each)
            length = len(guesser.tokenizers.source.encode(source)) + 1
            expected.append((each.rank_score + weight * back / penalty(length, alpha), back, each.text))
        expected.sort(key=lambda each: -each[0])
        told = [(each.rank_score, each.channel_score, each.text) for each in hypotheses(found)]
        assert [each[2] for each in told] == [each[2] for each in expected]
        for found_numbers, numbers in zip(told, expected, strict=True):
            assert found_numbers[:2] == pytest.approx(numbers[:2], abs=1e-4)
        moved += found.text != one_way.text
    assert moved  # it is not the order that was there before


def test_the_score_is_still_that_of_the_forward_direction(guesser, sources):
    for source, found in zip(
        sources, guesser.translate(sources, rescorer=NoisyChannel(guesser, 1.0)), strict=True
    ):
        assert found.score == pytest.approx(guesser.score(source, found).score, abs=1e-5)


def test_the_best_of_all_hypotheses_is_given_however_few_are_wanted(guesser, sources):
    everything = guesser.translate(sources, beams=6, n_best=6, rescorer=NoisyChannel(guesser, 1.0))
    for wanted in (1, 3):
        few = guesser.translate(sources, beams=6, n_best=wanted, rescorer=NoisyChannel(guesser, 1.0))
        assert [[one.text for one in hypotheses(each)] for each in few] == [
            [one.text for one in hypotheses(each)[:wanted]] for each in everything
        ]


def test_reverse_scoring_prefers_complete_translations(two_way_translator, toy_pairs):
    """Right translations win against likelier ones without their last word, by the way back alone."""
    words = two_way_translator.tokenizers
    channel = NoisyChannel(two_way_translator, 1.0)
    right = 0
    for source, target in toy_pairs(40, 79):
        ids = np.array([*words.source.encode(source), words.source.end])
        whole, short = (
            two_way_translator.score(source, text) for text in (target, target.rsplit(" ", 1)[0] + ".")
        )
        likelier = replace(short, rank_score=whole.rank_score + 0.1)
        right += channel([Source(source, ids)], [[likelier, whole]], BeamSettings())[0][0].text == target
    assert right >= 38


def test_batches_do_not_change_it(guesser, sources):
    alone = [guesser.translate(source, rescorer=NoisyChannel(guesser, 0.5), n_best=2) for source in sources]
    together = guesser.translate(sources, rescorer=NoisyChannel(guesser, 0.5), n_best=2)
    assert [each.text for each in together] == [each.text for each in alone]
    assert [each.channel_score for each in together] == pytest.approx(
        [each.channel_score for each in alone], abs=1e-4
    )


def test_tree_alignment_and_json_go_with_it(guesser, sources):
    found = guesser.translate(
        sources[0], rescorer=NoisyChannel(guesser, 1.0), n_best=3, tree=True, alignment=True
    )
    assert found.tree is not None
    assert found.alignment is not None
    assert len(found.others) == 2
    assert all(each.tree is None for each in found.others)
    told = json.loads(json.dumps(found.as_dict()))
    assert told["channel_score"] == found.channel_score
    assert [each["channel_score"] for each in told["others"]] == [each.channel_score for each in found.others]


def test_a_text_of_parts_has_the_sum_of_theirs(guesser):
    found = guesser.translate(
        "the cat sees. " * 30, split="sentences", max_length=4, rescorer=NoisyChannel(guesser, 0.5)
    )
    assert found.channel_score == pytest.approx(sum(part.channel_score for part in found.parts))
    assert guesser.translate("  ", rescorer=NoisyChannel(guesser, 0.5)).channel_score is None


def test_truncated_and_prefixed_hypotheses_are_ranked_too(guesser, sources):
    for options in (dict(max_length=1), dict(max_length=2, prefix="le chat")):
        for source, found in zip(
            sources, guesser.translate(sources, rescorer=NoisyChannel(guesser, 1.0), **options), strict=True
        ):
            assert found.channel_score == pytest.approx(back_by_hand(guesser, source, found), abs=1e-4)


def test_ablated_parts_are_ablated_in_reverse_scoring_too(guesser, sources):
    ablate = [("cross", 0, 0), ("encoder", 1, 1)]
    found = guesser.translate(sources[0], rescorer=NoisyChannel(guesser, 1.0, ablate), ablate=ablate)
    whole = back_by_hand(guesser, sources[0], found)
    assert abs(found.channel_score - whole) > 1e-4


@pytest.mark.parametrize("weight", [-0.1, 101.0, float("nan")])
def test_a_wrong_weight_is_refused(guesser, weight):
    with pytest.raises(SettingError, match=rf"channel_weight \({weight}\) must lie between 0 and 100"):
        NoisyChannel(guesser, weight)


def test_one_beam_is_refused_at_once(guesser):
    with pytest.raises(SettingError, match="rescoring needs several hypotheses, and beams is 1"):
        guesser.translate(iter(["the cat"]), beams=1, rescorer=NoisyChannel(guesser, 0.1))


def test_two_vocabularies_are_refused(guesser, toy_tokenizer, tmp_path):
    toy_tokenizer.save(tmp_path / "other.json")
    apart = Translator(guesser.model, Tokenizers(toy_tokenizer, Tokenizer.load(tmp_path / "other.json")))
    with pytest.raises(SettingError, match="needs one vocabulary for both languages"):
        NoisyChannel(apart, 0.1)


def test_any_function_can_rescore(guesser, sources):
    """The seam itself: n-best lists in, n-best lists out."""
    plain = guesser.translate(sources, beams=4, n_best=4)
    worst = guesser.translate(
        sources, beams=4, n_best=2, rescorer=lambda sources, n_best, settings: [row[::-1] for row in n_best]
    )
    assert [each.text for each in worst] == [each.others[-1].text for each in plain]
    assert all(len(each.others) == 1 for each in worst)
