"""Task: what a model learns, and everything that a run needs to know about it.

A subclass of Task in `regard.runs.tasks.registry.TASKS` is a task of recipes: `TASKS["mine"] = MyTask()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from regard.errors import SettingError
from regard.model.config import Family
from regard.model.transformer import Transformer
from regard.runs.corpora import Corpora, evenly
from regard.runs.sizing import Rules
from regard.runs.tables import DataTable, TokenizerTable, ValidationTable
from regard.text.batches import Batches
from regard.text.scores import Confusion, Score
from regard.text.token_files import Data
from regard.text.tokenizer import Tokenizer, Tokenizers

SCORING_TOKENS = 4096  # tokens of a batch that is only scored


@dataclass(frozen=True)
class Vocabularies:
    """The tokenizers of both sides, and the labels in the order of their ids."""

    tokenizers: Tokenizers
    labels: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """What the files of the tokenizers do not hold, as JSON values."""
        return {"labels": list(self.labels)} if self.labels else {}


@dataclass(frozen=True)
class Trained:
    """A model, its vocabularies and its task."""

    module: Transformer
    words: Vocabularies
    task: str  # its name in TASKS

    @property
    def context(self) -> int:
        """The longest sequence of training, in tokens."""
        return self.module.config.context


@dataclass(frozen=True)
class Sample:
    """An input, the output of the model, and the expected output if there is one."""

    input: str
    output: str
    expected: str = ""

    def __str__(self) -> str:
        lines = [self.input, f"→ {self.output}", f"= {self.expected}" if self.expected else ""]
        return "\n".join(line for line in lines if line)


@dataclass(frozen=True)
class Measurement:
    """The scores of a model on a part of the data, and a few samples."""

    scores: list[Score] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    confusion: Confusion | None = None

    def values(self) -> dict[str, float]:
        """The scores by plain names: "bleu", "bits_per_character"."""
        return {
            score.name.lower().replace(" ", "_").replace("chrf2", "chrf"): score.value
            for score in self.scores
        }


@dataclass(frozen=True)
class EvaluationData:
    """Data to measure on: encoded, and as text where the task needs text."""

    data: Data
    examples: list[Any] = field(default_factory=list)
    characters: int = 0

    def limited(self, most: int) -> EvaluationData:
        """The same data with at most this number of examples, taken evenly."""
        return replace(self, examples=evenly(self.examples, most))


class Task:
    """What a model learns: its family and head, its data, batches, loss, metrics and validation.

    family, output   the model: settings of ModelConfig
    loss             makes a module from a model, label_smoothing and r_drop; its forward(batch) returns the
                     summed loss and the number of predictions
    sources          settings of [data]: the training text is given by all settings of one of these
    metrics          the values that validation.monitor may have
    augmentations    the settings of [augment] that may be used
    has_perplexity   whether exp(loss) is a perplexity
    is_translation   whether outputs are translations, which search, BLEU and kNN-MT apply to
    rules            what a time budget (`minutes`) assumes about the task
    """

    family: ClassVar[Family]
    output: ClassVar[str]
    loss: ClassVar[Callable[..., nn.Module]]
    sources: ClassVar[tuple[tuple[str, ...], ...]]
    metrics: ClassVar[tuple[str, ...]] = ("loss",)
    augmentations: ClassVar[tuple[str, ...]] = ()
    has_perplexity: ClassVar[bool] = True
    is_translation: ClassVar[bool] = False
    rules: ClassVar[Rules] = Rules()
    unit: ClassVar[str] = "examples"  # of what `count` counts

    def corpora(self, data: DataTable, folder: Path | None = None) -> Corpora:
        """Training, validation and test text. `folder` is the text folder of a run, which keeps the split."""
        raise NotImplementedError

    def corpus(self, data: DataTable) -> Any:
        """All training text as one corpus, to score a model on."""
        raise NotImplementedError

    def texts(self, example: Any) -> Iterable[str]:
        """The texts of an example that a tokenizer is trained on."""
        return (example,)

    def train_tokenizers(self, corpus: Any, settings: TokenizerTable) -> Tokenizers:
        """Tokenizers trained on this corpus."""
        return Tokenizers.joint(
            train_tokenizer((text for example in corpus for text in self.texts(example)), settings)
        )

    def labels(self, examples: Iterable[Any]) -> tuple[str, ...]:
        """The labels of the training examples and of validation files, if they have labels."""
        return ()

    def sizes(self, words: Vocabularies) -> Mapping[str, Any]:
        """The settings of ModelConfig that follow from the vocabularies."""
        return {"vocabulary": words.tokenizers.source.vocabulary}

    def encode(self, corpus: Any, words: Vocabularies, context: int, cache: Path | None) -> Data:
        """The corpus as ids."""
        raise NotImplementedError

    def reopen(self, stored: Data, table: DataTable, context: int) -> Data:
        """The data that `encode` returned, from its token files."""
        return stored

    def batches(self, data: Data, words: Vocabularies, context: int, tokens: int, seed: int) -> Batches:
        """The batches of training."""
        raise NotImplementedError

    def hold(self, corpus: Any, data: Data, most: int | None = None) -> EvaluationData:
        """Data to measure on, with at most this number of examples as text."""
        return EvaluationData(data)

    def hold_again(self, data: Data, table: DataTable, words: Vocabularies, folder: Path) -> EvaluationData:
        """The result of `hold` for the validation split of a run that did not keep its text."""
        return EvaluationData(data)

    def scoring_batches(self, held: EvaluationData, words: Vocabularies, context: int) -> Iterator[Any]:
        """Batches of all data, each prediction once, in the same order every time."""
        return iter(self.batches(held.data, words, context, SCORING_TOKENS, 1))

    def count(self, data: Data, words: Vocabularies) -> int:
        """The number of examples that are scored."""
        return len(data)

    def measure(self, trained: Trained, held: EvaluationData, settings: ValidationTable) -> Measurement:
        """The metrics of the task besides the loss, and samples."""
        return Measurement()

    def objective(self, model: Transformer, label_smoothing: float = 0.0, r_drop: float = 0.0) -> nn.Module:
        """The model with its loss."""
        config = model.config
        if not self.fits(config.family, config.output):
            raise SettingError(
                f"the task needs a model of family {self.family} with output {self.output}, "
                f"not {config.family} with {config.output}; change [model]"
            )
        return type(self).loss(model, label_smoothing, r_drop)

    def fits(self, family: str, output: str) -> bool:
        """Whether a model is one of this task."""
        return (family, output) == (self.family, self.output)

    def placeholder_sizes(self) -> dict[str, int]:
        """Sizes for a ModelConfig whose other settings are checked before the data is read."""
        return {"vocabulary": 8, "classes": 2} if self.output == "classes" else {"vocabulary": 8}


def train_tokenizer(texts: Iterable[str], settings: TokenizerTable) -> Tokenizer:
    """A tokenizer with the settings of [tokenizer]."""
    return Tokenizer.train(
        texts,
        kind=settings.kind,
        vocabulary=settings.vocabulary,
        normalisation=settings.normalisation,
        lowercase=settings.lowercase,
        min_count=settings.min_count,
    )


def device_of(module: nn.Module) -> torch.device:
    """The device of the weights of a module."""
    return next(module.parameters()).device
