"""Recipes on the real text they were made for, a step or two long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.runs.metrics import read_metrics
from regard.runs.run import train


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real text beside the checkout."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs real text in ../shared/data beside the checkout")
    return folder


def test_multi30k_is_read_whole_with_little_padding(shared_data, tmp_path):
    names = {"": "train", "valid_": "val", "test_": "test_2016_flickr"}
    files = {
        f"{part}{side}": shared_data / "multi30k" / f"{name}.{language}.gz"
        for part, name in names.items()
        for side, language in (("source", "en"), ("target", "de"))
    }
    settings = {
        "model": {"width": 32, "heads": 4, "layers": 1, "feed_forward_width": 32},
        "training": {"steps": 1, "threads": 1},
        "validation": {"sentences": 4},
    }
    run = train("multi30k", **files, out=tmp_path / "run", settings=settings, show=False)
    facts = json.loads((run.folder / "run.json").read_bytes())
    assert facts["train"]["read"] == 29_000
    assert facts["train"]["kept"] > 28_900
    assert facts["valid"] == {**facts["valid"], "read": 1014, "kept": 1014, "skipped": {}}
    first = read_metrics(run.folder / "metrics.jsonl")[0]
    assert first["padding"] < 0.08


def test_shakespeares_last_tenth_is_scored_to_the_character(shared_data, tmp_path):
    settings = {
        "model": {"width": 16, "layers": 1, "feed_forward_width": 16},
        "training": {"steps": 1, "threads": 1},
    }
    text = shared_data / "shakespeare.txt"
    run = train("shakespeare", text=text, out=tmp_path / "run", settings=settings, show=False)
    assert run.model.tokenizer.vocabulary == 65 + 5
    # A character is a token here, so the bits of a character are those of a token.
    assert run.metrics["bits_per_character"] == pytest.approx(run.metrics["loss"] / 0.6931472, rel=1e-5)
