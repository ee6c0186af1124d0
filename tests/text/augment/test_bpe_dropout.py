"""BPE dropout: tokens are split into the tokens they were merged from, others in every epoch."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import SettingError
from regard.text.augment.bpe_dropout import BPEDropout, merged_parts
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
def split(data, bpe):
    """Makes the data with BPE dropout."""

    def of(rate=0.3, longest=500, seed=7, epochs=0):
        return BPEDropout(rate, Tokenizers.joint(bpe), longest, seed, epochs).augment_data(data)

    return of


def all_ids(column, epoch=0):
    return column.take(np.arange(len(column)), epoch)


def test_the_parts_of_a_token_spell_it(bpe):
    parts = merged_parts(bpe)
    merged = np.flatnonzero(parts[:, 0] >= 0)
    assert len(merged) > 20
    assert all(bpe.decode([number]) == bpe.decode(parts[number]) for number in merged)


def test_the_text_stays_and_has_more_tokens_at_higher_rates(split, bpe):
    counts = []
    for rate in (0.0, 0.1, 0.5, 0.99):
        texts = all_ids(split(rate)["source"])
        assert [bpe.decode(ids) for ids in texts] == [bpe.decode(bpe.encode(text)) for text in TEXTS]
        counts.append(sum(map(len, texts)))
    assert counts[0] == sum(len(bpe.encode(text)) for text in TEXTS)
    assert counts == sorted(set(counts))


def test_a_rate_of_0_returns_the_data(split, data):
    assert split(0.0) is data


def test_tokens_are_split_at_the_rate(bpe):
    token = int(np.flatnonzero(merged_parts(bpe)[:, 0] >= 0)[-1])
    same = Data({"text": Sequences.of([[token]] * 4000)})
    split = BPEDropout(0.2, Tokenizers.joint(bpe), 50, seed=1).augment_data(same)
    assert np.mean(split["text"].lengths_in(0) > 1) == pytest.approx(0.2, abs=0.03)


def test_lengths_are_those_of_the_texts(split):
    column = split()["target"]
    for epoch in (0, 3):
        assert column.lengths_in(epoch).tolist() == [len(ids) for ids in all_ids(column, epoch)]


def test_an_example_is_split_alike_in_any_batch(split):
    column = split()["source"]
    together = all_ids(column, 2)
    for few in ([5], [30, 2, 17]):
        for index, ids in zip(few, column.take(np.array(few), 2), strict=True):
            assert np.array_equal(ids, together[index])


def test_epochs_sides_and_seeds_differ(split):
    once = split()
    lengths = [
        split()["source"].lengths_in(0),
        once["source"].lengths_in(1),
        once["target"].lengths_in(0),
        split(seed=8)["source"].lengths_in(0),
    ]
    assert np.array_equal(lengths[0], once["source"].lengths_in(0))
    assert len({tuple(array) for array in lengths}) == 4


def test_after_the_first_epochs_no_token_is_split(split, data):
    unsplit, always, column = data["source"], split()["source"], split(epochs=2)["source"]
    for epoch, expected in ((0, always), (1, always), (2, unsplit), (9, unsplit)):
        assert np.array_equal(column.lengths_in(epoch), expected.lengths_in(epoch))
        for ids, others in zip(all_ids(column, epoch), all_ids(expected, epoch), strict=True):
            assert np.array_equal(ids, others)
    assert split(epochs=2).identity != split().identity


def test_a_text_that_would_be_too_long_stays_unsplit(split, data):
    longest = int(data["source"].lengths.max())
    column = split(0.5, longest)["source"]
    for ids, unsplit in zip(all_ids(column), all_ids(data["source"]), strict=True):
        assert len(ids) < longest or np.array_equal(ids, unsplit)
    assert (column.lengths_in(0) > data["source"].lengths).any()


def test_batches_are_sampled_by_the_split_lengths(split, bpe):
    both = Tokenizers.joint(bpe)
    batches = parallel_batches(split(), both, batch_tokens=512, seed=3)
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
    data = BPEDropout(0.4, Tokenizers.joint(bpe), 500, seed=1).augment_data(Data(columns))
    expected = {(bpe.decode(bpe.encode(text)), label) for text, label in zip(TEXTS, labels, strict=True)}
    labelled = set()
    for batch in labelled_batches(data, bpe, batch_tokens=256):
        labelled |= {(bpe.decode(row), label) for row, label in zip(batch.input, batch.labels, strict=True)}
    assert labelled == expected


def test_it_resumes_with_the_same_draws(split, bpe):
    def make():
        return parallel_batches(split(), Tokenizers.joint(bpe), batch_tokens=256, seed=3)

    straight, resumed = make(), make()
    for _ in range(3):
        straight.next()
    resumed.restore(straight.state())
    a, b = straight.next(), resumed.next()
    assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_a_tokenizer_without_merges_is_refused(data):
    words = Tokenizers.joint(Tokenizer.train(TEXTS, kind="word"))
    with pytest.raises(SettingError, match=r"set tokenizer\.kind to bpe, or bpe_dropout to 0"):
        BPEDropout(0.1, words, 100, 1).augment_data(data)
