"""Classification: the label of a text, measured by accuracy and F1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard import ranks
from regard.errors import DataError
from regard.model.masks import Mask
from regard.runs.corpora import Corpora, labelled, labelled_part
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
from regard.text.batches import Batches, labelled_batches
from regard.text.collate import LabelledBatch
from regard.text.corpus import Example, LabelledText, label_names
from regard.text.encoding import encode_labelled
from regard.text.scores import accuracy, confusion, macro_f1
from regard.text.splitting import Corpus
from regard.text.token_files import Data
from regard.training.objectives import Classification


class ClassificationTask(Task):
    """Predict the label of a text."""

    family = "encoder-only"
    output = "classes"
    loss = Classification
    sources = (("labelled",),)
    metrics = ("loss", "accuracy", "f1")
    augmentations = ("word_dropout", "bpe_dropout", "bpe_dropout_epochs")
    has_perplexity = False
    rules = RULES["classification"]

    def corpora(self, data: DataTable, folder: Path | None = None) -> Corpora:
        """Texts with labels."""
        return labelled(data, folder)

    def corpus(self, data: DataTable) -> LabelledText | None:
        """Texts with labels."""
        return labelled_part(data, "train")

    def texts(self, example: Example) -> Iterable[str]:
        """The text without its label."""
        return (example.text,)

    def labels(self, examples: Iterable[Example]) -> tuple[str, ...]:
        """Every label of these examples."""
        names = tuple(label_names(examples))
        if len(names) < 2:
            raise DataError(f"the labels are {names}, and there must be two or more; give other examples")
        return names

    def sizes(self, words: Vocabularies) -> Mapping[str, Any]:
        """The size of the vocabulary and the number of labels."""
        return {**super().sizes(words), "classes": len(words.labels)}

    def encode(self, corpus: Corpus[Example], words: Vocabularies, context: int, cache: Path | None) -> Data:
        """Ids, and the id of the label."""
        return encode_labelled(corpus, words.tokenizers.source, words.labels, context, cache)

    def batches(self, data: Data, words: Vocabularies, context: int, tokens: int, seed: int) -> Batches:
        """Texts of similar length."""
        return labelled_batches(data, words.tokenizers.source, tokens, seed)

    def measure(self, trained: Trained, held: EvaluationData, settings: ValidationTable) -> Measurement:
        """Accuracy, macro F1 and the confusion matrix."""
        predictions: list[np.ndarray] = []
        expected: list[np.ndarray] = []
        samples: list[Sample] = []
        labels, tokenizer = trained.words.labels, trained.words.tokenizers.source
        batches = self.scoring_batches(held, trained.words, trained.context)
        for batch, predicted in ranks.divided(lambda batch: (batch, _classify(trained, batch)), batches):
            predictions.append(predicted)
            expected.append(batch.labels)
            for row in range(min(batch.rows, settings.samples - len(samples))):
                text = tokenizer.decode(batch.input[row][batch.keys[row]])
                samples.append(Sample(text, labels[predicted[row]], labels[batch.labels[row]]))
        answers, correct = np.concatenate(predictions), np.concatenate(expected)
        table = confusion(answers, correct, labels)
        return Measurement([accuracy(answers, correct), macro_f1(table)], samples, table)


@torch.inference_mode()
def _classify(trained: Trained, batch: LabelledBatch) -> np.ndarray:
    device = device_of(trained.module)
    ids, keys = (torch.from_numpy(array).to(device) for array in (batch.input, batch.keys))
    return trained.module(ids, Mask(keys=keys)).argmax(-1).cpu().numpy()
