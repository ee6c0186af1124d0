"""Descriptions of models for the page: sizes and examples. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from math import prod
from typing import Any

from regard.checkpoints.folder import ModelFolder
from regard.demo.lectures import LECTURES, REVERSED, Lecture
from regard.inspection.render.model_card import model_card
from regard.model.config import ModelConfig
from regard.text.tokenizer import SPELLINGS, Tokenizer

LANGUAGES = {
    "demo": "English to French",
    "demo-reverse": "French to English",
    "demo-language-model": "continues English text",
}
DOES = {"encoder-decoder": "translates", "decoder-only": "continues a text", "encoder-only": "reads"}
# The word that differs in meaning in a pair of the lectures' sentences.
ABOUT = {"it, too": "it", "it": "it", "bank": "bank", "Python": "Python"}
TIRED, WIDE = LECTURES[0].source, LECTURES[1].source
BEGINNINGS = (
    "The quick brown",
    "The animal didn't cross the street because it was too",
    "I arrived at the bank after crossing the",
    "a fluffy blue creature roamed the verdant",
)


def card(
    name: str,
    folder: ModelFolder,
    tokenizer: Tokenizer,
    facts: Mapping[str, Any] | None,
    snapshots: list[int],
) -> dict[str, Any]:
    """The description of a trained model."""
    config = folder.config
    labels = folder.labels or range(config.classes)
    does = LANGUAGES[facts["name"]] if facts else DOES[config.family]
    return model_card(
        name,
        f"{name}, {does}",
        config,
        sum(prod(shape) for shape in folder.weights.shapes.values()),
        labels=list(map(str, labels)) if config.output == "classes" else [],
        snapshots=snapshots,
        examples=examples(config, tokenizer, facts),
        pairs=pairs(facts),
        known_words=facts is not None,
    )


def untrained_card(name: str, state: str) -> dict[str, Any]:
    """The description of a demo model that is not trained: a name without sizes."""
    family = "decoder-only" if name == "demo-language-model" else "encoder-decoder"
    nothing = dict.fromkeys(("heads", "width", "head_width", "vocabulary", "parameters", "context"), 0)
    return {
        "name": name,
        "title": f"{name}, {LANGUAGES[name]}, not trained yet",
        "family": family,
        "output": "words",
        "layers": {"encoder": 0, "decoder": 0},
        **nothing,
        "residual": "pre",
        "labels": [],
        "snapshots": [],
        "examples": [TIRED] if name == "demo" else [],
        "pairs": [],
        "state": state,
        "known_words": True,
    }


def examples(config: ModelConfig, tokenizer: Tokenizer, facts: Mapping[str, Any] | None) -> list[str]:
    """Example texts: the lectures' for the demo, one of the family for other models."""
    if facts is not None:
        if facts["name"] == "demo-language-model":
            return list(BEGINNINGS)
        return [lecture.source for lecture in _lectures(facts) if "’" not in lecture.source]
    if config.output in ("masked", "words") and config.family == "encoder-only":
        return [f"Paris is the {_mask(tokenizer)} of France."]
    texts = {"encoder-decoder": TIRED, "decoder-only": BEGINNINGS[0], "encoder-only": "A film to remember."}
    return [texts[config.family]]


def pairs(facts: Mapping[str, Any] | None) -> list[list[str]]:
    """Two sentences that differ in one word, and the word to compare in both."""
    if facts is None or facts["name"] == "demo-language-model":
        return [[TIRED, WIDE, "it"]]
    if facts["name"] == "demo-reverse":
        return [[REVERSED[3].source, REVERSED[4].source, "traversé"]]
    groups = [list(group) for _, group in groupby(LECTURES, key=lambda lecture: lecture.pair)]
    return [
        [first.source, second.source, ABOUT[first.pair]]
        for first, second in (group for group in groups if len(group) == 2)
        if first.pair in ABOUT
    ]


def _lectures(facts: Mapping[str, Any]) -> tuple[Lecture, ...]:
    return REVERSED if facts["name"] == "demo-reverse" else LECTURES


def _mask(tokenizer: Tokenizer) -> str:
    """The spelling of the tokenizer's mask."""
    known = SPELLINGS["mask"]
    if "mask" not in tokenizer.specials:
        return known[0]
    return next(
        (name for name in known if tokenizer.mask in tokenizer.encode(name, with_mask=True)), known[0]
    )
