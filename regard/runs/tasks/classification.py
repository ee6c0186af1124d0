"""Classification: texts with labels, judged by how many get the right one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.errors import DataError
from regard.model.masks import Mask
from regard.runs.corpora import Corpora, labelled
from regard.runs.tables import DataTable, TokenizerTable, ValidationTable
from regard.runs.tasks.task import SCORING_TOKENS, Findings, Held, Sample, device_of, learn_one
from regard.runs.trained import Trained, Vocabularies
from regard.text.batches import Batches, labelled_batches
from regard.text.collate import LabelledBatch
from regard.text.corpus import Example, label_names
from regard.text.encoding import encode_labelled
from regard.text.scores import accuracy, confusion
from regard.text.splitting import Corpus
from regard.text.token_files import Data
from regard.text.tokenizer import Tokenizers


class ClassificationTask:
    """See Task."""

    def corpora(self, data: DataTable, folder: Path | None = None) -> Corpora:
        """Rows of a table."""
        return labelled(data, folder)

    def learn(self, corpus: Corpus[Example], settings: TokenizerTable) -> Tokenizers:
        """One tokenizer."""
        return Tokenizers.joint(learn_one((example.text for example in corpus), settings))

    def labels(self, corpus: Corpus[Example]) -> tuple[str, ...]:
        """Every label of the training part."""
        names = tuple(label_names(corpus))
        if len(names) < 2:
            raise DataError(f"all labels are {names}; to tell apart there must be two or more")
        return names

    def decided(self, words: Vocabularies) -> Mapping[str, Any]:
        """The size of the vocabulary, and how many labels there are."""
        return {"vocabulary": words.tokenizers.source.vocabulary, "classes": len(words.labels)}

    def encode(self, corpus: Corpus[Example], words: Vocabularies, context: int, cache: Path | None) -> Data:
        """Ids and the number of the label."""
        return encode_labelled(corpus, words.tokenizers.source, words.labels, context, cache)

    def reopen(self, stored: Data, table: DataTable, context: int) -> Data:
        """As they are."""
        return stored

    def batches(self, data: Data, words: Vocabularies, context: int, tokens: int, seed: int) -> Batches:
        """Texts of about one length."""
        return labelled_batches(data, words.tokenizers.source, tokens, seed)

    def hold(self, corpus: Corpus[Example], data: Data, most: int | None = None) -> Held:
        """The ids are enough."""
        return Held(data)

    def in_order(self, held: Held, words: Vocabularies, context: int) -> Iterator[LabelledBatch]:
        """Every text once."""
        return iter(labelled_batches(held.data, words.tokenizers.source, SCORING_TOKENS))

    def judge(self, trained: Trained, held: Held, settings: ValidationTable) -> Findings:
        """How many labels are right, and which are taken for which."""
        guessed: list[np.ndarray] = []
        expected: list[np.ndarray] = []
        samples: list[Sample] = []
        labels, tokenizer = trained.words.labels, trained.words.tokenizers.source
        for batch in self.in_order(held, trained.words, trained.context):
            guessed.append(_classify(trained, batch))
            expected.append(batch.labels)
            for row in range(min(batch.rows, settings.samples - len(samples))):
                text = tokenizer.decode(batch.input[row][batch.keys[row]])
                samples.append(Sample(text, labels[guessed[-1][row]], labels[batch.labels[row]]))
        found, right = np.concatenate(guessed), np.concatenate(expected)
        return Findings([accuracy(found, right)], samples, confusion(found, right, labels))


@torch.inference_mode()
def _classify(trained: Trained, batch: LabelledBatch) -> np.ndarray:
    device = device_of(trained.module)
    ids, keys = (torch.from_numpy(array).to(device) for array in (batch.input, batch.keys))
    return trained.module(ids, Mask(keys=keys)).argmax(-1).cpu().numpy()
