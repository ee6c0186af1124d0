"""Text that several tests learn from, and the real text that some of them read."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.text.tokenizer import Tokenizer

SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    'She said: "I am a student", and he laughed (twice).',
    "The quick brown fox jumps over the lazy dog!",
] * 4


@pytest.fixture(scope="session")
def bpe() -> Tokenizer:
    return Tokenizer.train(SENTENCES, vocabulary=400)


@pytest.fixture(scope="session")
def word() -> Tokenizer:
    return Tokenizer.train(SENTENCES, kind="word")


@pytest.fixture(scope="session")
def character() -> Tokenizer:
    return Tokenizer.train(SENTENCES, kind="character")


@pytest.fixture(params=["bpe", "word", "character"])
def any_kind(request) -> Tokenizer:
    """Each kind of tokenizer in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real text beside the checkout."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs real text in ../shared/data beside the checkout")
    return folder
