"""Bidirectional training: exchanged pairs are added in the first epochs."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import SettingError
from regard.text.augment.bidirectional import Bidirectional
from regard.text.augment.bpe_dropout import BPEDropout
from regard.text.batches import parallel_batches
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizer, Tokenizers

SOURCES = [f"the {animal} did not cross" for animal in ("cat", "very old cat", "dog")] * 30
ANIMALS = ("katze", "alte katze", "hund") * 30
TARGETS = [f"{animal} blieb hier {number}" for number, animal in enumerate(ANIMALS)]
PAIRS = list(zip(SOURCES, TARGETS, strict=True))
EXCHANGED = [(target, source) for source, target in PAIRS]


@pytest.fixture(scope="module")
def words():
    return Tokenizers.joint(Tokenizer.train([*SOURCES, *TARGETS], kind="bpe", vocabulary=300))


@pytest.fixture
def data(words):
    columns = {"source": SOURCES, "target": TARGETS}
    return Data(
        {name: Sequences.of([words.source.encode(text) for text in texts]) for name, texts in columns.items()}
    )


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_exchanged_pairs_are_added_in_the_first_epochs(data, words, rate):
    augmentations = [BPEDropout(rate, words, 200, seed=5), Bidirectional(2, words)]
    batches = parallel_batches(data, words, batch_tokens=256, seed=3).augmented(augmentations)
    for expected in ([*PAIRS, *EXCHANGED], [*PAIRS, *EXCHANGED], PAIRS):
        pairs: list[tuple[str, str]] = []
        cells = real = 0
        for batch in batches:
            texts = [[words.source.decode(row) for row in side] for side in (batch.source, batch.target_out)]
            pairs += zip(*texts, strict=True)
            for keys in (batch.source_keys, batch.target_keys):
                assert keys.size <= 256
                cells, real = cells + keys.size, real + keys.sum()
        assert sorted(pairs) == sorted(expected)
        assert batches.padding == pytest.approx(1 - real / cells, abs=1e-9)


def test_0_epochs_return_the_data(data, words):
    assert Bidirectional(0, words).augment_data(data) is data


def test_lengths_are_those_of_the_texts(data, words):
    split = BPEDropout(0.3, words, 200, seed=5).augment_data(data)
    column = Bidirectional(1, words).augment_data(split)["target"]
    for epoch, count in ((0, 2 * len(PAIRS)), (1, len(PAIRS))):
        texts = column.take(np.arange(count), epoch)
        assert column.lengths_in(epoch).tolist() == [len(ids) for ids in texts]


@pytest.mark.parametrize("taken", [3, 40])
def test_it_resumes_with_the_same_batch(data, words, taken):
    def make():
        return parallel_batches(data, words, batch_tokens=64, seed=3).augmented([Bidirectional(1, words)])

    straight, resumed = make(), make()
    for _ in range(taken):
        straight.next()
    resumed.restore(straight.state())
    a, b = straight.next(), resumed.next()
    assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_other_epochs_have_another_identity(data, words):
    identities = {Bidirectional(epochs, words).augment_data(data).identity for epochs in (0, 1, 2)}
    assert len(identities) == 3


def test_separate_vocabularies_are_refused(data, words):
    apart = Tokenizers(words.source, Tokenizer.train(TARGETS, kind="word"))
    with pytest.raises(SettingError, match=r"set tokenizer\.joint to true, or bidirectional_epochs to 0"):
        Bidirectional(1, apart).augment_data(data)
