"""Language modeling: each next token of running text, measured by perplexity and bits per character."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.inference.writer import Writer
from regard.runs.corpora import Corpora, running
from regard.runs.sizing import RULES
from regard.runs.tables import DataTable, ValidationTable
from regard.runs.tasks.task import (
    SCORING_TOKENS,
    EvaluationData,
    Measurement,
    Sample,
    Task,
    Trained,
    Vocabularies,
)
from regard.text.batches import Batches, scoring_windows, window_batches
from regard.text.collate import Batch
from regard.text.encoding import encode_running
from regard.text.running_text import RunningText
from regard.text.token_files import Data
from regard.training.objectives import LanguageModeling


class LanguageModelingTask(Task):
    """Predict each next token of running text."""

    family = "decoder-only"
    output = "words"
    loss = LanguageModeling
    sources = (("text",),)
    augmentations = ("word_dropout",)
    unit = "tokens"
    rules = RULES["language-modeling"]

    def corpora(self, data: DataTable, folder: Path | None = None) -> Corpora:
        """Running text; without a validation file its end is the validation split."""
        return running(data)

    def corpus(self, data: DataTable) -> RunningText:
        """Running text."""
        return RunningText(data.text or [], filters=data.filters)

    def encode(self, corpus: RunningText, words: Vocabularies, context: int, cache: Path | None) -> Data:
        """One sequence of ids."""
        return encode_running(corpus, words.tokenizers.target, cache)

    def batches(self, data: Data, words: Vocabularies, context: int, tokens: int, seed: int) -> Batches:
        """Windows as long as the context."""
        return window_batches(data, words.tokenizers.target, context, tokens, seed)

    def hold(self, corpus: RunningText, data: Data, most: int | None = None) -> EvaluationData:
        """The ids, and the number of characters for bits per character."""
        return EvaluationData(data, characters=sum(map(len, corpus)))

    def hold_again(self, data: Data, table: DataTable, words: Vocabularies, folder: Path) -> EvaluationData:
        """The same, with the characters of the decoded ids."""
        tokenizer = words.tokenizers.target
        return EvaluationData(data, characters=sum(len(tokenizer.decode(ids)) for ids in data["text"]))

    def scoring_batches(self, held: EvaluationData, words: Vocabularies, context: int) -> Iterator[Batch]:
        """Every token once, in windows no longer than the context; the first follows a line end."""
        tokenizer = words.tokenizers.target
        before = (tokenizer.encode("\n") or [tokenizer.end])[-1]
        rows = max(1, SCORING_TOKENS // context)
        return scoring_windows(held.data["text"].ids, tokenizer, context, rows, before)

    def count(self, data: Data, words: Vocabularies) -> int:
        """The number of tokens without the end tokens between files."""
        return int((data["text"].ids != words.tokenizers.target.specials.get("end")).sum())

    def measure(self, trained: Trained, held: EvaluationData, settings: ValidationTable) -> Measurement:
        """Samples; the metrics follow from the loss."""
        texts = [
            continue_text(trained, settings.prompt, settings.sample_tokens, settings.temperature, seed)
            for seed in range(settings.samples)
        ]
        return Measurement(samples=[Sample(settings.prompt, text) for text in texts])


def continue_text(trained: Trained, prompt: str, tokens: int, temperature: float, seed: int) -> str:
    """A sampled continuation of a prompt, at most as long as the context."""
    module: Any = trained.module
    writer = Writer(module, trained.words.tokenizers.target)
    return writer.complete(prompt, temperature=temperature, max_tokens=tokens, seed=seed).text
