"""Word dropout: input tokens replaced by the mask token at random, as regularisation.

The masked tokens are still predicted. It helps most with little text (Sennrich and Zhang 2019).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from regard.errors import SettingError
from regard.text.batches import Augmentation, BatchType, SampledBatch
from regard.text.collate import Batch, LabelledBatch, ParallelBatch, TextBatch
from regard.text.tokenizer import Tokenizer, Tokenizers

_STREAM = 2  # distinguishes these random numbers from others of the same batch


@dataclass(frozen=True)
class WordDropout(Augmentation):
    """Masks each input token with probability `rate`, other tokens in every epoch.

    Start, end, padding and the tokens to be predicted do not change. A rate of 0 changes nothing.
    """

    rate: float
    tokenizers: Tokenizers
    seed: int

    def augment_batch(self, batch: BatchType, sampled: SampledBatch) -> BatchType:
        """The batch with masked input tokens."""
        if not self.rate:
            return batch
        random = np.random.default_rng([self.seed, sampled.epoch, sampled.index, _STREAM])
        masked = {
            name: self._mask(getattr(batch, name), tokenizer, random)
            for name, tokenizer in self._inputs(batch).items()
        }
        return replace(batch, **masked)

    def _inputs(self, batch: Batch) -> dict[str, Tokenizer]:
        """The names of the input arrays, with the tokenizer of each."""
        if isinstance(batch, ParallelBatch):
            return {"source": self.tokenizers.source, "target_in": self.tokenizers.target}
        if isinstance(batch, TextBatch | LabelledBatch):
            return {"input": self.tokenizers.source}
        raise SettingError(
            f"word_dropout ({self.rate}) does not apply to a {type(batch).__name__}; set word_dropout to 0"
        )

    def _mask(self, ids: np.ndarray, tokenizer: Tokenizer, random: np.random.Generator) -> np.ndarray:
        ordinary = ~np.isin(ids, list(tokenizer.specials.values()))
        return np.where(ordinary & (random.random(ids.shape) < self.rate), tokenizer.mask, ids)
