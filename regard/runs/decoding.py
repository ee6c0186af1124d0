"""Text out of a model that is being trained or judged, as its users will get it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.inference.remembering import Remembered
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.runs.trained import Trained


def translate(
    trained: Trained,
    sentences: Sequence[str],
    beams: int = 1,
    length_penalty: float = 0.6,
    backwards: float = 0.0,
    remembered: Remembered | None = None,
) -> list[str]:
    """A translation of each sentence, in the order of sentences; too long a text is cut into its own."""
    module: Any = trained.module
    found = Translator(module, trained.words.tokenizers).translate(
        list(sentences),
        beams=beams,
        length_penalty=length_penalty,
        backwards=backwards,
        remembered=remembered,
        split="sentences",
    )
    return [translation.text for translation in found]


def continue_text(trained: Trained, prompt: str, tokens: int, temperature: float, seed: int) -> str:
    """What the model adds to a prompt, as far as its context goes."""
    module: Any = trained.module
    writer = Writer(module, trained.words.tokenizers.target)
    return writer.complete(prompt, temperature=temperature, max_tokens=tokens, seed=seed).text
