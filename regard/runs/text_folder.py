"""The folder text/ of a run: all text that training needs, so that a run resumes without its data files.

tokenizer.json   or one each for source and target; labels.json the labels
held_out.json    which texts are held out for validation, where no validation file was given
tokens/          token files of the training and of the validation part
validation.json  the validation part as text, where it is read as text
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.opener import read_regular
from regard.runs.corpora import HELD_OUT, LABELS, LARGEST
from regard.runs.recipe import Recipe, find_task
from regard.runs.tasks.task import EvaluationData, Vocabularies
from regard.text.corpus import Pair
from regard.text.splitting import ValidationSplit
from regard.text.token_files import Data, open_stored, stored_keys
from regard.text.tokenizer import Tokenizers

VALIDATION = "validation.json"


@dataclass(frozen=True)
class TextFolder:
    """The paths and their contents."""

    path: Path

    @property
    def tokens(self) -> Path:
        """Token files."""
        return self.path / "tokens"

    def words(self) -> Vocabularies | None:
        """Tokenizers and labels; None before they were written."""
        if not (self.path / LABELS).exists():
            return None
        try:
            labels = tuple(json.loads(read_regular(self.path / LABELS, LARGEST)))
        except (OSError, ValueError, TypeError, RecursionError):
            raise DataError(f"{self.path / LABELS} is damaged; start a new run") from None
        return Vocabularies(Tokenizers.load(self.path), labels)

    def write_words(self, words: Vocabularies, split: ValidationSplit | None) -> None:
        """Write tokenizers, labels and the split; labels come last, so a folder with labels is complete."""
        self.path.mkdir(parents=True, exist_ok=True)
        words.tokenizers.save(self.path)
        if split is not None:
            (self.path / HELD_OUT).write_text(json.dumps(split.as_dict()), encoding="utf-8")
        (self.path / LABELS).write_text(json.dumps(words.labels), encoding="utf-8")

    def part(self, key: str, recipe: Recipe, context: int) -> Data | None:
        """The data with this key; None if its token files are lost or damaged."""
        stored = open_stored(self.tokens, key)
        return None if stored is None else find_task(recipe.task).reopen(stored, recipe.data, context)

    def other_key(self, train: str, report: Any) -> str | None:
        """The key of the validation part in a run that did not store it; `report` decides between several."""
        keys = [key for key in stored_keys(self.tokens) if key != train]
        if len(keys) > 1:
            opened = {key: open_stored(self.tokens, key) for key in keys}
            keys = [key for key, data in opened.items() if data and data.report.as_dict() == report]
        return keys[0] if len(keys) == 1 else None

    def write_validation(self, held: EvaluationData) -> None:
        """Write the validation part as text."""
        stored = {
            "key": key_of(held.data.identity),
            "characters": held.characters,
            "examples": [list(example) for example in held.examples],
        }
        beside = self.path / f".{VALIDATION}.new"  # what is there may be a pipe
        beside.write_text(json.dumps(stored, ensure_ascii=False), encoding="utf-8")
        beside.replace(self.path / VALIDATION)

    def validation(self, data: Data, recipe: Recipe, words: Vocabularies) -> EvaluationData:
        """The validation part with its text; an older run has its text only in its data files."""
        try:
            stored = json.loads(read_regular(self.path / VALIDATION, LARGEST))
            if stored["key"] == key_of(data.identity):
                return EvaluationData(
                    data, [Pair(*texts) for texts in stored["examples"]], int(stored["characters"])
                )
        except (OSError, LookupError, TypeError, ValueError):
            pass  # it is lost, or of another version
        held = find_task(recipe.task).hold_again(data, recipe.data, words, self.path)
        self.write_validation(held)
        return held


def key_of(identity: str) -> str:
    """The key of the token files of a data set."""
    return identity.partition(" ")[0]
