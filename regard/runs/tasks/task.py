"""Task: what a run asks of an objective, and the small values they exchange."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from regard.runs.corpora import Corpora, evenly
from regard.runs.tables import DataTable, TokenizerTable, ValidationTable
from regard.runs.trained import Trained, Vocabularies
from regard.text.batches import Batches
from regard.text.collate import Batch
from regard.text.scores import Confusion, Score
from regard.text.token_files import Data
from regard.text.tokenizer import Tokenizer, Tokenizers

SCORING_TOKENS = 4096  # cells of a batch that is only scored


@dataclass(frozen=True)
class Sample:
    """Something the model was given, what it made of it, and what was expected, if anything was."""

    input: str
    output: str
    expected: str = ""


@dataclass(frozen=True)
class Findings:
    """What a look at a part of the data found."""

    scores: list[Score] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    confusion: Confusion | None = None

    def values(self) -> dict[str, float]:
        """The figures by plain names: "bleu", "bits_per_character"."""
        return {
            score.name.lower().replace(" ", "_").replace("chrf2", "chrf"): score.value
            for score in self.scores
        }


@dataclass(frozen=True)
class Held:
    """A part of the data to be measured on: encoded, and as text where text is asked for."""

    data: Data
    examples: list[Any] = field(default_factory=list)
    characters: int = 0

    def limited(self, most: int) -> Held:
        """The same with so many examples at most, taken evenly."""
        return replace(self, examples=evenly(self.examples, most))


class Task(Protocol):
    """An objective as a run sees it."""

    def corpora(self, data: DataTable, folder: Path | None = None) -> Corpora:
        """The text, in its parts; a run that exists has its text folder, which says what it holds out."""
        ...

    def learn(self, corpus: Any, settings: TokenizerTable) -> Tokenizers:
        """Tokenizers for this text."""
        ...

    def labels(self, corpus: Any) -> tuple[str, ...]:
        """The labels there are, where there are labels."""
        ...

    def decided(self, words: Vocabularies) -> Mapping[str, Any]:
        """What vocabularies decide about a model."""
        ...

    def encode(self, corpus: Any, words: Vocabularies, context: int, cache: Path | None) -> Data:
        """Text as ids."""
        ...

    def batches(self, data: Data, words: Vocabularies, context: int, tokens: int, seed: int) -> Batches:
        """What training takes."""
        ...

    def reopen(self, stored: Data, table: DataTable, context: int) -> Data:
        """Token files that `encode` made in an earlier process, as it gave them."""
        ...

    def hold(self, corpus: Any, data: Data, most: int | None = None) -> Held:
        """A part to be measured on; of what is read as text, so many examples at most."""
        ...

    def in_order(self, held: Held, words: Vocabularies, context: int) -> Iterator[Batch]:
        """Everything held, each prediction once and the same each time."""
        ...

    def judge(self, trained: Trained, held: Held, settings: ValidationTable) -> Findings:
        """What else than the loss tells how good a model is."""
        ...


def learn_one(texts: Iterable[str], settings: TokenizerTable) -> Tokenizer:
    """A tokenizer as a run file wants it."""
    return Tokenizer.train(
        texts,
        kind=settings.kind,
        vocabulary=settings.vocabulary,
        normalisation=settings.normalisation,
        lowercase=settings.lowercase,
        min_count=settings.min_count,
    )


def device_of(module: nn.Module) -> Any:
    """Where a module's numbers are."""
    return next(module.parameters()).device
