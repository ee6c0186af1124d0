"""The validation split: deterministic, disjoint, never larger than asked for, stratified by label."""

from __future__ import annotations

import json
import random
from collections import Counter
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.text.corpus import Example, Pair, PlainText
from regard.text.splitting import SplitPart, ValidationSplit

texts = st.lists(st.text(max_size=3), max_size=60).filter(lambda items: len(set(items)) > 1)
labelled = st.lists(st.builds(Example, st.sampled_from("abcdefgh"), st.sampled_from("xyz")), max_size=60)


def hash_of(seed, text):
    return int.from_bytes(blake2b(f"{seed}\0{text}".encode(), digest_size=8).digest(), "big")


def split(items, **settings):
    """Both sides, training first; nothing where the split is refused."""
    try:
        split = ValidationSplit.choose(items, **settings)
    except DataError:
        return None
    return [item for item in items if not split.holds(item)], [item for item in items if split.holds(item)]


@given(texts, st.floats(0.01, 0.9), st.integers(1, 50), st.integers(0, 5))
def test_no_text_is_on_both_sides_and_no_limit_is_exceeded(items, share, most, seed):
    sides = split(items, share=share, most=most, seed=seed)
    copies = Counter(items)
    below = {text for text in copies if hash_of(seed, text) < share * 2**64}
    room = min(most, len(items) // 2)
    if sides is None:
        assert sum(copies[text] for text in below) > len(items) / 2 or min(copies.values()) > room
        return
    train, valid = sides
    assert not set(train) & set(valid)
    assert 1 <= len(valid) <= most
    assert len(train) >= len(valid)
    if sum(copies[text] for text in below) in range(1, room + 1):
        assert set(valid) == below
    elif len(set(items)) == len(items) and len(below) > most:
        assert len(valid) == most  # the cap is reached where nothing has copies


@given(labelled, st.floats(0.01, 0.6), st.integers(1, 50))
def test_every_label_keeps_a_training_example(items, share, most):
    if len({item.text for item in items}) < 2:
        return
    sides = split(items, share=share, most=most)
    if sides is not None:
        train, valid = sides
        assert {item.label for item in train} == {item.label for item in items}
        assert not {item.text for item in train} & {item.text for item in valid}
        assert 1 <= len(valid) <= min(most, len(train))


@pytest.mark.parametrize(
    ("texts", "copies", "share", "most", "low", "high"),
    [
        (100, 20, 0.05, 1000, 40, 200),  # a share of the texts, not as many texts as a share of the examples
        (1000, 100, 0.05, 1000, 1000, 1000),
        (1000, 101, 0.05, 1000, 909, 909),
        (50, 7, 0.1, 3000, 7, 100),
        (5000, 1, 0.05, 1000, 200, 300),
        (5000, 1, 0.5, 1000, 1000, 1000),
        (40, 1, 0.001, 1000, 1, 1),  # one at least
    ],
)
@pytest.mark.parametrize("kind", [lambda text, n: Pair(text, str(n)), lambda text, n: text])
def test_copies_count_as_examples(kind, texts, copies, share, most, low, high):
    items = [kind(f"source {text}", number) for number in range(copies) for text in range(texts)]
    sides = split(items, share=share, most=most)
    assert sides is not None
    assert low <= len(sides[1]) <= high


def test_a_text_with_too_many_copies_stays_in_training():
    singles = [f"line {number}" for number in range(400)]
    for common in ("yes", "no", "well", "oh"):
        train, valid = split([*singles, *[common] * 300], share=0.9, most=100) or ([], [])
        assert (len(train), len(valid)) == (600, 100)
        assert common in train


@pytest.mark.parametrize("share", [0.6, 0.9, 0.99])
@pytest.mark.parametrize("kind", [lambda n: f"line {n}", lambda n: Example(f"line {n}", str(n % 3))])
def test_a_split_that_leaves_less_for_training_is_refused(kind, share):
    with pytest.raises(DataError, match=r"validation_split \(0\.\d+\) takes .* of 500 examples"):
        ValidationSplit.choose([kind(number) for number in range(500)], share=share)


def test_what_has_too_many_copies_for_the_limit_cannot_be_held_out():
    with pytest.raises(DataError, match=r"no text of 90 examples .*max_validation_examples \(20\)"):
        ValidationSplit.choose([f"line {number % 3}" for number in range(90)], most=20)


def test_labels_are_held_out_in_proportion():
    counts = {"common": 900, "rare": 60, "rarer": 40, "two": 2, "one": 1}
    items = [Example(f"{label} {n}", label) for label, count in counts.items() for n in range(count)]
    train, valid = split(items, share=0.1) or ([], [])
    counts_chosen = Counter(item.label for item in valid)
    assert (counts_chosen["common"], counts_chosen["rare"], counts_chosen["rarer"]) == (90, 6, 4)
    assert Counter(item.label for item in train)["one"] == 1
    assert len(valid) == round(0.1 * len(items))


def test_labels_are_held_out_in_proportion_under_the_limit():
    items = [Example(f"text {n}", "rare" if n % 11 == 0 else "common") for n in range(2200)]
    _, valid = split(items, share=0.05, most=22) or ([], [])
    assert Counter(item.label for item in valid) == {"common": 20, "rare": 2}


def test_the_only_text_of_a_label_is_never_held_out():
    for seed in range(20):
        items = [Example(f"text {n}", "ab"[n % 2]) for n in range(30)]
        items += [Example("shared", "a"), Example("shared", "only"), *[Example("copied", "copies")] * 3]
        train, _ = split(items, share=0.3, seed=seed) or ([], [])
        assert {"only", "copies"} <= {item.label for item in train}


def test_the_source_alone_decides():
    pairs = [Pair(f"s{i % 50}", f"t{i}") for i in range(200)]
    split = ValidationSplit.choose(pairs, share=0.1)
    sides = {source: {split.holds(pair) for pair in pairs if pair.source == source} for source, _ in pairs}
    assert all(len(side) == 1 for side in sides.values())


@pytest.mark.parametrize("kind", [lambda n: f"line {n % 700}", lambda n: Example(f"line {n}", str(n % 7))])
def test_the_seed_decides_and_the_order_does_not(kind):
    items = [kind(number) for number in range(1000)]
    split = ValidationSplit.choose(items, share=0.1, most=60, seed=3)
    shuffled = random.Random(1).sample(items, len(items))
    assert split == ValidationSplit.choose(shuffled, share=0.1, most=60, seed=3)
    assert split.identity() == ValidationSplit.choose(shuffled, share=0.1, most=60, seed=3).identity()
    other = ValidationSplit.choose(items, share=0.1, most=60, seed=4)
    assert split.identity() != other.identity()
    assert {i for i in items if split.holds(i)} != {i for i in items if other.holds(i)}


def test_a_split_can_be_saved():
    split = ValidationSplit.choose([f"line {number}" for number in range(100)], share=0.2)
    assert ValidationSplit.from_dict(json.loads(json.dumps(split.as_dict()))) == split


def test_the_split_of_an_earlier_version_is_found_again():
    """Its identity, and what it holds, as version 0.1.0 of November 2026 gave them."""
    items = [Pair(f"s{number % 40}", str(number)) for number in range(400)]
    split = ValidationSplit.choose_format_1(items, share=0.05, most=12, seed=1)
    assert split.identity() == "HeldOut(seed=1, limit=6767063141564005638)"
    assert sorted({item.source for item in items if split.holds(item)}) == [
        "s0",
        "s1",
        "s12",
        "s13",
        "s14",
        "s18",
        "s24",
        "s26",
        "s33",
        "s34",
        "s7",
        "s9",
    ]
    assert ValidationSplit.choose_format_1(items, share=0.5, most=100).hashes > split.hashes


def test_parts_are_corpora(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {i}\n" for i in range(100)), encoding="utf-8")
    corpus = PlainText(path)
    split = ValidationSplit.choose(corpus, share=0.2)
    train, valid = SplitPart(corpus, split, held=False), SplitPart(corpus, split, held=True)
    count = len(split.hashes)
    assert (len(list(train)), len(list(valid))) == (100 - count, count)
    report = valid.report
    assert (report.read, report.kept, report.skipped["not held out"].count) == (100, count, 100 - count)
    assert train.identity() != valid.identity()


def test_one_text_cannot_be_split():
    with pytest.raises(DataError, match="cannot be split"):
        ValidationSplit.choose(["same"] * 9)
