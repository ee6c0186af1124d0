"""Files read back equal; pictures carry the words."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ElementTree

import matplotlib.image
import numpy as np
import pytest

from regard.errors import RegardError
from regard.inspection.inspection import inspect
from regard.inspection.render.heat_map import shade

from ..conftest import FRENCH, inspected, subject


def read_table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_of_one_head_reads_back_equal(words, tmp_path):
    seen = inspected(words)
    rows = read_table(seen.save(tmp_path / "head.csv", kind="cross", layer=1, head=2))
    weights = np.zeros((len(seen.target), len(seen.source)), np.float32)
    for row in rows:
        assert (row["kind"], row["layer"], row["head"]) == ("cross", "1", "2")
        query, key = int(row["query"]), int(row["key"])
        weights[query, key] = np.float32(row["weight"])
        assert row["query_token"] == seen.target.labels()[query]
        assert row["key_token"] == seen.source.labels()[key]
    assert np.array_equal(weights, seen.attention("cross", 1, 2))


def test_what_is_not_chosen_is_in_the_table_in_full(words, tmp_path):
    seen = inspected(words)
    size = {kind: np.prod([len(side) for side in seen.sides(kind)]) for kind in seen.kinds}
    assert len(read_table(seen.save(tmp_path / "all.csv"))) == 8 * sum(size.values())
    assert len(read_table(seen.save(tmp_path / "kind.csv", kind="encoder", layer=0))) == 4 * size["encoder"]


def test_an_archive_reads_back_equal_and_holds_no_pickle(pieces, tmp_path):
    seen = inspected(pieces)
    for words in (False, True):
        path = seen.save(tmp_path / "all.npz", words=words)
        with np.load(path, allow_pickle=False) as archive:
            assert sorted(archive) == ["cross", "decoder", "encoder", "source", "target"]
            assert archive["source"].tolist() == seen.source.labels(words)
            for kind in seen.kinds:
                for layer in range(2):
                    assert np.array_equal(archive[kind][layer], seen.attention(kind, layer, words=words))


@pytest.mark.parametrize("choice", [{}, {"kind": "decoder", "head": 1}, {"kind": "encoder", "layer": 0}])
def test_a_picture_has_its_words_and_its_title(words, tmp_path, choice):
    seen = inspected(words)
    path = seen.save(tmp_path / "a.svg", **choice)
    texts = {(element.text or "").strip() for element in ElementTree.parse(path).iter() if element.text}
    kind = choice.get("kind", "cross")
    queries, keys = seen.sides(kind)
    assert set(keys.labels()) <= texts
    assert kind == "cross" or set(queries.labels()) <= texts
    assert kind != "cross" or "qu' → il" in texts
    assert any(text.startswith(f"{kind.capitalize()} attention, layer") for text in texts)
    assert "100 %" in texts
    assert path.read_bytes() == seen.save(tmp_path / "b.svg", **choice).read_bytes()


def test_a_picture_is_painted_in_the_colours_of_the_weights(words, tmp_path):
    seen = inspected(words)
    image = matplotlib.image.imread(seen.save(tmp_path / "a.png", kind="encoder", layer=1, head=0))
    assert image.shape[0] > 600
    pixels = (image[..., :3] * 255).round().astype(int) @ [1 << 16, 1 << 8, 1]
    painted = np.unique(pixels)[:, None] >> [16, 8, 0] & 255
    for weight in seen.attention("encoder", 1, 0).flat:
        colour = [int(shade(float(weight))[n : n + 2], 16) for n in (1, 3, 5)]
        assert np.abs(painted - colour).max(axis=1).min() <= 2, weight


def test_odd_words_do_not_break_a_picture(pieces, tmp_path):
    seen = inspect(subject(pieces), "$x^2$ 東京 😀 <b>", FRENCH)
    for name in ("a.png", "a.svg"):
        assert seen.save(tmp_path / name, kind="encoder", head=0, words=True).stat().st_size > 1000


def test_a_long_text_is_drawn_without_digits(words, tmp_path):
    seen = inspect(subject(words), "The animal was tired. " * 9, "il")
    assert seen.save(tmp_path / "a.png", kind="encoder", head=0).stat().st_size > 1000


@pytest.mark.parametrize(
    ("name", "choice", "message"),
    [
        ("a.html", {"query": "zebra"}, "no word 'zebra'"),
        ("a.html", {"kind": "cross", "layer": 2}, "no layer 2"),
        ("a.jpg", {}, r"cannot save 'a\.jpg'.*known: \.csv, \.html, \.npz, \.png, \.svg"),
        ("a", {}, "cannot save 'a'"),
        ("a.svg", {"layer": 5}, "no layer 5"),
        ("a.csv", {"kind": "cross", "head": 9}, "no head 9"),
        ("a.npz", {"head": 1}, "holds every layer and head"),
        ("a.png", {"kind": "sideways"}, "unknown kind of attention"),
    ],
)
def test_what_cannot_be_saved_is_said(words, tmp_path, name, choice, message):
    with pytest.raises(RegardError, match=message):
        inspected(words).save(tmp_path / name, **choice)
    assert not list(tmp_path.iterdir())
