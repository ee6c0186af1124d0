"""Rows pulled by hand: put where they belong, refused where they do not fit, and written with."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import RegardError
from regard.inspection.analysis.interventions import Pull, check_pull, patches, write_pulled
from regard.inspection.record.inspection import inspect

from ..conftest import look, subject


def one_hot(keys: int, key: int) -> tuple[float, ...]:
    return tuple(float(number == key) for number in range(keys))


def test_each_row_is_put_in_its_place(words):
    whole = look(words)
    keys = len(whole.source)
    pulls = [
        Pull("encoder", 1, 2, 7, one_hot(keys, 1)),
        Pull("encoder", 1, 3, 7, one_hot(keys, 2)),
        Pull("cross", 0, 0, 4, one_hot(keys, 5)),
    ]
    seen = look(words, patch=patches(pulls))
    for pull in pulls:
        row = seen.attention(pull.kind, pull.layer, pull.head)[pull.query]
        assert row.tolist() == list(pull.row)
    same = seen.attention("encoder", 1)
    same[2:4, 7] = whole.attention("encoder", 1)[2:4, 7]
    assert np.allclose(same, whole.attention("encoder", 1), atol=1e-6)
    assert not np.allclose(seen.logits, whole.logits, atol=1e-4)


def test_a_decoders_row_fits_outputs_of_other_lengths():
    put = patches([Pull("decoder", 0, 0, 2, (0.25, 0.5, 0.25, 0.0, 0.0))])["decoder.0.attention.weights"]
    for length in (3, 5, 8):
        row = put(torch.ones(1, 2, length, length))[0, 0, 2].tolist()
        assert row == [0.25, 0.5, 0.25, *[0.0] * (length - 3)]
    assert put(torch.ones(1, 2, 2, 2)).sum() == 8  # the output ends before that row


@pytest.mark.parametrize(
    ("pull", "complaint"),
    [
        (Pull("middle", 0, 0, 0, (1.0,)), "unknown kind of attention 'middle'"),
        (Pull("encoder", 2, 0, 0, one_hot(5, 0)), "no layer 2 of encoder attention; there are 2"),
        (Pull("cross", 0, 4, 0, one_hot(5, 0)), "no head 4 of cross attention; there are 4"),
        (Pull("encoder", 0, 0, 5, one_hot(5, 0)), "no query 5; the source has 5 tokens"),
        (Pull("encoder", 0, 0, 0, one_hot(4, 0)), "a pulled row of 4 numbers; this one has 5 keys"),
        (Pull("encoder", 0, 0, 0, (0.5, 0.4, 0, 0, 0)), "a pulled row sums to 0.9"),
        (Pull("encoder", 0, 0, 0, (1.5, -0.5, 0, 0, 0)), "weights of 0 or more"),
    ],
)
def test_what_does_not_fit_is_refused(words, pull, complaint):
    with pytest.raises(RegardError) as refused:
        check_pull(subject(words).model, pull, 5)
    assert complaint in str(refused.value)


def test_a_decoder_cannot_be_pulled_to_what_is_not_written_yet(words):
    model = subject(words).model
    check_pull(model, Pull("decoder", 0, 0, 1, (0.5, 0.5, 0.0)))
    with pytest.raises(RegardError, match="looks at later words"):
        check_pull(model, Pull("decoder", 0, 0, 1, (0.5, 0.4, 0.1)))


def write(translator, text, off=(), pulls=()):
    tokenizer = translator.tokenizers.source
    source = [*tokenizer.encode(text), tokenizer.end]
    return write_pulled(
        translator.model, source, tokenizer.start, tokenizer.end, 30, off, patches(pulls)
    )  # fmt: skip


@pytest.mark.parametrize("off", [(), [("cross", 0, 1), "scaling"]])
def test_without_a_pull_it_is_the_greedy_translation(translator, toy_pairs, off):
    for text, _ in toy_pairs(5, 9):
        ids = translator.translate(text, beams=1, max_length=30, off=off).tokens.ids.tolist()
        assert write(translator, text, off) == [n for n in ids if n != translator.tokenizers.target.end]


def test_what_is_written_with_a_pull_is_what_the_pulled_pass_finds_likeliest(translator, toy_pairs):
    text = toy_pairs(1, 4)[0][0]
    keys = len(translator.tokenizers.source.encode(text)) + 1
    pulls = [
        Pull("encoder", 0, head, query, one_hot(keys, 0)) for head in range(4) for query in range(keys)
    ] + [Pull("cross", 1, head, 3, one_hot(keys, keys - 1)) for head in range(4)]
    ids = write(translator, text, pulls=pulls)
    assert ids != write(translator, text)
    written = translator.tokenizers.target.decode(ids)
    seen = inspect(translator, text, written, patch=patches(pulls))
    assert seen.written.ids.tolist()[1:] == ids
    assert seen.logits.argmax(-1).tolist()[: len(ids)] == ids
