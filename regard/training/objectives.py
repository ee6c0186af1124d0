"""Objectives: a model with its loss, one class for each task.

`forward(batch)` returns the summed loss and the number of predictions, so that the parts of a step are added
up and divided once. Only positions that are scored reach the head. In eval mode the loss has no label
smoothing and no R-Drop, so that exp(loss / count) is a perplexity.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import SettingError
from regard.model.masks import EVERYTHING, Mask
from regard.model.outputs import LMHead, MaskedLMHead
from regard.model.transformer import DecoderOnly, EncoderDecoder, EncoderOnly, Transformer
from regard.text.collate import LabelledBatch, MaskedBatch, ParallelBatch, TextBatch
from regard.training.loss import CrossEntropyLoss


class Objective(nn.Module):
    """A model and its loss."""

    def __init__(self, model: Transformer, label_smoothing: float = 0.0, r_drop: float = 0.0):
        super().__init__()
        if r_drop and not model.config.dropout:
            raise SettingError(f"r_drop ({r_drop}) needs dropout, or both passes are equal; set r_drop to 0")
        self.model, self.loss = model, CrossEntropyLoss(label_smoothing, r_drop)


class Translation(Objective):
    """The loss of each target token, given the source and the target tokens before it."""

    model: EncoderDecoder

    def forward(self, batch: ParallelBatch) -> tuple[Tensor, int]:
        """The summed loss and the number of target tokens."""
        device, batch = _device(self), _loss(self).repeated(batch)
        mask = _padding(batch.source_keys, device)
        memory = self.model.encode(_tensor(batch.source, device), mask)
        # Targets are padded on the right, where no scored token attends.
        hidden = self.model.decode(_tensor(batch.target_in, device), memory, mask)
        return _word_loss(self, hidden, batch.target_out, batch.target_keys)


class LanguageModeling(Objective):
    """The loss of each token, given the tokens before it."""

    model: DecoderOnly

    def forward(self, batch: TextBatch) -> tuple[Tensor, int]:
        """The summed loss and the number of tokens."""
        batch = _loss(self).repeated(batch)
        hidden = self.model.decode(_tensor(batch.input, _device(self)))
        return _word_loss(self, hidden, batch.output, batch.keys)


class MaskedLanguageModeling(Objective):
    """The loss of each masked token, given the tokens around it."""

    model: EncoderOnly

    def forward(self, batch: MaskedBatch) -> tuple[Tensor, int]:
        """The summed loss and the number of masked tokens."""
        device, batch = _device(self), _loss(self).repeated(batch)
        hidden = self.model.encode(_tensor(batch.input, device), _padding(batch.keys, device))
        return _word_loss(self, hidden, batch.output, batch.chosen)


class Classification(Objective):
    """The loss of the label of each text."""

    model: EncoderOnly

    def forward(self, batch: LabelledBatch) -> tuple[Tensor, int]:
        """The summed loss and the number of texts."""
        device, batch = _device(self), _loss(self).repeated(batch)
        logits = self.model(_tensor(batch.input, device), _padding(batch.keys, device))  # B C
        return _loss(self).of_logits(logits, _tensor(batch.labels, device)), batch.rows


def _loss(objective: Objective) -> CrossEntropyLoss:
    """The loss to minimise; in eval mode without label smoothing and R-Drop."""
    return objective.loss if objective.training else CrossEntropyLoss()


def _word_loss(
    objective: Objective, hidden: Tensor, words: np.ndarray, scored: np.ndarray
) -> tuple[Tensor, int]:
    """The loss of the places that are scored, from hidden B Q D and words B Q."""
    places = np.flatnonzero(scored)
    rows = hidden.flatten(0, 1)  # BQ D
    if len(places) < len(rows):
        rows = rows.index_select(0, _tensor(places, hidden.device))
    rows, head = _before_words(objective.model.head, rows)
    targets = _tensor(words.reshape(-1)[places], hidden.device)
    return _loss(objective).of_hidden(rows, head, targets), len(places)


def _before_words(head: nn.Module, rows: Tensor) -> tuple[Tensor, LMHead]:
    """The rows as the last matrix takes them, and the module that holds it."""
    if isinstance(head, MaskedLMHead):
        return head.norm(head.activation(head.transform(rows))), head.words
    assert isinstance(head, LMHead)
    return rows, head


def _padding(keys: np.ndarray, device: torch.device) -> Mask:
    """Which keys exist; without padding everything is open, and attention needs no matrix."""
    return EVERYTHING if keys.all() else Mask(keys=_tensor(keys, device))


def _tensor(array: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)


def _device(module: nn.Module) -> torch.device:
    return next(module.parameters()).device
