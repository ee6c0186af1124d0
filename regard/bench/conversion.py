"""`python -m regard.bench.conversion FOLDER OUT`: convert a transformers folder for CTranslate2."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


class Numbers:
    """A tokenizer whose tokens are the ids as text, which is all that the conversion needs."""

    bos_token = eos_token = unk_token = "0"

    def __init__(self, vocabulary: int, padded: bool):
        self._words = [str(number) for number in range(vocabulary)]
        if padded:
            self._words[-1] = "<pad>"  # CTranslate2 removes it from Marian's vocabulary

    def get_vocab(self) -> dict[str, int]:
        """The ids by token."""
        return {word: number for number, word in enumerate(self._words)}


def convert(theirs: Path, converted: Path) -> None:
    """Write the converted folder."""
    from ctranslate2.converters import TransformersConverter  # pyright: ignore[reportMissingImports]

    class Converter(TransformersConverter):
        def load_tokenizer(self, *arguments: Any, **options: Any) -> Numbers:
            config = json.loads((theirs / "config.json").read_text(encoding="utf-8"))
            return Numbers(config["vocab_size"], config["model_type"] == "marian")

    Converter(str(theirs)).convert(str(converted))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
