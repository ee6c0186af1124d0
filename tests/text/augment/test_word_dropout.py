"""Word dropout: a share of what is read is masked, other tokens each epoch, the same ones each time."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import SettingError
from regard.text.augment.word_dropout import hiding
from regard.text.batches import labelled_batches, masked_batches, parallel_batches, window_batches
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizers

READ = {"parallel": ("source", "target_in"), "labelled": ("input",), "window": ("input",)}


def some(count, seed, longest=30):
    random = np.random.default_rng(seed)
    return Sequences.of([random.integers(5, 60, random.integers(1, longest)).tolist() for _ in range(count)])


@pytest.fixture
def make(bpe):
    """A maker of batches of each kind, with a share hidden."""
    pairs = Data({"source": some(400, 1), "target": some(400, 2)})
    labelled = Data({"text": some(400, 3), "label": Sequences.of([[i % 3] for i in range(400)])})
    both = Tokenizers.joint(bpe)

    def of(kind, share=0.2, seed=7):
        made = {
            "parallel": lambda: parallel_batches(pairs, both, tokens=512, seed=seed),
            "labelled": lambda: labelled_batches(labelled, bpe, tokens=512, seed=seed),
            "masked": lambda: masked_batches(labelled, bpe, tokens=512, seed=seed),
            "window": lambda: window_batches(labelled, bpe, context=16, tokens=512, seed=seed),
        }[kind]()
        return hiding(made, share, both, seed)

    return of


def changed(make, kind):
    """Of one epoch, what was read and what would have been, beside each other."""
    hidden, whole = list(make(kind)), list(make(kind, share=0))
    return [
        (getattr(a, name), getattr(b, name))
        for a, b in zip(hidden, whole, strict=True)
        for name in vars(a)
        if name in READ[kind]
    ]


@pytest.mark.parametrize("kind", READ)
def test_about_that_share_of_ordinary_tokens_is_masked(make, kind, bpe):
    masked = ordinary = 0
    for hidden, whole in changed(make, kind):
        other = hidden != whole
        assert (hidden[other] == bpe.mask).all()
        special = np.isin(whole, list(bpe.specials.values()))
        assert not (other & special).any()
        masked, ordinary = masked + other.sum(), ordinary + (~special).sum()
    assert masked / ordinary == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("kind", READ)
def test_what_is_scored_stays(make, kind):
    for hidden, whole in zip(make(kind), make(kind, share=0), strict=True):
        for name, array in vars(hidden).items():
            assert name in READ[kind] or np.array_equal(array, getattr(whole, name))


@pytest.mark.parametrize("kind", READ)
def test_it_is_the_same_after_going_on_from_the_middle(make, kind):
    straight, taken_up = make(kind), make(kind)
    for _ in range(3):
        straight.next()
    taken_up.restore(straight.state())
    a, b = straight.next(), taken_up.next()
    assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_other_tokens_are_hidden_in_another_epoch_and_with_another_seed(make):
    def share_of_masks(batches):
        return [float((batch.source == 4).mean()) for batch in batches]

    batches = make("parallel")
    first, second = share_of_masks(batches), share_of_masks(batches)
    assert first != second
    assert share_of_masks(make("parallel", seed=8)) != first


@pytest.mark.parametrize("kind", [*READ, "masked"])
def test_other_places_are_hidden_at_every_step_of_every_epoch(kind, bpe):
    """Texts of one length make batches of one shape, in which equal draws would hide equal places."""
    random = np.random.default_rng(3)
    texts = Sequences.of([random.integers(5, 60, 12).tolist() for _ in range(64)])
    both, pairs = Tokenizers.joint(bpe), Data({"source": texts, "target": texts})
    labelled = Data({"text": texts, "label": Sequences.of([[i % 3] for i in range(64)])})
    batches = {
        "parallel": lambda: parallel_batches(pairs, both, tokens=128, seed=7),
        "labelled": lambda: labelled_batches(labelled, bpe, tokens=128, seed=7),
        "masked": lambda: masked_batches(labelled, bpe, tokens=128, seed=7),
        "window": lambda: window_batches(labelled, bpe, context=12, tokens=128, seed=7),
    }[kind]()
    batches = batches if kind == "masked" else hiding(batches, 0.2, both, 7)
    places = []
    for _ in range(3):
        for batch in batches:
            hidden = [getattr(batch, name) == bpe.mask for name in READ.get(kind, ())]
            places.append([batch.chosen] if kind == "masked" else hidden)
    for array in zip(*places, strict=True):
        assert len(array) >= 12
        assert len({each.tobytes() for each in array}) == len(array)


def test_gaps_are_not_hidden_again(make):
    with pytest.raises(SettingError, match="nothing to hide in a MaskedBatch"):
        make("masked").next()
