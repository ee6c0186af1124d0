"""Windows and batches: order, budget, and what happens to what came before a failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, ShapeError
from regard.inference.windows import Job, batches


def job(window=4, budget=10, seen=None, size=lambda item: 1 + ord(item) % 3):
    """Doubles each text, a character an item; "bad" cannot be read."""

    def read(label, text, ids):
        if text == "bad":
            raise ShapeError(f"{label} is bad")
        return list(text)

    def answer(items):
        if seen is not None:
            seen.append(len(items))
        return [item * 2 for item in items]

    def join(text, items, found):
        assert list(text) == items
        return "".join(found)

    return Job(lambda texts: [[] for _ in texts], read, size, answer, join, budget, window)


@given(st.lists(st.text("xyz", max_size=5), max_size=30), st.integers(1, 9), st.integers(1, 40))
def test_every_text_has_its_answer_in_order(texts, window, budget):
    expected = ["".join(sign * 2 for sign in text) for text in texts]
    assert job(window, budget).run(texts) == expected
    assert list(job(window, budget).run(iter(texts))) == expected
    assert [job(window, budget).run(text) for text in texts] == expected


@given(st.lists(st.integers(0, 30), max_size=50), st.integers(1, 100))
def test_batches_hold_every_place_once_and_keep_the_budget(sizes, budget):
    found = list(batches(sizes, budget))
    assert sorted(place for batch in found for place in batch) == list(range(len(sizes)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(sizes[place] for place in batch) <= budget


def test_what_came_before_a_failure_is_answered():
    stream = job().run(iter(["a", "b", "c", "d", "e", "bad", "f"]))
    assert [next(stream) for _ in range(5)] == ["aa", "bb", "cc", "dd", "ee"]
    with pytest.raises(ShapeError, match="text number 6 is bad"):
        next(stream)
    with pytest.raises(ShapeError, match="the text is bad"):
        job().run("bad")


def test_a_source_that_fails_has_its_lines_answered():
    def lines():
        yield "a"
        yield "b"
        raise DataError("line 3 cannot be read")

    stream = job().run(lines())
    assert [next(stream), next(stream)] == ["aa", "bb"]
    with pytest.raises(DataError, match="line 3"):
        next(stream)


def test_items_share_batches_up_to_the_budget():
    seen = []
    job(window=4, budget=10, seen=seen, size=lambda item: 1).run(["abcdef", "ab", "abc", "a", "abc"])
    assert seen == [10, 2, 3]
