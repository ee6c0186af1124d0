"""The prepared data of a run: text read and encoded, trained tokenizers, and the initial model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regard.checkpoints.folder import ModelFolder, load_weights
from regard.checkpoints.reading import read_model
from regard.errors import CheckpointError, DataError, SettingError
from regard.inference.loading import model_folder
from regard.model.config import ModelConfig
from regard.model.transformer import Transformer, build_model
from regard.runs.corpora import LABELS, Corpora, check_files
from regard.runs.recipe import Recipe, find_task
from regard.runs.tasks.task import EvaluationData, Task, Vocabularies
from regard.runs.text_folder import TextFolder, key_of
from regard.text.augment.bidirectional import Bidirectional
from regard.text.augment.bpe_dropout import BPEDropout
from regard.text.augment.word_dropout import WordDropout
from regard.text.batches import Batches
from regard.text.token_files import Data
from regard.text.tokenizer import Tokenizer, Tokenizers
from regard.training.objectives import Objective


@dataclass(frozen=True)
class PreparedData:
    """The encoded text of a run and its vocabularies."""

    words: Vocabularies
    train: Data
    valid: EvaluationData
    context: int

    def keys(self) -> tuple[int, str, str]:
        """What `gather_again` needs to open the same data: the context and the keys of the token files."""
        return self.context, key_of(self.train.identity), key_of(self.valid.data.identity)

    def summary(self) -> list[str]:
        """A summary of what was read."""
        runs_on = bool(self.valid.characters)
        parts = {"train": self.train, "valid": self.valid.data}
        lines = [f"{name}: {_in_words(data, runs_on)}" for name, data in parts.items()]
        sizes = " and ".join(f"{size:,}" for size in sorted({side.vocabulary for side in self._sides()}))
        labels = f"; labels {', '.join(self.words.labels)}" if self.words.labels else ""
        if unseen := self._unseen_labels():
            labels += f"; {', '.join(unseen)} only in validation, so never predicted"
        pairs = zip(self.train.weights, self.train.report.tokens, strict=False)
        weights = ", ".join(f"{weight:g} x {tokens:,} tokens" for weight, tokens in pairs)
        return [*lines, *([f"an epoch: {weights}"] if weights else []), f"vocabulary {sizes}{labels}"]

    def _unseen_labels(self) -> list[str]:
        """The labels without an example in training."""
        known = set(np.unique(self.train["label"].ids).tolist()) if self.words.labels else ()
        return [label for number, label in enumerate(self.words.labels) if number not in known]

    def _sides(self) -> tuple[Tokenizer, Tokenizer]:
        return (self.words.tokenizers.source, self.words.tokenizers.target)


def gather(recipe: Recipe, folder: Path | None = None) -> PreparedData:
    """Read, split and encode the text of a recipe, and store tokenizers and token files in a folder."""
    task = find_task(recipe.task)
    check_files(recipe.task, task.sources, recipe.data)
    corpora = task.corpora(recipe.data, folder)
    start = read_start(recipe)
    text = None if folder is None else TextFolder(folder)
    words = _words(task, corpora, recipe, text, start)
    context = start.config.context if start else recipe.model_config(**task.sizes(words)).context
    train = _encoded("training", task, corpora.train, words, context, text).weighted(recipe.data.weights)
    held = _held(task, corpora, words, context, text)
    return PreparedData(words, train, held.limited(recipe.validation.sentences), context)


def gather_again(recipe: Recipe, folder: Path, context: int, train: str, valid: str | None) -> PreparedData:
    """The text of a run from its folder, by the keys of its token files.

    Its files are read only for what is not there: a validation part without key, which is another than
    before, and token files that are lost.
    """
    task, text = find_task(recipe.task), TextFolder(folder)
    words = text.words()
    if words is None:
        raise DataError(f"{folder} has lost its {LABELS}; start a new run")
    encoded = text.part(train, recipe, context) or _rebuilt(recipe, words, context, text, train)
    part = None if valid is None else text.part(valid, recipe, context)
    if part is None:
        held = _held(task, task.corpora(recipe.data, folder), words, context, text)
    else:
        held = text.validation(part, recipe, words)
    data = encoded.weighted(recipe.data.weights)
    return PreparedData(words, data, held.limited(recipe.validation.sentences), context)


def make_model(recipe: Recipe, words: Vocabularies, config: ModelConfig | None = None) -> Transformer:
    """A new model of the recipe's shape, or the one of init_from, with a new head if needed.

    With a config it is a model for the weights of a checkpoint.
    """
    if config is not None:
        return build_model(config)
    task = find_task(recipe.task)
    sizes = task.sizes(words)
    start = read_start(recipe)
    if start is None:
        return build_model(recipe.model_config(**sizes))
    changes = {key: value for key, value in recipe.model.items() if key != "init_from"}
    model = build_model(
        start.config.changed(**{**changes, "family": task.family, "output": task.output, **sizes})
    )
    try:
        load_weights(model, start.weights, None if _same_head(start, recipe, words) else "head.")
    except CheckpointError as error:
        raise CheckpointError(f"cannot start from {start.path}: {error}") from None
    return model


def training_objective(recipe: Recipe, material: PreparedData, model: Transformer) -> Objective:
    """The model with the loss of training."""
    training, task = recipe.training, find_task(recipe.task)
    objective: Any = task.objective(model, training.label_smoothing, training.r_drop)
    if training.class_weights == "balanced":
        labels = material.train["label"].ids
        counts = np.bincount(labels, material.train.draws, minlength=len(material.words.labels))
        weights = counts.sum() / (len(counts) * np.where(counts, counts, 1))
        objective.loss = replace(objective.loss, class_weights=tuple(weights.tolist()))
    return objective


def training_batches(recipe: Recipe, material: PreparedData) -> Batches:
    """The batches of training, augmented."""
    training, augment, words = recipe.training, recipe.augment, material.words
    batches = find_task(recipe.task).batches(
        material.train, words, material.context, training.step_tokens, training.seed
    )
    longest, epochs = material.context - 1, augment.bpe_dropout_epochs
    return batches.augmented(
        [
            BPEDropout(augment.bpe_dropout, words.tokenizers, longest, training.seed, epochs),
            Bidirectional(augment.bidirectional_epochs, words.tokenizers),
            WordDropout(augment.word_dropout, words.tokenizers, training.seed),
        ]
    )


def read_start(recipe: Recipe) -> ModelFolder | None:
    """The checked model folder of init_from, or None."""
    if recipe.starts_from is None:
        return None
    start = read_model(model_folder(recipe.starts_from))
    start.check_weights()
    wanted = find_task(recipe.task).family
    if start.config.family != wanted:
        raise SettingError(
            f"{start.path} holds a model of family {start.config.family}, "
            f"and {recipe.task} needs {wanted}; start from another"
        )
    return start


def _same_head(start: ModelFolder, recipe: Recipe, words: Vocabularies) -> bool:
    if start.config.output != find_task(recipe.task).output:
        return False
    return start.labels == words.labels


def _words(
    task: Task, corpora: Corpora, recipe: Recipe, text: TextFolder | None, start: ModelFolder | None
) -> Vocabularies:
    """The tokenizers of the run, else those of init_from, else new ones."""
    if text is not None and (known := text.words()) is not None:
        return known
    labelled = corpora.train if corpora.valid_is_held_out else chain(corpora.train, corpora.valid)
    words = Vocabularies(_tokenizers(task, corpora, recipe, start), task.labels(labelled))
    if text is not None:
        text.write_words(words, corpora.split)
    return words


def _tokenizers(task: Task, corpora: Corpora, recipe: Recipe, start: ModelFolder | None) -> Tokenizers:
    if start is not None:
        return start.tokenizers()
    if recipe.tokenizer.init_from is not None:
        return read_model(model_folder(recipe.tokenizer.init_from)).tokenizers()
    return task.train_tokenizers(corpora.train, recipe.tokenizer)


def _encoded(
    part: str, task: Task, corpus: Any, words: Vocabularies, context: int, text: TextFolder | None
) -> Data:
    try:
        return task.encode(corpus, words, context, text and text.tokens)
    except DataError as error:
        raise DataError(f"{part} text: {error}") from None


def _held(
    task: Task, corpora: Corpora, words: Vocabularies, context: int, text: TextFolder | None
) -> EvaluationData:
    """The validation part, encoded and as text."""
    held = task.hold(corpora.valid, _encoded("validation", task, corpora.valid, words, context, text))
    if text is not None:
        text.write_validation(held)
    return held


def _rebuilt(recipe: Recipe, words: Vocabularies, context: int, text: TextFolder, key: str) -> Data:
    """The training part from its files if its token files are lost; it must be equal."""
    task = find_task(recipe.task)
    made = _encoded("training", task, task.corpora(recipe.data, text.path).train, words, context, text)
    if key_of(made.identity) != key:
        raise DataError(
            f"the token files of the training data in {text.tokens} are lost, and its files give others now; "
            "start a new run"
        )
    return made


def _in_words(data: Data, runs_on: bool) -> str:
    """What was kept and what was skipped, with the first location of each reason."""
    report = data.report
    reasons = {
        reason: mentions for reason, mentions in report.skipped.items() if not reason.endswith("held out")
    }
    parts = [
        f"{mentions.count:,} {reason} (first {mentions.locations[0]})" for reason, mentions in reasons.items()
    ]
    shortened = [f"{report.shortened.count:,} shortened"] if report.shortened.count else []
    lines = [] if runs_on else [f"{report.kept:,} of {report.read:,} lines"]
    tokens = [f"{len(c.ids):,} {name} tokens" for name, c in data.columns.items() if name != "label"]
    return ", ".join([*lines, *tokens, *parts, *shortened])
