"""Tokens broken into those they were merged from: the text stays, other tokens break in every epoch."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import SettingError
from regard.text.augment.bpe_dropout import halves_of, respelled
from regard.text.batches import labelled_batches, parallel_batches
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizer, Tokenizers

TEXTS = [
    f"the {size} animal did not cross the {way} {again}"
    for size in ("small", "tired", "very large")
    for way in ("street", "bridge")
    for again in ("again", "again and again and again", "")
] * 20


@pytest.fixture
def data(bpe):
    ids = Sequences.of([bpe.encode(text) for text in TEXTS])
    return Data({"source": ids, "target": ids})


@pytest.fixture
def broken(data, bpe):
    """The data with a share of its tokens broken up."""

    def of(share=0.3, longest=500, seed=7, epochs=0):
        return respelled(data, share, Tokenizers.joint(bpe), longest, seed, epochs)

    return of


def every(column, epoch=0):
    return column.texts(np.arange(len(column)), epoch)


def test_the_halves_of_a_token_spell_it(bpe):
    halves = halves_of(bpe)
    merged = np.flatnonzero(halves[:, 0] >= 0)
    assert len(merged) > 20
    assert all(bpe.decode([number]) == bpe.decode(halves[number]) for number in merged)


def test_the_text_stays_and_has_more_tokens_the_larger_the_share(broken, bpe):
    counts = []
    for share in (0.0, 0.1, 0.5, 0.99):
        texts = every(broken(share)["source"])
        assert [bpe.decode(ids) for ids in texts] == [bpe.decode(bpe.encode(text)) for text in TEXTS]
        counts.append(sum(map(len, texts)))
    assert counts[0] == sum(len(bpe.encode(text)) for text in TEXTS)
    assert counts == sorted(set(counts))


def test_nothing_is_wrapped_where_nothing_breaks(broken, data):
    assert broken(0.0) is data


def test_about_that_share_breaks_at_first(bpe):
    token = int(np.flatnonzero(halves_of(bpe)[:, 0] >= 0)[-1])
    same = Data({"text": Sequences.of([[token]] * 4000)})
    found = respelled(same, 0.2, Tokenizers.joint(bpe), 50, seed=1)["text"].lengths_in(0)
    assert np.mean(found > 1) == pytest.approx(0.2, abs=0.03)


def test_lengths_are_those_of_the_texts(broken):
    column = broken()["target"]
    for epoch in (0, 3):
        assert column.lengths_in(epoch).tolist() == [len(ids) for ids in every(column, epoch)]


def test_an_example_is_spelled_alike_whatever_stands_beside_it(broken):
    column = broken()["source"]
    together = every(column, 2)
    for few in ([5], [30, 2, 17]):
        for index, ids in zip(few, column.texts(np.array(few), 2), strict=True):
            assert np.array_equal(ids, together[index])


def test_epochs_sides_and_seeds_differ(broken):
    once = broken()
    lengths = [
        broken()["source"].lengths_in(0),
        once["source"].lengths_in(1),
        once["target"].lengths_in(0),
        broken(seed=8)["source"].lengths_in(0),
    ]
    assert np.array_equal(lengths[0], once["source"].lengths_in(0))
    assert len({tuple(found) for found in lengths}) == 4


def test_after_the_last_respelled_epoch_texts_are_whole(broken, data):
    whole, always, column = data["source"], broken()["source"], broken(epochs=2)["source"]
    for epoch, expected in ((0, always), (1, always), (2, whole), (9, whole)):
        assert np.array_equal(column.lengths_in(epoch), expected.lengths_in(epoch))
        for ids, others in zip(every(column, epoch), every(expected, epoch), strict=True):
            assert np.array_equal(ids, others)
    assert broken(epochs=2).identity != broken().identity


def test_a_text_that_would_grow_too_long_stays(broken, data):
    longest = int(data["source"].lengths.max())
    column = broken(0.5, longest)["source"]
    for ids, whole in zip(every(column), every(data["source"]), strict=True):
        assert len(ids) < longest or np.array_equal(ids, whole)
    assert (column.lengths_in(0) > data["source"].lengths).any()


def test_batches_are_cut_by_the_lengths_they_have(broken, bpe):
    both = Tokenizers.joint(bpe)
    batches = parallel_batches(broken(), both, tokens=512, seed=3)
    for epoch in (0, 1):
        seen: list[str] = []
        cells = real = 0
        for batch in batches:
            seen += [bpe.decode(row) for row in batch.source]
            assert seen[-batch.rows :] == [bpe.decode(row) for row in batch.target_out]
            for keys in (batch.source_keys, batch.target_keys):
                assert keys.size <= 512
                cells, real = cells + keys.size, real + keys.sum()
        assert sorted(seen) == sorted(bpe.decode(bpe.encode(text)) for text in TEXTS)
        assert batches.padding == pytest.approx(1 - real / cells, abs=1e-9)
        assert batches.epoch == epoch


def test_labels_stay_with_their_texts(bpe):
    labels = [len(text) % 3 for text in TEXTS]
    columns = {
        "text": Sequences.of([bpe.encode(text) for text in TEXTS]),
        "label": Sequences.of([[n] for n in labels]),
    }
    data = respelled(Data(columns), 0.4, Tokenizers.joint(bpe), 500, seed=1)
    expected = {(bpe.decode(bpe.encode(text)), label) for text, label in zip(TEXTS, labels, strict=True)}
    found = set()
    for batch in labelled_batches(data, bpe, tokens=256):
        found |= {(bpe.decode(row), label) for row, label in zip(batch.input, batch.labels, strict=True)}
    assert found == expected


def test_it_is_the_same_after_going_on_from_the_middle(broken, bpe):
    def make():
        return parallel_batches(broken(), Tokenizers.joint(bpe), tokens=256, seed=3)

    straight, taken_up = make(), make()
    for _ in range(3):
        straight.next()
    taken_up.restore(straight.state())
    a, b = straight.next(), taken_up.next()
    assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_a_tokenizer_without_merges_is_refused(data):
    words = Tokenizers.joint(Tokenizer.learn(TEXTS, kind="word"))
    with pytest.raises(SettingError, match="merges nothing; take kind bpe, or leave it at 0"):
        respelled(data, 0.1, words, 100, 1)
