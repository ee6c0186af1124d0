"""Masked: texts with hidden words, judged by how many are guessed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.model.masks import Mask
from regard.runs.corpora import Corpora, plain, running
from regard.runs.tables import DataTable, TokenizerTable, ValidationTable
from regard.runs.tasks.task import SCORING_TOKENS, Findings, Held, Sample, device_of, learn_one
from regard.runs.trained import Trained, Vocabularies
from regard.text.batches import Batches, masked_batches
from regard.text.collate import MaskedBatch
from regard.text.encoding import encode_lines, encode_running
from regard.text.running_text import RunningText
from regard.text.scores import accuracy
from regard.text.splitting import Corpus
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizer, Tokenizers


class MaskedTask:
    """See Task."""

    def corpora(self, data: DataTable, folder: Path | None = None) -> Corpora:
        """Lines, or text that runs on."""
        return running(data) if runs_on(data) else plain(data, folder)

    def learn(self, corpus: Corpus[str], settings: TokenizerTable) -> Tokenizers:
        """One tokenizer."""
        return Tokenizers.joint(learn_one(corpus, settings))

    def labels(self, corpus: Corpus[str]) -> tuple[str, ...]:
        """None."""
        return ()

    def decided(self, words: Vocabularies) -> Mapping[str, Any]:
        """The size of the vocabulary."""
        return {"vocabulary": words.tokenizers.source.vocabulary}

    def encode(self, corpus: Corpus[str], words: Vocabularies, context: int, cache: Path | None) -> Data:
        """A sequence for each line, or as many as running text fills."""
        tokenizer = words.tokenizers.source
        if not isinstance(corpus, RunningText):
            return encode_lines(corpus, tokenizer, context, cache)
        return cut_to_fit(encode_running(corpus, tokenizer, cache), context)

    def reopen(self, stored: Data, table: DataTable, context: int) -> Data:
        """Lines as they are, running text cut."""
        return cut_to_fit(stored, context) if runs_on(table) else stored

    def batches(self, data: Data, words: Vocabularies, context: int, tokens: int, seed: int) -> Batches:
        """Texts of about one length, with other gaps each time."""
        return masked_batches(data, words.tokenizers.source, tokens, seed)

    def hold(self, corpus: Corpus[str], data: Data, most: int | None = None) -> Held:
        """The ids are enough."""
        return Held(data)

    def in_order(self, held: Held, words: Vocabularies, context: int) -> Iterator[MaskedBatch]:
        """Every text once, always with the same gaps."""
        return iter(masked_batches(held.data, words.tokenizers.source, SCORING_TOKENS))

    def judge(self, trained: Trained, held: Held, settings: ValidationTable) -> Findings:
        """How many hidden tokens are guessed."""
        guessed: list[np.ndarray] = []
        hidden: list[np.ndarray] = []
        samples: list[Sample] = []
        tokenizer = trained.words.tokenizers.source
        for batch in self.in_order(held, trained.words, trained.context):
            guesses = _guess(trained, batch)
            guessed.append(guesses)
            hidden.append(batch.output[batch.chosen])
            if len(samples) < settings.samples:
                samples += _samples(batch, guesses, tokenizer)
        score = accuracy(np.concatenate(guessed), np.concatenate(hidden))
        return Findings([score], samples[: settings.samples])


def runs_on(table: DataTable) -> bool:
    """Whether the text is to be read as one that runs on."""
    return not table.lines and table.labelled is None


def cut_to_fit(whole: Data, context: int) -> Data:
    """Running text as sequences of which each fits a context, with start and end."""
    cut = Sequences.cut(whole["text"].ids, context - 2)
    return Data({"text": cut}, whole.report, f"{whole.identity} cut to {context}")


@torch.inference_mode()
def _guess(trained: Trained, batch: MaskedBatch) -> np.ndarray:
    """The likeliest token at each chosen place, row by row."""
    module, device = trained.module, device_of(trained.module)
    ids, keys = (torch.from_numpy(array).to(device) for array in (batch.input, batch.keys))
    encoded = module.encode(ids, Mask(keys=keys))  # type: ignore[union-attr]
    rows = encoded[torch.from_numpy(batch.chosen).to(device)]
    return module.head(rows[None])[0].argmax(-1).cpu().numpy()


def _samples(batch: MaskedBatch, guesses: np.ndarray, tokenizer: Tokenizer) -> list[Sample]:
    """Rows with gaps as text: each hidden token in brackets."""
    filled = batch.output.copy()
    filled[batch.chosen] = guesses
    return [
        Sample(_text(batch, row, tokenizer, None), _text(batch, row, tokenizer, filled[row]), whole)
        for row in range(batch.rows)
        if batch.chosen[row].any()
        for whole in [tokenizer.decode(batch.output[row][batch.keys[row]])]
    ]


def _text(batch: MaskedBatch, row: int, tokenizer: Tokenizer, words: np.ndarray | None) -> str:
    """The text of a row with what fills its gaps, or nothing, in brackets."""
    pieces: list[str] = []
    for place in np.flatnonzero(batch.keys[row]):
        piece = tokenizer.decode([(batch.output[row] if words is None else words)[place]])
        gap = "[ ]" if words is None else f"[{piece.strip()}]"
        lead = " " if piece.startswith(" ") else ""
        pieces.append(lead + gap if batch.chosen[row, place] else piece)
    return "".join(pieces).strip()
