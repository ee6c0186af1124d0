"""What a model is trained for: a model, its head and its loss in one module, from a batch to a number.

Each `forward(batch)` gives the summed loss and how many predictions it is summed over, so that parts of
a step can be added up and divided once. Only places that are scored reach the head. While training, the
loss is smoothed; in eval mode it is not, so that exp(loss / count) is a perplexity.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import SettingError
from regard.model.masks import EVERYTHING, Mask
from regard.model.outputs import LMHead, MaskedLMHead
from regard.model.transformer import DecoderOnly, EncoderDecoder, EncoderOnly, Transformer
from regard.registry import Registry
from regard.text.collate import LabelledBatch, MaskedBatch, ParallelBatch, TextBatch
from regard.training.loss import CrossEntropyLoss


class Translation(nn.Module):
    """Each next word of the target from the source and the words before it."""

    def __init__(self, model: EncoderDecoder, label_smoothing: float = 0.1, r_drop: float = 0.0):
        super().__init__()
        self.model, self.loss = model, CrossEntropyLoss(label_smoothing, r_drop)

    def forward(self, batch: ParallelBatch) -> tuple[Tensor, int]:
        """The summed loss and how many target tokens there are."""
        device, batch = _device(self), _loss(self).repeated(batch)
        mask = _padding(batch.source_keys, device)
        memory = self.model.encode(_tensor(batch.source, device), mask)
        # Targets are padded on the right, where no token that is scored looks.
        hidden = self.model.decode(_tensor(batch.target_in, device), memory, mask)
        return _word_loss(self, hidden, batch.target_out, batch.target_keys)


class Writing(nn.Module):
    """Each next token of a text from those before it."""

    def __init__(self, model: DecoderOnly, label_smoothing: float = 0.0, r_drop: float = 0.0):
        super().__init__()
        self.model, self.loss = model, CrossEntropyLoss(label_smoothing, r_drop)

    def forward(self, batch: TextBatch) -> tuple[Tensor, int]:
        """The summed loss and how many tokens there are."""
        batch = _loss(self).repeated(batch)
        hidden = self.model.decode(_tensor(batch.input, _device(self)))
        return _word_loss(self, hidden, batch.output, batch.keys)


class Filling(nn.Module):
    """The tokens that were hidden, from those around them."""

    def __init__(self, model: EncoderOnly, label_smoothing: float = 0.0, r_drop: float = 0.0):
        super().__init__()
        self.model, self.loss = model, CrossEntropyLoss(label_smoothing, r_drop)

    def forward(self, batch: MaskedBatch) -> tuple[Tensor, int]:
        """The summed loss and how many tokens were to be guessed."""
        device, batch = _device(self), _loss(self).repeated(batch)
        hidden = self.model.encode(_tensor(batch.input, device), _padding(batch.keys, device))
        return _word_loss(self, hidden, batch.output, batch.chosen)


class Classification(nn.Module):
    """The label of a text."""

    def __init__(self, model: EncoderOnly, label_smoothing: float = 0.0, r_drop: float = 0.0):
        super().__init__()
        self.model, self.loss = model, CrossEntropyLoss(label_smoothing, r_drop)

    def forward(self, batch: LabelledBatch) -> tuple[Tensor, int]:
        """The summed loss and how many texts there are."""
        device, batch = _device(self), _loss(self).repeated(batch)
        logits = self.model(_tensor(batch.input, device), _padding(batch.keys, device))  # B C
        return _loss(self).of_logits(logits, _tensor(batch.labels, device)), batch.rows


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
    name: str, model: Transformer, label_smoothing: float = 0.0, r_drop: float = 0.0
) -> Objective:
    """The objective of that name around a model that can have it."""
    make, family, output = OBJECTIVES.find(name)
    config = model.config
    if (config.family, config.output) != (family, output):
        raise SettingError(
            f"{name} needs a model of family {family} with output {output}, "
            f"not {config.family} with {config.output}; change [model]"
        )
    if r_drop and not model.config.dropout:
        raise SettingError(f"r_drop ({r_drop}) needs dropout, or both passes are equal; set r_drop to 0")
    return make(model, label_smoothing, r_drop)


def _loss(objective: Objective) -> CrossEntropyLoss:
    """The loss to minimise; in eval mode without label smoothing and R-Drop."""
    return objective.loss if objective.training else CrossEntropyLoss()


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
