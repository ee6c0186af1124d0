"""Bidirectional training: in the first epochs, or in all, each pair is also trained from target to source.

It helps most with few pairs (Ding et al. 2021). Source and target need a joint vocabulary. No token marks the
direction, since the language of the source implies it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from regard.errors import SettingError
from regard.text.batches import Augmentation
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Bidirectional(Augmentation):
    """Adds every pair with source and target exchanged, in the first `epochs`; 0 changes nothing."""

    epochs: int | Literal["all"]
    tokenizers: Tokenizers

    def augment_data(self, data: Data) -> Data:
        """The pairs, followed in the first epochs by the exchanged pairs."""
        if not self.epochs:
            return data
        if not self.tokenizers.are_joint:
            raise SettingError(
                f"bidirectional_epochs ({self.epochs}) needs a joint vocabulary, not one for each side; "
                "set tokenizer.joint to true, or bidirectional_epochs to 0"
            )
        source, target = data["source"], data["target"]
        epochs = math.inf if self.epochs == "all" else self.epochs
        columns = {
            **data.columns,
            "source": BidirectionalSequences(source.ids, source.offsets, source, target, epochs),
            "target": BidirectionalSequences(target.ids, target.offsets, target, source, epochs),
        }
        return replace(data, columns=columns, identity=f"{data.identity} bidirectional {self.epochs}")


@dataclass(frozen=True, eq=False)
class BidirectionalSequences(Sequences):
    """One side of the pairs, followed in the first epochs by the other side."""

    own: Sequences
    other: Sequences
    epochs: float

    def lengths_in(self, epoch: int) -> np.ndarray:
        """The length of each sequence in an epoch."""
        own = self.own.lengths_in(epoch)
        return own if epoch >= self.epochs else np.concatenate([own, self.other.lengths_in(epoch)])

    def take(self, examples: np.ndarray, epoch: int) -> list[np.ndarray]:
        """The ids of these examples; numbers from `len(self)` on refer to the other side."""
        is_other = examples >= len(self)
        own = iter(self.own.take(examples[~is_other], epoch))
        other = iter(self.other.take(examples[is_other] - len(self), epoch))
        return [next(other if exchanged else own) for exchanged in is_other]
