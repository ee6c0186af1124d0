"""Word dropout: input tokens are masked at a given rate, reproducibly, other tokens in every epoch."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import SettingError
from regard.text.augment.word_dropout import WordDropout
from regard.text.batches import labelled_batches, masked_batches, parallel_batches, window_batches
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizers

INPUTS = {"parallel": ("source", "target_in"), "labelled": ("input",), "window": ("input",)}


def random_sequences(count, seed, longest=30):
    random = np.random.default_rng(seed)
    return Sequences.of([random.integers(5, 60, random.integers(1, longest)).tolist() for _ in range(count)])


@pytest.fixture
def make(bpe):
    """Makes batches of each kind with word dropout."""
    pairs = Data({"source": random_sequences(400, 1), "target": random_sequences(400, 2)})
    labelled = Data({"text": random_sequences(400, 3), "label": Sequences.of([[i % 3] for i in range(400)])})
    both = Tokenizers.joint(bpe)

    def of(kind, rate=0.2, seed=7):
        batches = {
            "parallel": lambda: parallel_batches(pairs, both, batch_tokens=512, seed=seed),
            "labelled": lambda: labelled_batches(labelled, bpe, batch_tokens=512, seed=seed),
            "masked": lambda: masked_batches(labelled, bpe, batch_tokens=512, seed=seed),
            "window": lambda: window_batches(labelled, bpe, context=16, batch_tokens=512, seed=seed),
        }[kind]()
        return batches.augmented([WordDropout(rate, both, seed)])

    return of


def changed(make, kind):
    """The input arrays of one epoch, with and without word dropout."""
    dropped, unchanged = list(make(kind)), list(make(kind, rate=0))
    return [
        (getattr(a, name), getattr(b, name))
        for a, b in zip(dropped, unchanged, strict=True)
        for name in vars(a)
        if name in INPUTS[kind]
    ]


@pytest.mark.parametrize("kind", INPUTS)
def test_ordinary_tokens_are_masked_at_the_rate(make, kind, bpe):
    masked = ordinary = 0
    for dropped, unchanged in changed(make, kind):
        differs = dropped != unchanged
        assert (dropped[differs] == bpe.mask).all()
        special = np.isin(unchanged, list(bpe.specials.values()))
        assert not (differs & special).any()
        masked, ordinary = masked + differs.sum(), ordinary + (~special).sum()
    assert masked / ordinary == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("kind", INPUTS)
def test_the_tokens_to_predict_do_not_change(make, kind):
    for dropped, unchanged in zip(make(kind), make(kind, rate=0), strict=True):
        for name, array in vars(dropped).items():
            assert name in INPUTS[kind] or np.array_equal(array, getattr(unchanged, name))


@pytest.mark.parametrize("kind", INPUTS)
def test_it_resumes_with_the_same_draws(make, kind):
    straight, resumed = make(kind), make(kind)
    for _ in range(3):
        straight.next()
    resumed.restore(straight.state())
    a, b = straight.next(), resumed.next()
    assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_epoch_and_seed_change_the_masked_tokens(make):
    def mask_rates(batches):
        return [float((batch.source == 4).mean()) for batch in batches]

    batches = make("parallel")
    first, second = mask_rates(batches), mask_rates(batches)
    assert first != second
    assert mask_rates(make("parallel", seed=8)) != first


@pytest.mark.parametrize("kind", [*INPUTS, "masked"])
def test_every_batch_of_every_epoch_masks_other_positions(kind, bpe):
    """Texts of one length make batches of one shape, in which equal draws would mask equal positions."""
    random = np.random.default_rng(3)
    texts = Sequences.of([random.integers(5, 60, 12).tolist() for _ in range(64)])
    both, pairs = Tokenizers.joint(bpe), Data({"source": texts, "target": texts})
    labelled = Data({"text": texts, "label": Sequences.of([[i % 3] for i in range(64)])})
    batches = {
        "parallel": lambda: parallel_batches(pairs, both, batch_tokens=128, seed=7),
        "labelled": lambda: labelled_batches(labelled, bpe, batch_tokens=128, seed=7),
        "masked": lambda: masked_batches(labelled, bpe, batch_tokens=128, seed=7),
        "window": lambda: window_batches(labelled, bpe, context=12, batch_tokens=128, seed=7),
    }[kind]()
    batches = batches if kind == "masked" else batches.augmented([WordDropout(0.2, both, 7)])
    positions = []
    for _ in range(3):
        for batch in batches:
            masked = [getattr(batch, name) == bpe.mask for name in INPUTS.get(kind, ())]
            positions.append([batch.chosen] if kind == "masked" else masked)
    for arrays in zip(*positions, strict=True):
        assert len(arrays) >= 12
        assert len({array.tobytes() for array in arrays}) == len(arrays)


def test_a_masked_batch_is_refused(make):
    with pytest.raises(SettingError, match="does not apply to a MaskedBatch; set word_dropout to 0"):
        make("masked").next()
