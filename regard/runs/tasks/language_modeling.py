"""Writing: text that runs on, judged by how well each next token is foreseen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.inference.writer import Writer
from regard.runs.corpora import Corpora, running
from regard.runs.tables import DataTable, TokenizerTable, ValidationTable
from regard.runs.tasks.task import SCORING_TOKENS, Findings, Held, Sample, learn_one
from regard.runs.trained import Trained, Vocabularies
from regard.text.batches import Batches, scoring_windows, window_batches
from regard.text.collate import Batch
from regard.text.encoding import encode_running
from regard.text.running_text import RunningText
from regard.text.token_files import Data
from regard.text.tokenizer import Tokenizers


class WritingTask:
    """See Task."""

    def corpora(self, data: DataTable, folder: Path | None = None) -> Corpora:
        """The text, its end held out."""
        return running(data)

    def learn(self, corpus: RunningText, settings: TokenizerTable) -> Tokenizers:
        """One tokenizer."""
        return Tokenizers.joint(learn_one(corpus, settings))

    def labels(self, corpus: RunningText) -> tuple[str, ...]:
        """None."""
        return ()

    def decided(self, words: Vocabularies) -> Mapping[str, Any]:
        """The size of the vocabulary."""
        return {"vocabulary": words.tokenizers.target.vocabulary}

    def encode(self, corpus: RunningText, words: Vocabularies, context: int, cache: Path | None) -> Data:
        """One long row of ids."""
        return encode_running(corpus, words.tokenizers.target, cache)

    def reopen(self, stored: Data, table: DataTable, context: int) -> Data:
        """As they are."""
        return stored

    def batches(self, data: Data, words: Vocabularies, context: int, tokens: int, seed: int) -> Batches:
        """Windows as long as the context."""
        return window_batches(data, words.tokenizers.target, context, tokens, seed)

    def hold(self, corpus: RunningText, data: Data, most: int | None = None) -> Held:
        """The text's length in characters, for bits per character."""
        return Held(data, characters=sum(map(len, corpus)))

    def in_order(self, held: Held, words: Vocabularies, context: int) -> Iterator[Batch]:
        """Every token once, in windows no longer than the context; the first follows a line end."""
        tokenizer = words.tokenizers.target
        before = (tokenizer.encode("\n") or [tokenizer.end])[-1]
        rows = max(1, SCORING_TOKENS // context)
        return scoring_windows(held.data["text"].ids, tokenizer, context, rows, before)

    def judge(self, trained: Trained, held: Held, settings: ValidationTable) -> Findings:
        """Only text to read; the loss says the rest."""
        texts = [
            continue_text(trained, settings.prompt, settings.sample_tokens, settings.temperature, seed)
            for seed in range(settings.samples)
        ]
        return Findings(samples=[Sample(settings.prompt, text) for text in texts])


def continue_text(trained: Trained, prompt: str, tokens: int, temperature: float, seed: int) -> str:
    """What the model adds to a prompt, as far as its context goes."""
    module: Any = trained.module
    writer = Writer(module, trained.words.tokenizers.target)
    return writer.complete(prompt, temperature=temperature, max_tokens=tokens, seed=seed).text
