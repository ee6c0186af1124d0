"""Texts that came before: found again, and cheap to remember."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from regard.text.corpus import Filters, PlainText
from regard.text.duplicates import SeenTexts


@given(st.lists(st.tuples(st.text(max_size=3), st.text("ab", max_size=2)), max_size=200))
def test_it_is_a_set(pairs):
    seen, known = SeenTexts(), set()
    for pair in pairs:
        assert seen.add(*pair) == (pair not in known)
        known.add(pair)


def test_many_texts_are_all_known_again():
    seen = SeenTexts()
    assert all(seen.add(f"text {number}") for number in range(20_000))
    assert not any(seen.add(f"text {number}") for number in range(20_000))
    assert seen.add("text", "20000")


def test_dropping_duplicates_takes_at_most_16_bytes_a_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {number}\n" for number in range(60_000)), encoding="utf-8")
    corpus = iter(PlainText(path, Filters(drop_duplicates=True)))
    most = 0.0
    tracemalloc.start()
    try:
        for number, _ in enumerate(corpus, start=1):
            if number >= 20_000 and number % 500 == 0:
                most = max(most, tracemalloc.get_traced_memory()[1] / number)
                tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    assert most < 16  # the buffer of the file is among it
