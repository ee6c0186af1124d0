"""Pairs learned both ways in the first epochs, and one way afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import SettingError
from regard.text.augment.bidirectional import both_ways
from regard.text.augment.bpe_dropout import respelled
from regard.text.batches import parallel_batches
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizer, Tokenizers

SOURCES = [f"the {animal} did not cross" for animal in ("cat", "very old cat", "dog")] * 30
ANIMALS = ("katze", "alte katze", "hund") * 30
TARGETS = [f"{animal} blieb hier {number}" for number, animal in enumerate(ANIMALS)]
PAIRS = list(zip(SOURCES, TARGETS, strict=True))
TURNED = [(target, source) for source, target in PAIRS]


@pytest.fixture(scope="module")
def words():
    return Tokenizers.joint(Tokenizer.learn([*SOURCES, *TARGETS], kind="bpe", vocabulary=300))


@pytest.fixture
def data(words):
    columns = {"source": SOURCES, "target": TARGETS}
    return Data(
        {name: Sequences.of([words.source.encode(text) for text in texts]) for name, texts in columns.items()}
    )


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_each_pair_comes_both_ways_at_first_and_one_way_then(data, words, share):
    spelled = respelled(data, share, words, 200, seed=5)
    batches = parallel_batches(both_ways(spelled, 2, words), words, tokens=256, seed=3)
    for expected in ([*PAIRS, *TURNED], [*PAIRS, *TURNED], PAIRS):
        found: list[tuple[str, str]] = []
        cells = real = 0
        for batch in batches:
            texts = [[words.source.decode(row) for row in side] for side in (batch.source, batch.target_out)]
            found += zip(*texts, strict=True)
            for keys in (batch.source_keys, batch.target_keys):
                assert keys.size <= 256
                cells, real = cells + keys.size, real + keys.sum()
        assert sorted(found) == sorted(expected)
        assert batches.padding == pytest.approx(1 - real / cells, abs=1e-9)


def test_no_epoch_leaves_the_data_as_it_is(data, words):
    assert both_ways(data, 0, words) is data


def test_lengths_are_those_of_the_texts(data, words):
    column = both_ways(respelled(data, 0.3, words, 200, seed=5), 1, words)["target"]
    for epoch, count in ((0, 2 * len(PAIRS)), (1, len(PAIRS))):
        texts = column.texts(np.arange(count), epoch)
        assert column.lengths_in(epoch).tolist() == [len(ids) for ids in texts]


@pytest.mark.parametrize("taken", [3, 40])
def test_it_is_the_same_after_going_on_from_the_middle(data, words, taken):
    def make():
        return parallel_batches(both_ways(data, 1, words), words, tokens=64, seed=3)

    straight, taken_up = make(), make()
    for _ in range(taken):
        straight.next()
    taken_up.restore(straight.state())
    a, b = straight.next(), taken_up.next()
    assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_a_run_of_other_epochs_is_another_order(data, words):
    identities = {both_ways(data, epochs, words).identity for epochs in (0, 1, 2)}
    assert len(identities) == 3


def test_a_vocabulary_for_each_side_is_refused(data, words):
    apart = Tokenizers(words.source, Tokenizer.learn(TARGETS, kind="word"))
    with pytest.raises(SettingError, match=r"set tokenizer\.joint to true, or leave both_ways at 0"):
        both_ways(data, 1, apart)
