"""Word dropout: tokens hidden from a model while it trains, so that it leans on more than one of them.

A hidden token is read as the mask and still predicted. It is meant for little text (Sennrich and Zhang 2019).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regard.errors import SettingError
from regard.text.batches import Batches, Made, Step
from regard.text.collate import Batch, LabelledBatch, ParallelBatch, TextBatch
from regard.text.tokenizer import Tokenizer, Tokenizers

_OWN_RANDOM = 2  # tells these draws from others of the same step


def hiding(batches: Batches[Made], share: float, tokenizers: Tokenizers, seed: int) -> Batches[Made]:
    """The same batches with that share of what they read hidden, other tokens in every epoch."""
    if not share:
        return batches
    fetch = batches.fetch

    def fetch_hidden(step: Step) -> Made:
        random = np.random.default_rng([seed, step.epoch, step.index, _OWN_RANDOM])
        return hide(fetch(step), share, tokenizers, random)

    batches.fetch = fetch_hidden
    return batches


def hide(batch: Made, share: float, tokenizers: Tokenizers, random: np.random.Generator) -> Made:
    """A batch with a share of its tokens hidden; start, end and padding stay, and so does what is scored."""
    hidden = {
        name: _masked(getattr(batch, name), tokenizer, share, random)
        for name, tokenizer in _read(batch, tokenizers).items()
    }
    return replace(batch, **hidden)  # pyright: ignore[reportArgumentType, reportCallIssue]


def _read(batch: Batch, tokenizers: Tokenizers) -> dict[str, Tokenizer]:
    """The arrays that a model reads, by name, and what their ids are of."""
    if isinstance(batch, ParallelBatch):
        return {"source": tokenizers.source, "target_in": tokenizers.target}
    if isinstance(batch, TextBatch | LabelledBatch):
        return {"input": tokenizers.source}
    raise SettingError(f"there is nothing to hide in a {type(batch).__name__}; leave hide at 0")


def _masked(ids: np.ndarray, tokenizer: Tokenizer, share: float, random: np.random.Generator) -> np.ndarray:
    ordinary = ~np.isin(ids, list(tokenizer.specials.values()))
    return np.where(ordinary & (random.random(ids.shape) < share), tokenizer.mask, ids)
