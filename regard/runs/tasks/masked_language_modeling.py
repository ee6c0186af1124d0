"""Masked language modeling: masked tokens, measured by accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard import ranks
from regard.model.masks import Mask
from regard.runs.corpora import Corpora, plain, plain_part, running
from regard.runs.sizing import RULES
from regard.runs.tables import DataTable, ValidationTable
from regard.runs.tasks.task import (
    EvaluationData,
    Measurement,
    Sample,
    Task,
    Trained,
    Vocabularies,
    device_of,
)
from regard.text.batches import Batches, masked_batches
from regard.text.collate import MaskedBatch
from regard.text.encoding import encode_lines, encode_running
from regard.text.running_text import RunningText
from regard.text.scores import accuracy
from regard.text.splitting import Corpus
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizer
from regard.training.objectives import MaskedLanguageModeling


class MaskedLanguageModelingTask(Task):
    """Predict masked tokens from the tokens around them."""

    family = "encoder-only"
    output = "masked"
    loss = MaskedLanguageModeling
    sources = (("text",), ("labelled",))
    metrics = ("loss", "accuracy")
    rules = RULES["masked-language-modeling"]

    def corpora(self, data: DataTable, folder: Path | None = None) -> Corpora:
        """Lines, or running text."""
        return running(data) if is_running(data) else plain(data, folder)

    def corpus(self, data: DataTable) -> Any:
        """Lines, running text, or the texts of a table."""
        return RunningText(data.text or [], filters=data.filters) if is_running(data) else plain_part(data)

    def encode(self, corpus: Corpus[str], words: Vocabularies, context: int, cache: Path | None) -> Data:
        """One sequence for each line, or running text cut to the context."""
        tokenizer = words.tokenizers.source
        if not isinstance(corpus, RunningText):
            return encode_lines(corpus, tokenizer, context, cache)
        return cut_to_fit(encode_running(corpus, tokenizer, cache), context)

    def reopen(self, stored: Data, table: DataTable, context: int) -> Data:
        """Lines as they are stored, running text cut to the context."""
        return cut_to_fit(stored, context) if is_running(table) else stored

    def batches(self, data: Data, words: Vocabularies, context: int, tokens: int, seed: int) -> Batches:
        """Texts of similar length, masked differently in every epoch."""
        return masked_batches(data, words.tokenizers.source, tokens, seed)

    def measure(self, trained: Trained, held: EvaluationData, settings: ValidationTable) -> Measurement:
        """The accuracy of the predicted tokens."""
        predictions: list[np.ndarray] = []
        masked: list[np.ndarray] = []
        samples: list[Sample] = []
        tokenizer = trained.words.tokenizers.source
        batches = self.scoring_batches(held, trained.words, trained.context)
        for batch, predicted in ranks.divided(lambda batch: (batch, _predict(trained, batch)), batches):
            predictions.append(predicted)
            masked.append(batch.output[batch.chosen])
            if len(samples) < settings.samples:
                samples += _samples(batch, predicted, tokenizer)
        score = accuracy(np.concatenate(predictions), np.concatenate(masked))
        return Measurement([score], samples[: settings.samples])


def is_running(table: DataTable) -> bool:
    """Whether the text is read as running text."""
    return not table.lines and table.labelled is None


def cut_to_fit(whole: Data, context: int) -> Data:
    """Running text as sequences that fit the context, start and end included."""
    cut = Sequences.cut(whole["text"].ids, context - 2)
    return Data({"text": cut}, whole.report, f"{whole.identity} cut to {context}")


@torch.inference_mode()
def _predict(trained: Trained, batch: MaskedBatch) -> np.ndarray:
    """The most probable token at each masked position, row by row."""
    module, device = trained.module, device_of(trained.module)
    ids, keys = (torch.from_numpy(array).to(device) for array in (batch.input, batch.keys))
    encoded = module.encode(ids, Mask(keys=keys))  # type: ignore[union-attr]
    rows = encoded[torch.from_numpy(batch.chosen).to(device)]
    return module.head(rows[None])[0].argmax(-1).cpu().numpy()


def _samples(batch: MaskedBatch, predicted: np.ndarray, tokenizer: Tokenizer) -> list[Sample]:
    """Rows with masks as text: each masked token in brackets."""
    filled = batch.output.copy()
    filled[batch.chosen] = predicted
    return [
        Sample(_text(batch, row, tokenizer, None), _text(batch, row, tokenizer, filled[row]), whole)
        for row in range(batch.rows)
        if batch.chosen[row].any()
        for whole in [tokenizer.decode(batch.output[row][batch.keys[row]])]
    ]


def _text(batch: MaskedBatch, row: int, tokenizer: Tokenizer, words: np.ndarray | None) -> str:
    """The text of a row with its masked tokens, or nothing, in brackets."""
    pieces: list[str] = []
    for position in np.flatnonzero(batch.keys[row]):
        piece = tokenizer.decode([(batch.output[row] if words is None else words)[position]])
        gap = "[ ]" if words is None else f"[{piece.strip()}]"
        lead = " " if piece.startswith(" ") else ""
        pieces.append(lead + gap if batch.chosen[row, position] else piece)
    return "".join(pieces).strip()
