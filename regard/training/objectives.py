"""What a model is trained for: a model, its head and its loss in one module, from a batch to a number.

Each `forward(batch)` gives the summed loss and how many predictions it is summed over, so that parts of
a step can be added up and divided once. Only places that are scored reach the head. While training, the
loss is smoothed; in eval mode it is not, so that exp(loss / count) is a perplexity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import SettingError
from regard.model.masks import EVERYTHING, Mask
from regard.model.outputs import LMHead, MaskedLMHead
from regard.model.transformer import DecoderOnly, EncoderDecoder, EncoderOnly, Transformer
from regard.registry import Registry
from regard.text.collate import LabelledBatch, MaskedBatch, ParallelBatch, TextBatch
from regard.training.loss import cross_entropy, note_cross_entropy

Some = TypeVar("Some", ParallelBatch, TextBatch, MaskedBatch, LabelledBatch)


class Translation(nn.Module):
    """Each next word of the target from the source and the words before it."""

    def __init__(self, model: EncoderDecoder, smoothing: float = 0.1, agreement: float = 0.0):
        super().__init__()
        self.model, self.smoothing, self.agreement = model, smoothing, agreement

    def forward(self, batch: ParallelBatch) -> tuple[Tensor, int]:
        """The summed loss and how many target tokens there are."""
        device, batch = _device(self), _passes(self, batch)
        mask = _padding(batch.source_keys, device)
        memory = self.model.encode(_tensor(batch.source, device), mask)
        # Targets are padded on the right, where no token that is scored looks.
        hidden = self.model.decode(_tensor(batch.target_in, device), memory, mask)
        return _word_loss(self, hidden, batch.target_out, batch.target_keys)


class Writing(nn.Module):
    """Each next token of a text from those before it."""

    def __init__(self, model: DecoderOnly, smoothing: float = 0.0, agreement: float = 0.0):
        super().__init__()
        self.model, self.smoothing, self.agreement = model, smoothing, agreement

    def forward(self, batch: TextBatch) -> tuple[Tensor, int]:
        """The summed loss and how many tokens there are."""
        batch = _passes(self, batch)
        hidden = self.model.decode(_tensor(batch.input, _device(self)))
        return _word_loss(self, hidden, batch.output, batch.keys)


class Filling(nn.Module):
    """The tokens that were hidden, from those around them."""

    def __init__(self, model: EncoderOnly, smoothing: float = 0.0, agreement: float = 0.0):
        super().__init__()
        self.model, self.smoothing, self.agreement = model, smoothing, agreement

    def forward(self, batch: MaskedBatch) -> tuple[Tensor, int]:
        """The summed loss and how many tokens were to be guessed."""
        device, batch = _device(self), _passes(self, batch)
        hidden = self.model.encode(_tensor(batch.input, device), _padding(batch.keys, device))
        return _word_loss(self, hidden, batch.output, batch.chosen)


class Classification(nn.Module):
    """The label of a text."""

    def __init__(self, model: EncoderOnly, smoothing: float = 0.0, agreement: float = 0.0):
        super().__init__()
        self.model, self.smoothing, self.agreement = model, smoothing, agreement

    def forward(self, batch: LabelledBatch) -> tuple[Tensor, int]:
        """The summed loss and how many texts there are."""
        device, batch = _device(self), _passes(self, batch)
        logits = self.model(_tensor(batch.input, device), _padding(batch.keys, device))  # B C
        smoothing = self.smoothing if self.training else 0.0
        labels = _tensor(batch.labels, device)
        loss = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
        note_cross_entropy(F.cross_entropy(logits.detach(), labels, reduction="none"))
        if self.training and self.agreement:
            p, q = logits.log_softmax(-1).chunk(2)
            loss = loss + self.agreement / 2 * ((p.exp() - q.exp()) * (p - q)).sum()
        return loss, batch.rows


Objective = Translation | Writing | Filling | Classification
# Each with the family and the output that its model must have.
OBJECTIVES: Registry[tuple[Callable[..., Objective], str, str]] = Registry(
    "task",
    {
        "translation": (Translation, "encoder-decoder", "words"),
        "language-modeling": (Writing, "decoder-only", "words"),
        "masked-language-modeling": (Filling, "encoder-only", "masked"),
        "classification": (Classification, "encoder-only", "classes"),
    },
)


def build_objective(
    name: str, model: Transformer, smoothing: float = 0.0, agreement: float = 0.0
) -> Objective:
    """The objective of that name around a model that can have it."""
    make, family, output = OBJECTIVES.find(name)
    config = model.config
    if (config.family, config.output) != (family, output):
        raise SettingError(
            f"{name} needs a model of family {family} with output {output}, "
            f"not {config.family} with {config.output}; change [model]"
        )
    if not 0 <= smoothing < 1:
        raise SettingError(f"label_smoothing ({smoothing}) must be at least 0 and below 1; the paper has 0.1")
    if agreement and not model.config.dropout:
        raise SettingError(f"r_drop ({agreement}) needs dropout: without it two passes are one; set it to 0")
    return make(model, smoothing, agreement)


def _passes(objective: Objective, batch: Some) -> Some:
    """The batch, or twice the same rows in one where two passes over each are to agree."""
    if not (objective.training and objective.agreement):
        return batch
    return replace(batch, **{name: np.concatenate([array, array]) for name, array in vars(batch).items()})


def _word_loss(
    objective: Translation | Writing | Filling, hidden: Tensor, words: np.ndarray, scored: np.ndarray
) -> tuple[Tensor, int]:
    """The loss of the places that are scored, from hidden B Q D and words B Q."""
    places = np.flatnonzero(scored)
    rows = hidden.flatten(0, 1)  # BQ D
    if len(places) < len(rows):
        rows = rows.index_select(0, _tensor(places, hidden.device))
    rows, head = _before_words(objective.model.head, rows)
    targets = _tensor(words.reshape(-1)[places], hidden.device)
    smoothing = objective.smoothing if objective.training else 0.0
    agreement = objective.agreement if objective.training else 0.0
    loss = cross_entropy(rows, head.weight, targets, head.bias, smoothing, agreement=agreement)
    return loss, len(places)


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
