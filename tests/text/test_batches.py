"""Batches: every example once, within batch_tokens, in an order that resumes at any batch."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import CheckpointError, DataError, SettingError
from regard.text.augment.bidirectional import Bidirectional
from regard.text.batches import (
    Augmentation,
    BatchSource,
    labelled_batches,
    masked_batches,
    parallel_batches,
    sample_by_length,
    scoring_windows,
    window_batches,
)
from regard.text.collate import collate_masked
from regard.text.corpus import ParallelText, Report
from regard.text.encoding import encode_parallel
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizer, Tokenizers

lengths_of_pairs = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80)


def random_sequences(count: int, seed: int = 0, longest: int = 20) -> Sequences:
    random = np.random.default_rng(seed)
    return Sequences.of([random.integers(5, 60, random.integers(1, longest)).tolist() for _ in range(count)])


@pytest.fixture(scope="module")
def sources(bpe):
    """A maker of each kind of batch source, always the same."""
    pairs = Data({"source": random_sequences(200, 1), "target": random_sequences(200, 2)})
    labelled = Data({"text": random_sequences(150, 3), "label": Sequences.of([[i % 3] for i in range(150)])})
    return {
        "parallel": lambda seed=1: parallel_batches(
            pairs, Tokenizers.joint(bpe), batch_tokens=128, seed=seed
        ),
        "labelled": lambda seed=1: labelled_batches(labelled, bpe, batch_tokens=128, seed=seed),
        "masked": lambda seed=1: masked_batches(labelled, bpe, batch_tokens=128, seed=seed),
        "window": lambda seed=1: window_batches(labelled, bpe, context=16, batch_tokens=128, seed=seed),
    }


KINDS = ["parallel", "labelled", "masked", "window"]


def arrays(batch) -> list[np.ndarray]:
    return list(vars(batch).values())


def same(first, second) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(arrays(first), arrays(second), strict=True))


@given(lengths_of_pairs, st.integers(1, 200), st.integers(0, 3), st.integers(0, 3))
def test_an_epoch_has_every_example_once_within_batch_tokens(lengths, batch_tokens, seed, epoch):
    sides = np.array(lengths).T
    sampler = sample_by_length(sides, batch_tokens, seed, epoch)
    assert sorted(sampler.order) == list(range(len(lengths)))
    cells = 0
    for examples in sampler:
        batch = sides[:, examples]
        assert len(examples) == 1 or batch.max() * len(examples) <= batch_tokens
        cells += (batch.max(1) * len(examples)).sum()
    assert sampler.padding == pytest.approx(1 - sides.sum() / cells)


def test_the_order_follows_seed_and_epoch_alone():
    sides = np.random.default_rng(0).integers(1, 40, (2, 500))
    sampler = sample_by_length(sides, 256, seed=1, epoch=2)
    assert np.array_equal(sampler.order, sample_by_length(sides, 256, seed=1, epoch=2).order)
    assert not np.array_equal(sampler.order, sample_by_length(sides, 256, seed=2, epoch=2).order)
    assert not np.array_equal(sampler.order, sample_by_length(sides, 256, seed=1, epoch=3).order)


def test_each_epoch_forms_other_batches():
    sides = np.full((2, 400), 8)
    together = [
        {frozenset(examples.tolist()) for examples in sampler}
        for sampler in (sample_by_length(sides, 64, 1, epoch) for epoch in (0, 1))
    ]
    assert not together[0] & together[1]


def two_corpora(weights: tuple[float, ...]) -> Data:
    """Pairs of a token each: 20 of one corpus, from 5 on, and 10 of another, from 100 on."""
    sources = Sequences.of([[5 + i] for i in range(20)] + [[100 + i] for i in range(10)])
    report = Report(tokens=[20, 10])
    return Data({"source": sources, "target": sources}, report, "same").weighted(weights)


@pytest.mark.parametrize("is_both_ways", [False, True])
def test_an_epoch_has_each_corpus_as_often_as_its_weight(bpe, is_both_ways):
    words = Tokenizers.joint(bpe)
    batches = parallel_batches(two_corpora((0.5, 2.3)), words, batch_tokens=16)
    batches = batches.augmented([Bidirectional(1, words)]) if is_both_ways else batches
    epochs = []
    for epoch in range(4):
        drawn = np.concatenate([batch.source[batch.source_keys] for batch in batches])
        epochs.append(Counter(drawn[drawn >= 5].tolist()))
        times = 2 if is_both_ways and epoch == 0 else 1
        first = sum(count for token, count in epochs[-1].items() if token < 100)
        assert (first, epochs[-1].total() - first) == (10 * times, 23 * times)
        assert {epochs[-1][token] for token in range(100, 110)} <= ({4, 5, 6} if times == 2 else {2, 3})
    assert epochs[2].keys() - epochs[3].keys()  # the other half
    assert set(range(5, 25)) <= epochs[2].keys() | epochs[3].keys()


def test_the_sources_say_which_corpus_an_example_is_of(bpe):
    data = two_corpora((1, 3))
    columns = {"source": data["source"], "target": Sequences.of([[5] * 4] * 30)}
    batches = parallel_batches(replace(data, columns=columns), Tokenizers.joint(bpe), batch_tokens=64)
    drawn = np.concatenate([batch.source[batch.source_keys] for batch in batches])
    expected = {**dict.fromkeys(range(5, 25), 1), **dict.fromkeys(range(100, 110), 3)}
    assert Counter(drawn[drawn >= 5].tolist()) == expected


def test_an_epoch_has_windows_of_each_corpus_as_often_as_its_weight(bpe):
    ids = Sequences.of([[5] * 1600, [6] * 800])
    data = Data({"text": ids}, Report(tokens=[1600, 800]), "same").weighted((1, 3))
    batches = window_batches(data, bpe, context=16, batch_tokens=64)
    for _ in range(2):
        drawn = Counter(int(row[0]) for batch in batches for row in batch.input)
        assert (drawn[5], drawn[6]) == (100, pytest.approx(150, abs=3))


def test_weights_are_part_of_the_position(bpe):
    words = Tokenizers.joint(bpe)
    batches, same_again, other = (
        parallel_batches(two_corpora(weights), words, batch_tokens=16)
        for weights in ((0.5, 2.3), (0.5, 2.3), (1, 2.3))
    )
    for _ in range(6):
        batches.next()
    same_again.restore(json.loads(json.dumps(batches.state())))
    assert all(same(batches.next(), same_again.next()) for _ in range(30))
    with pytest.raises(CheckpointError, match="weights"):
        other.restore(batches.state())


def test_a_batch_has_as_many_examples_as_fit():
    sampler = sample_by_length(np.full((2, 400), 8), batch_tokens=64, seed=1, epoch=0)
    assert set(np.diff(sampler.bounds)) == {8}


def test_each_epoch_masks_other_tokens(bpe):
    data = Data({"text": Sequences.of([list(range(5, 205))])})
    source = masked_batches(data, bpe)
    first, second = source.next(), source.next()
    assert not np.array_equal(first.chosen, second.chosen)
    other = masked_batches(data, bpe, seed=2).next()
    assert not np.array_equal(first.chosen, other.chosen)


def test_each_batch_masks_other_tokens(bpe):
    data = Data({"text": Sequences.of([list(range(5, 65))] * 8)})
    batches = list(masked_batches(data, bpe, batch_tokens=2 * 62))
    assert len({batch.chosen.tobytes() for batch in batches}) == len(batches) == 4


class Changing(Sequences):
    """Sequences of one token, which is another one in each epoch, as an augmentation may change it."""

    def take(self, examples, epoch):
        return [ids + epoch for ids in super().take(examples, epoch)]


@pytest.mark.parametrize(
    ("kind", "field"), [("parallel", "source"), ("labelled", "input"), ("masked", "output")]
)
def test_every_epoch_takes_its_own_version_of_the_texts(bpe, kind, field):
    text = Changing.of([[40]] * 20)
    data = Data({"source": text, "target": text, "text": text, "label": Sequences.of([[0]] * 20)})
    both = Tokenizers.joint(bpe) if kind == "parallel" else bpe
    source = {"parallel": parallel_batches, "labelled": labelled_batches, "masked": masked_batches}[kind](
        data, both
    )
    for epoch in range(3):
        [batch] = source
        drawn = set(np.ravel(getattr(batch, field)).tolist())
        assert drawn & {40, 41, 42} == {40 + epoch}


def test_batches_are_not_in_order_of_length():
    sides = np.random.default_rng(0).integers(1, 60, (2, 3000))
    sampler = sample_by_length(sides, 512, seed=1, epoch=0)
    longest = [sides[:, examples].max() for examples in sampler]
    ascents = sum(a <= b for a, b in pairwise(longest)) / (len(longest) - 1)
    assert 0.3 < ascents < 0.7


@pytest.mark.parametrize("kind", KINDS)
def test_it_resumes_at_any_batch(sources, kind):
    straight = sources[kind]()
    states, batches = [], []
    for _ in range(2 * len(straight) + 3):
        states.append(json.dumps(straight.state()))
        batches.append(straight.next())
    assert straight.epoch == 2
    for at in range(len(batches)):
        resumed = sources[kind]()
        resumed.restore(json.loads(states[at]))
        assert all(same(resumed.next(), batch) for batch in batches[at : at + 3])


@pytest.mark.parametrize("kind", KINDS)
def test_resuming_fetches_no_earlier_batch(sources, kind):
    source = sources[kind]()
    fetched = []

    class Recorder(Augmentation):
        def augment_batch(self, batch, sampled):
            fetched.append((sampled.epoch, sampled.index))
            return batch

    source = source.augmented([Recorder()])
    source.restore({**source.state(), "epoch": 7, "index": 3})
    source.next()
    assert fetched == [(7, 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_seed_is_0(sources, kind):
    sources[kind](seed=0).next()
    with pytest.raises(SettingError, match=r"seed \(-1\) at least 0"):
        sources[kind](seed=-1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_position_of_another_order_is_refused(sources, kind):
    with pytest.raises(CheckpointError, match="seed 2 and this one 1"):
        sources[kind](seed=1).restore(sources[kind](seed=2).state())
    for wrong in ({"epoch": -1}, {"index": 10**6}, {"index": "3"}, {"epoch": None}, {"data": "x"}):
        with pytest.raises(CheckpointError):
            sources[kind]().restore({**sources[kind]().state(), **wrong})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_batch_source(sources, kind):
    source: BatchSource = sources[kind]()
    batch = source.next()
    assert batch.tokens > 0
    assert batch.rows > 0


def test_iterating_gives_an_epoch_at_a_time(sources):
    source = sources["parallel"]()
    source.next()
    assert len(list(source)) == len(source) - 1
    rows = [batch.rows for batch in source]
    assert (source.epoch, sum(rows)) == (1, 200)


def test_windows_are_full_and_start_elsewhere_each_epoch(bpe):
    text = np.arange(5, 1005)
    data = Data({"text": Sequences.of([text.tolist()])})
    source = window_batches(data, bpe, context=32, batch_tokens=128, seed=1)
    offsets = set()
    for _ in range(6):
        batches = list(source)
        inputs = np.concatenate([batch.input for batch in batches])
        assert inputs.shape[1] == 32
        assert np.array_equal(np.concatenate([batch.output for batch in batches]), inputs + 1)
        starts = sorted(inputs[:, 0] - 5)
        assert set(np.diff(starts)) == {32}
        assert len(inputs) >= len(text) // 32 - 1
        offsets.add(starts[0])
    assert len(offsets) > 2


@pytest.mark.parametrize("length", [33, 34, 40, 64])
def test_the_shortest_texts_have_a_window(bpe, length):
    data = Data({"text": Sequences.of([list(range(length))])})
    source = window_batches(data, bpe, context=32)
    assert all(source.next().input.shape[1] == 32 for _ in range(50))
    with pytest.raises(DataError, match="give more text"):
        window_batches(data, bpe, context=length)


@given(st.integers(1, 70), st.integers(1, 12), st.integers(1, 4), st.booleans())
def test_scoring_predicts_each_token_once(bpe, length, context, rows, has_before):
    ids = np.arange(100, 100 + length)
    batches = list(scoring_windows(ids, bpe, context, rows, before=99 if has_before else None))
    scored = [batch.output[batch.keys] for batch in batches]
    expected = ids if has_before else ids[1:]
    assert np.array_equal(np.concatenate([[], *scored]), expected)
    for batch in batches:
        assert batch.input.shape[1] <= context
        assert np.array_equal(batch.input[batch.keys] + 1, batch.output[batch.keys])


@pytest.mark.parametrize("context", [1, 3, 20])
def test_an_end_between_documents_is_read_and_not_scored(bpe, context):
    ids = np.array([10, 11, bpe.end, 12, 13, 14, bpe.end, 15])
    batches = list(scoring_windows(ids, bpe, context, rows=2, before=9))
    scored = np.concatenate([batch.output[batch.keys] for batch in batches])
    assert scored.tolist() == [10, 11, 12, 13, 14, 15]
    read = np.concatenate([row for batch in batches for row in batch.input])
    assert read[read != bpe.pad].tolist() == [9, 10, 11, bpe.end, 12, 13, 14, bpe.end]


def test_a_tokenizer_without_an_end_scores_every_token():
    ids = np.array([1, 2, 1, 0, 1])
    batches = scoring_windows(ids, SimpleNamespace(specials={}, pad=9), context=3, before=1)
    assert np.concatenate([batch.output[batch.keys] for batch in batches]).tolist() == ids.tolist()


def test_an_end_between_documents_is_never_masked(bpe):
    text = np.array([10, bpe.end, bpe.end, bpe.end, 11] * 10)
    for seed in range(20):
        batch = collate_masked([text], bpe, np.random.default_rng(seed))
        assert not (batch.output[batch.chosen] == bpe.end).any()


def test_scoring_holds_a_batch_and_not_the_text(bpe):
    ids = np.broadcast_to(np.uint16(7), 10**12)  # more than any memory, and none of it there
    first, second = islice(scoring_windows(ids, bpe, 8, 3, before=5), 2)
    assert first.input.tolist() == [[5, *[7] * 7], [7] * 8, [7] * 8]
    assert second.output.tolist() == [[7] * 8] * 3


@pytest.mark.parametrize(("batch_tokens", "seed"), [(0, 1), (10, -1)])
def test_impossible_settings_are_refused(bpe, batch_tokens, seed):
    data = Data({"text": random_sequences(5)})
    with pytest.raises(SettingError):
        masked_batches(data, bpe, batch_tokens=batch_tokens, seed=seed)
    with pytest.raises(SettingError):
        window_batches(data, bpe, context=2, batch_tokens=batch_tokens, seed=seed)


def test_neighbours_have_similar_lengths_on_both_sides():
    """From one length to the next, the difference of the sides goes on where it ended."""
    lengths = np.array([(source, target) for source in range(1, 9) for target in range(1, 9)]).T
    (batch,) = sample_by_length(lengths, 10_000, 1, 0)
    longer, difference = lengths.max(0)[batch], (lengths[0] - lengths[1])[batch]
    assert (np.diff(longer) >= 0).all()
    assert (np.abs(np.diff(difference))[np.diff(longer) > 0] <= 1).all()


def test_padding_is_under_eight_percent_on_real_captions(shared_data):
    folder = shared_data / "multi30k"
    corpus = ParallelText(folder / "train.en.gz", folder / "train.de.gz")
    tokenizer = Tokenizer.train((text for pair in corpus for text in pair), vocabulary=8000)
    data = encode_parallel(corpus, Tokenizers.joint(tokenizer), longest=128)
    source = parallel_batches(data, Tokenizers.joint(tokenizer), batch_tokens=4096)
    empty = sum((~batch.source_keys).sum() + (~batch.target_keys).sum() for batch in source)
    cells = sum(
        batch.source.size + batch.target_in.size
        for batch in parallel_batches(data, Tokenizers.joint(tokenizer), batch_tokens=4096)
    )
    assert empty / cells == pytest.approx(source.padding)
    assert source.padding < 0.08
