"""The shared parts of lessons: time, memory, tasks and the demo's text."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.lessons.demo_text import demo_corpus, demo_text
from regard.lessons.experiment import alternate, peak_memory, ratios
from regard.lessons.head_functions import FUNCTIONS, draw_links
from regard.lessons.tasks import LookUp


def test_works_take_turns_and_the_first_round_is_not_counted():
    order: list[str] = []
    seconds = alternate({name: lambda name=name: order.append(name) for name in "ab"}, rounds=3)
    assert order == list("ab" * 4)
    assert [len(taken) for taken in seconds.values()] == [3, 3]
    assert ratios([1.0, 9.0, 6.0], [1.0, 3.0, 3.0]) == [1.0, 3.0, 2.0]


def test_peak_memory_is_the_most_at_one_time():
    def work() -> None:
        for _ in range(4):
            first = torch.ones(1 << 18)  # 1 MiB, freed before the next round
            first = first + 1
            del first

    assert peak_memory(work) == pytest.approx(2 << 20, rel=0.01)


def test_the_query_of_a_look_up_flips_bits_of_the_value():
    task = LookUp(keys=4, values=8, pairs=3, rows=50, flips=8)
    batch = task.draw(np.random.default_rng(1))
    query = batch.input[:, 0] - task.keys * task.values
    key, flip = np.divmod(query, task.flips)
    pairs = batch.input[:, 1:]
    value = pairs[pairs // task.values == key[:, None]] % task.values
    assert (batch.labels == value ^ flip).all()
    assert len(set(flip)) > 1


def test_held_out_sentences_are_not_in_the_training_text():
    text = demo_text()
    known = {tuple(ids) for ids in text.train}
    assert not known & {tuple(ids) for ids in text.held_out}
    batch = text.language_batch(text.train[:2])
    assert (batch.input[:, 1:][batch.keys[:, 1:]] == batch.output[:, :-1][batch.keys[:, 1:]]).all()


def test_links_lead_from_one_word_to_another():
    sentences, tokenizer = demo_corpus(), demo_text().tokenizer
    for function in FUNCTIONS:
        for text, query, key in draw_links(function, sentences, tokenizer, 5):
            words = [piece.text.strip().lower() for piece in tokenizer.tokens(text)]
            expected = {
                "previous word": query - key == 1,
                "same word": words[query] == words[key] and key < query,
                "adjective to noun": 0 < key - query <= 2,
                "it to noun": words[query] == "it" and words[key] not in ("it", "the"),
            }
            assert expected[function], (function, text)
